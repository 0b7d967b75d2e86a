"""BLEU, size and speed of a student, of its teacher, and of CTranslate2 with the same weights.

    python benchmarks/students.py --teacher=runs/teacher --student=runs/student --source=test.en --reference=test.de

Both are runs. Each row has a process of its own, with as many threads as there are processors; rows take turns, so
that all see the same machine. A row translates all lines at once, and the first of them one at a time. Sizes are those
of the file of weights in an export: variables.data of TensorFlow Serving, model.bin of CTranslate2. The student also
has a shortlist (t2t-lite-shortlist). Needs the extra t2t-lite[ctranslate2].
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import engines

from t2t_lite.export.ctranslate2_readme import USUAL_LENGTH, engine_length_penalty
from t2t_lite.metrics import names
from t2t_lite.metrics.score import score_lines

SINGLE = 100  # lines that are translated one at a time


class Row(NamedTuple):
    """What translates: `run` is "teacher" or "student"."""

    run: str
    engine: str
    precision: str
    beam_size: int
    shortlist: bool = False


def rows() -> list[Row]:
    """The rows of the table; the first is what the others are compared with."""
    ours = [
        Row(run, "t2t-lite", precision, beam, shortlist)
        for run, precision in (("teacher", "float32"), ("student", "float32"), ("student", "int8"))
        for shortlist in ((False, True) if run == "student" else (False,))
        for beam in (5, 1)
    ]
    return ours + [row._replace(engine="CTranslate2") for row in ours if not row.shortlist]


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("teacher", "student", "source", "reference"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--metric", default="bleu_tok_lc", help="default: %(default)s")
    parser.add_argument("--language", default="de", help="of the references; default: %(default)s")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    runs = {"teacher": os.path.abspath(args.teacher), "student": os.path.abspath(args.student)}
    texts, references = read_lines(args.source), read_lines(args.reference)
    print(f"{engines.machine()}, {len(os.sched_getaffinity(0))} of them used\n")
    print("| run | engine | precision | beam | shortlist | MB | score | ms a line, alone | lines/s, all at once |")
    print("|---|---|---|---|---|---|---|---|---|")
    alone: dict[Row, list[float]] = {row: [] for row in rows()}
    whole: dict[Row, list[float]] = {row: [] for row in rows()}
    with tempfile.TemporaryDirectory(prefix="t2t-lite-students-") as folder:
        sizes = {row: export(row, runs[row.run], folder) for row in rows()}
        started = {row: start(row, runs[row.run], folder) for row in sizes}
        outputs = {row: ask(process, texts)[1] for row, process in started.items()}
        some = texts[:SINGLE]
        for process in started.values():
            ask(process, some, single=True)
        for _ in range(args.rounds):
            for row, process in started.items():
                alone[row].append(ask(process, some, single=True)[0])
                whole[row].append(ask(process, texts)[0])
    metric = names.metric(args.metric, args.language)
    for row, size in sizes.items():
        score = score_lines(metric, outputs[row], references, texts).value
        single, speed = 1000 * statistics.median(alone[row]) / len(some), len(texts) / statistics.median(whole[row])
        print("|", " | ".join(map(str, row)), f"| {size / 1e6:.2f} | {score:.2f} | {single:.1f} | {speed:.0f} |")


def read_lines(path: str) -> list[str]:
    """The lines of a file."""
    return Path(path).read_text(encoding="utf-8").removesuffix("\n").split("\n")


def export(row: Row, run: str, folder: str) -> int:
    """Exports a row's weights, unless another row has them; returns the size of their file in bytes."""
    form = "ctranslate2" if row.engine == "CTranslate2" else "saved_model"
    path = model_folder(row, folder)
    if not path.exists():
        flags = [f"--output_dir={run}", f"--format={form}", f"--export_dir={path}", f"--precision={row.precision}"]
        subprocess.run(
            [sys.executable, "-m", "t2t_lite.cli.exporter", *flags, "--quiet"], check=True, stdout=subprocess.DEVNULL
        )
    [weights] = path.rglob("model.bin" if form == "ctranslate2" else "variables.data*")
    return weights.stat().st_size


def model_folder(row: Row, folder: str) -> Path:
    """The folder of a row's export."""
    return Path(folder, f"{row.run} {row.engine} {row.precision}")


def start(row: Row, run: str, folder: str) -> Connection:
    """Starts a process that translates what it is sent."""
    ours, theirs = engines.PROCESSES.Pipe()
    engines.PROCESSES.Process(target=_translate, args=(row, run, folder, theirs), daemon=True).start()
    return ours


def ask(process: Connection, texts: list[str], *, single: bool = False) -> tuple[float, list[str]]:
    """Returns the seconds that a process took to translate all texts at once, or one at a time, and the outputs."""
    process.send((texts, single))
    return process.recv()


def _translate(row: Row, run: str, folder: str, asked: Connection) -> None:
    translate = load(row, run, folder)
    while True:
        texts, single = asked.recv()
        began = time.perf_counter()
        outputs = [output for text in texts for output in translate([text])] if single else translate(texts)
        asked.send((time.perf_counter() - began, outputs))


def load(row: Row, run: str, folder: str) -> Callable[[list[str]], list[str]]:
    """Returns what translates lines."""
    if row.engine == "CTranslate2":
        return load_ctranslate2(row, run, folder)
    import t2t_lite

    model: Any = t2t_lite.load(run, precision=row.precision)
    options = {"shortlist": True} if row.shortlist else {}
    return lambda lines: model.translate(lines, beam_size=row.beam_size, **options)


def load_ctranslate2(row: Row, run: str, folder: str) -> Callable[[list[str]], list[str]]:
    """Returns CTranslate2's translation, with the settings in the README.txt of our export."""
    import ctranslate2
    from sentencepiece import SentencePieceProcessor

    [model] = model_folder(row, folder).rglob("model.bin")
    pieces = SentencePieceProcessor(model_file=os.path.join(run, "vocabulary.model"))
    engine = ctranslate2.Translator(str(model.parent), intra_threads=len(os.sched_getaffinity(0)))
    alpha = json.loads(Path(run, "hparams.json").read_text(encoding="utf-8"))["hparams"]["length_penalty"]
    settings: dict[str, Any] = {
        "beam_size": row.beam_size,
        "length_penalty": engine_length_penalty(alpha, USUAL_LENGTH),
        "max_batch_size": 2048,
        "batch_type": "tokens",
    }

    def call(lines: list[str]) -> list[str]:
        found = engine.translate_batch(pieces.encode(lines, out_type=str), **settings)
        return [pieces.decode(result.hypotheses[0]) for result in found]

    return call


if __name__ == "__main__":
    main()
