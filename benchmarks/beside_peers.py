"""Our training steps and searches beside the best peer's, each as a ratio: OpenNMT-tf for training, CTranslate2 else.

    python benchmarks/beside_peers.py --onmt_python=peers/onmt/bin/python
    python benchmarks/beside_peers.py --only=D3,V8000,float32 --isa=avx2

T1, T2, D1, D2 and D3 are those of ledger.py. The other rows are D1 with one thing changed: vocabularies of 8,000 and
64,000 (V8000, V64000), sources of 8, 64 and 128 pieces and outputs of 8 more (S8, S64, S128), beams 2, 8 and 16 (beam 1
is D2), batches of 4 and 256 (batch 1 is D3). Weights and ids are random, and all outputs have the same length, which is
checked: the work is the same for all. Ours run with huge pages, as the commands do. CTranslate2 has the weights of our
model (engines.py) and runs as one worker with all threads, and as one worker for each thread where there are enough
sentences; OpenNMT-tf has a model of that size.

Each engine has a process of its own, and they take turns. Seconds are medians of the rounds; "ahead by" is the best
peer's time divided by ours. --isa=avx2 holds each engine's libraries to AVX2 by their own switches, to stand in for a
processor without AVX-512. --models keeps the exported models, so that a row that is run again starts sooner.

OpenNMT-tf needs an environment of its own: Python 3.10 with OpenNMT-tf==2.32.0 and tensorflow==2.13.*. CTranslate2 is
that of t2t-lite[ctranslate2].
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engines import THREADS, Work, export, machine, measure, start, timed
from ledger import DECODING, OUTPUT_LENGTH, SOURCE_LENGTH, TRAINING, VOCAB_SIZE

from t2t_lite import config, registry
from t2t_lite.cli.huge_pages import SETTING

ISA = {  # for oneDNN in both TensorFlows, CTranslate2, and the MKL in it
    "avx2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "CT2_FORCE_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
}
D1 = Work("base", VOCAB_SIZE, DECODING["D1"][0], SOURCE_LENGTH, OUTPUT_LENGTH, DECODING["D1"][1])
WORKS = {
    **{name: dataclasses.replace(D1, batch=batch, beam_size=beam) for name, (batch, beam) in DECODING.items()},
    **{f"V{size}": dataclasses.replace(D1, vocab_size=size) for size in (8_000, 64_000)},
    **{
        f"S{n}": dataclasses.replace(D1, pieces_in=n, pieces_out=n + OUTPUT_LENGTH - SOURCE_LENGTH)
        for n in (8, 64, 128)
    },
    **{f"beam{size}": dataclasses.replace(D1, beam_size=size) for size in (2, 8, 16)},
    **{f"batch{size}": dataclasses.replace(D1, batch=size) for size in (4, 256)},
}
PRECISIONS = {**dict.fromkeys(TRAINING, ("float32", "bfloat16")), **dict.fromkeys(WORKS, ("float32", "int8"))}


class OpenNMT:
    """OpenNMT-tf's step in a process of its own, asked and read as an engine of engines.py."""

    def __init__(self, python: str, workload: str, precision: str) -> None:
        hparams: Any = config.override(registry.hparams("base"), TRAINING[workload][0])
        rows, source_length, target_length, vocab_size = TRAINING[workload][1]
        work = {
            "layers": hparams.num_layers,
            "d_model": hparams.d_model,
            "d_ff": hparams.d_ff,
            "heads": hparams.num_heads,
            "vocab_size": vocab_size,
            "rows": rows,
            "source_length": source_length,
            "target_length": target_length,
            "precision": precision,
            "threads": THREADS,
        }
        self._process = subprocess.Popen(
            [python, str(Path(__file__).with_name("opennmt_side.py")), json.dumps(work)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def send(self, again: bool) -> None:
        """Asks for a step, or ends the process."""
        assert self._process.stdin
        if again:
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        else:
            self._process.stdin.close()

    def recv(self) -> float:
        """The seconds of the step."""
        assert self._process.stdout
        for line in self._process.stdout:
            if line.startswith("seconds "):
                return float(line.split()[1])
        raise SystemExit("OpenNMT-tf ended without an answer: run opennmt_side.py alone to see why.")


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description="Our training steps and searches beside the best peer's.")
    parser.add_argument(
        "--only", default="", help=f"rows and precisions: {','.join(PRECISIONS)}, float32, int8, bfloat16"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--onmt_python", help="Python of OpenNMT-tf's environment; T1 and T2 need it")
    parser.add_argument("--isa", choices=sorted(ISA), help="the newest instructions that the engines may use")
    parser.add_argument("--models", help="where exported models are kept; default: nowhere")
    args = parser.parse_args()
    os.environ |= ISA.get(args.isa, {})
    rows = list(chosen(args.only))
    if not args.onmt_python and any(row in TRAINING for row, _ in rows):
        parser.error("T1 and T2 need --onmt_python; or choose other rows with --only")
    print(machine() + (f", held to {args.isa}" if args.isa else ""))
    print("\n| row | precision | ours, s (min to max) | best peer, s (min to max) | ahead by | all peers, s |")
    print("|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory(prefix="t2t-lite-peers-") as made:
        for row, precision in rows:
            if row in TRAINING:
                ours: Any = timed(training, row, precision, environment=SETTING)
                started = {"t2t-lite": ours, "OpenNMT-tf": OpenNMT(args.onmt_python, row, precision)}
            else:
                started = engines(WORKS[row], precision, Path(args.models or made))
            report(row, precision, measure(started, args.rounds))


def chosen(only: str) -> list[tuple[str, str]]:
    """The rows and precisions that `only` names; all of a kind of which it names none."""
    words = set(only.replace(",", " ").split())
    known = {precision for found in PRECISIONS.values() for precision in found}
    if unknown := words - known - set(PRECISIONS):
        raise SystemExit(f"--only: no row and no precision is called {', '.join(sorted(unknown))}.")
    rows, precisions = words & set(PRECISIONS) or set(PRECISIONS), words & known or known
    return [(row, p) for row, found in PRECISIONS.items() if row in rows for p in found if p in precisions]


def training(workload: str, precision: str) -> Callable[[], Any]:
    """Our training step."""
    from ledger import _training

    from t2t_lite.distributed.tensorflow_loading import load_tensorflow

    load_tensorflow()
    call, *_ = _training(workload, precision)
    return call


def engines(work: Work, precision: str, models: Path) -> dict[str, Any]:
    """The processes of a search's row, each of which has one call ready."""
    folder = models / str(work.vocab_size)
    if not (folder / "CTranslate2 int8" / "1" / "model.bin").exists():  # the last that `export` writes
        folder.mkdir(parents=True, exist_ok=True)
        export(work, str(folder), ["CTranslate2 float32", "CTranslate2 int8"])
    names = [f"CTranslate2 {precision} 1", f"CTranslate2 {precision} {THREADS}"][: 2 if work.batch >= THREADS else 1]
    return {name: start(name, work, str(folder)) for name in (f"t2t-lite {precision}", *names)}


def report(row: str, precision: str, taken: dict[str, list[float]]) -> None:
    """Prints a row."""
    medians = {name: statistics.median(values) for name, values in taken.items()}
    ours, *peers = medians
    best = min(peers, key=lambda name: medians[name])
    seconds = {name: f"{medians[name]:.3f} ({min(taken[name]):.3f} to {max(taken[name]):.3f})" for name in (ours, best)}
    listed = ", ".join(f"{name.replace(f' {precision}', '')}: {medians[name]:.3f}" for name in peers)
    ahead = medians[best] / medians[ours]
    print(f"| {row} | {precision} | {seconds[ours]} | {seconds[best]} | **{ahead:.2f}** | {listed} |", flush=True)


if __name__ == "__main__":
    main()
