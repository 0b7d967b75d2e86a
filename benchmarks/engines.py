"""Sentences per second of our search and of CTranslate2 with the same weights, and the ratio.

    python benchmarks/engines.py --hparams_set=base

Random weights and ids, 32 pieces in and exactly 40 out, beam 4: with a fixed length the work is the same for all. Each
engine has its own process, because in one process the threads of one engine slow the other down, up to twofold. Engines
take turns, so that all see the same machine. Prints medians over the rounds, with the smallest and the largest. Needs
the extra t2t-lite[ctranslate2]. (A script called ctranslate2.py would hide the package from itself.)
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import multiprocessing
import os
import platform
import random
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from t2t_lite import config, registry
from t2t_lite.distributed.tensorflow_loading import load_tensorflow
from t2t_lite.ops import threads

ENGINES = ("t2t-lite float32", "t2t-lite bfloat16", "t2t-lite int8", "CTranslate2 float32", "CTranslate2 int8")
THREADS = 2
VOCABULARY = {"base": 37000, "tiny": 8000}  # pieces
BATCHES = (1, 32)
EOS, FIRST, SEED = 1, 4, 1  # the end symbol, the first ordinary piece
FULL = 32  # sentences that a worker of CTranslate2 searches at once
PROCESSES = multiprocessing.get_context("spawn")
Call = Callable[[], Any]


@dataclasses.dataclass(frozen=True)
class Work:
    """What a call does: from `batch` sentences of `pieces_in`, with the end symbol, to exactly `pieces_out` each."""

    hparams_set: str
    vocab_size: int
    batch: int
    pieces_in: int = 32
    pieces_out: int = 40
    beam_size: int = 4


class Names:
    """Stands for a vocabulary where there is no text."""

    unknown, labels, suffix = None, (), ".txt"

    def __init__(self, size: int) -> None:
        self.size = size

    def pieces(self, ids: Any) -> list[str]:
        return [f"w{i}" for i in ids]

    def save(self, path: Path) -> None:
        """Has no file."""


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description="Times our search beside CTranslate2 with the same weights.")
    parser.add_argument("--hparams_set", choices=sorted(VOCABULARY), default="base")
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    print(machine())
    works = [Work(args.hparams_set, VOCABULARY[args.hparams_set], batch) for batch in BATCHES]
    work = works[0]
    print(
        f"{args.hparams_set}, {work.pieces_in} pieces in, {work.pieces_out} out, beam {work.beam_size}, "
        f"{THREADS} threads each\n"
    )
    print("| batch | engine | seconds, median (min to max) | sentences/s | to ours in float32 |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="t2t-lite-engines-") as folder:
        export(work, folder)
        for work in works:
            report(work.batch, measure({engine: start(engine, work, folder) for engine in ENGINES}, args.rounds))


def export(work: Work, folder: str) -> None:
    """Writes the weights as models for CTranslate2, each as version 1 of a folder, in a process of its own."""
    exporter = PROCESSES.Process(target=_export, args=(work, folder))
    exporter.start()
    exporter.join()
    if exporter.exitcode:
        raise SystemExit("The model could not be written for CTranslate2; see above.")


def _export(work: Work, folder: str) -> None:
    load_tensorflow()
    from t2t_lite.export import ctranslate2_export

    made = translator(work, "float32", changing=True)
    for precision in ("float32", "int8"):
        ctranslate2_export.export_ctranslate2(made, os.path.join(folder, precision), {}, precision=precision)


def start(engine: str, work: Work, folder: str) -> Connection:
    """A process that translates a batch on request and answers with the seconds it took.

    Args:
        engine: one of ENGINES; CTranslate2 also with the number of its workers, as in "CTranslate2 int8 2".
    """
    name, precision, *workers = engine.split()
    if name == "t2t-lite":
        return timed(search, work, precision)
    return timed(ctranslate2_search, work, os.path.join(folder, precision, "1"), *map(int, workers))


def timed(make: Callable[..., Call], *args: Any) -> Connection:
    """A process that makes a call with `make`, runs it on request, and answers with the seconds it took."""
    ours, theirs = PROCESSES.Pipe()
    PROCESSES.Process(target=_answer, args=(make, args, theirs), daemon=True).start()
    theirs.close()
    return ours


def _answer(make: Callable[..., Call], args: tuple[Any, ...], asked: Connection) -> None:
    call = make(*args)
    while asked.recv():
        began = time.perf_counter()
        call()
        asked.send(time.perf_counter() - began)


def translator(work: Work, precision: str, *, changing: bool = False) -> Any:
    """A translator with random weights that never gives the end symbol: its logit is 0, far from the best of thousands.

    Unless its weights are `changing`, the model is set up as in t2t-lite-decoder.
    """
    import keras

    from t2t_lite.decoding.translate import Translator
    from t2t_lite.ops.int8 import adapt_to_processor, quantize
    from t2t_lite.ops.prepacked import is_supported

    keras.utils.set_random_seed(SEED)
    decoding = {"beam_size": work.beam_size, "extra_length": work.pieces_out - work.pieces_in}
    wide = "float32" if precision == "int8" else precision
    hparams = config.replace(registry.hparams(work.hparams_set), precision=wide, **decoding)
    names: Any = Names(work.vocab_size)
    registered: Any = registry.MODELS.get("transformer")
    model = registered.from_hparams(hparams, names.size, names.size, True)
    table = model.softmax.table.numpy()
    table[EOS] = 0.0
    model.softmax.table.assign(table)
    if precision == "int8":
        quantize(model)
        adapt_to_processor(model)
    made = Translator(model, names, names, hparams)
    made.prepack = not changing and is_supported(model.compute_dtype)
    return made


def search(work: Work, precision: str) -> Call:
    """The search that t2t-lite-decoder runs; with many sentences, each thread has some of its own."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    load_tensorflow()
    import numpy as np
    import tensorflow as tf

    from t2t_lite.decoding.translate import FEW, SEARCH_SIGNATURE

    threads.set_inter_op_parallelism(at_most=work.batch // FEW)
    made = translator(work, precision)
    graph = tf.function(made.search, input_signature=SEARCH_SIGNATURE, autograph=False)
    ids = np.array([[*row, EOS] for row in sources(work)], np.int32)
    parts = np.array_split(ids, threads.num_parallel())

    def call() -> None:
        for found in threads.parallel_map(lambda part: graph(part, True)[0][:, 0].numpy(), parts):
            check(work, [int((row != 0).sum()) for row in found])

    return call


def ctranslate2_search(work: Work, model: str, workers: int = 1) -> Call:
    """The search of CTranslate2, which adds the end symbol to a source itself; several workers share the batch."""
    import ctranslate2

    engine = ctranslate2.Translator(model, inter_threads=workers, intra_threads=THREADS // workers)
    names = Names(work.vocab_size)
    pieces = [names.pieces(row) for row in sources(work)]
    settings: dict[str, Any] = {
        "beam_size": work.beam_size,
        "min_decoding_length": work.pieces_out,
        "max_decoding_length": work.pieces_out,
        "max_batch_size": min(-(-work.batch // workers), FULL) if workers > 1 else 0,
    }
    return lambda: check(work, [len(r.hypotheses[0]) for r in engine.translate_batch(pieces, **settings)])


def sources(work: Work) -> list[list[int]]:
    """Ids without the end symbol, the same for all engines."""
    draw = random.Random(1)
    return [[draw.randrange(FIRST, work.vocab_size) for _ in range(work.pieces_in - 1)] for _ in range(work.batch)]


def check(work: Work, lengths: list[int]) -> None:
    """Ends the process, and so the benchmark, if an engine did more or less work than it should."""
    if set(lengths) != {work.pieces_out}:
        raise SystemExit(f"outputs of {sorted(set(lengths))} pieces instead of {work.pieces_out}")


def measure(started: dict[str, Connection], rounds: int) -> dict[str, list[float]]:
    """Seconds of each engine's calls, in turns; each is run once before, and ended at last."""
    taken: dict[str, list[float]] = {name: [] for name in started}
    for turn in range(rounds + 1):
        for name, engine in started.items():
            engine.send(True)
            seconds = engine.recv()
            if turn:
                taken[name].append(seconds)
    for engine in started.values():
        engine.send(False)
    return taken


def report(batch: int, taken: dict[str, list[float]]) -> None:
    """Prints a row for each engine."""
    medians = {name: statistics.median(values) for name, values in taken.items()}
    for name, seconds in medians.items():
        spread = f"{seconds:.3f} ({min(taken[name]):.3f} to {max(taken[name]):.3f})"
        ratio = medians["t2t-lite float32"] / seconds
        print(f"| {batch} | {name} | {spread} | {batch / seconds:.2f} | {ratio:.2f} |", flush=True)


def machine() -> str:
    """The processor and the versions, in one line."""
    cpuinfo = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.*)", cpuinfo.read_text()) if cpuinfo.exists() else None
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("tensorflow", "ctranslate2")]
    processor = found[1] if found else platform.machine()
    return ", ".join([processor, f"{os.cpu_count()} CPUs", f"Python {platform.python_version()}", *versions])


if __name__ == "__main__":
    main()
