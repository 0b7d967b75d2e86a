"""Sentences per second of our search, of our exports and of CTranslate2 with the same weights, and the ratio.

    python benchmarks/engines.py --hparams_set=base

Random weights and lines, 32 pieces in and exactly 40 out: with a fixed length the work is the same for all. An export
gets text and gives text, and the others get pieces. Each engine has its own process, because in one process the threads
of one engine slow the other down, up to twofold. Engines take turns, so that all see the same machine. Prints medians
over the rounds, with the smallest and the largest. Needs the extra t2t-lite[ctranslate2]. (A script called
ctranslate2.py would hide the package from itself.)
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
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from t2t_lite import config, registry
from t2t_lite.cli.huge_pages import SETTING
from t2t_lite.distributed.tensorflow_loading import load_tensorflow
from t2t_lite.ops import threads

ENGINES = (
    *(f"t2t-lite {precision}" for precision in ("float32", "bfloat16", "int8")),
    *(f"export {precision}" for precision in ("float32", "int8")),
    *(f"CTranslate2 {precision}" for precision in ("float32", "int8")),
)
THREADS = 2
VOCABULARY = {"base": 37000, "multi30k": 8000, "tiny": 8000}  # pieces
EOS, SEED = 1, 1
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


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description="Times our search and exports beside CTranslate2.")
    parser.add_argument("--hparams_set", choices=sorted(VOCABULARY), default="base")
    parser.add_argument("--beam_size", type=int, default=4)
    parser.add_argument("--batches", default="1,32", help="sentences at a time; default: %(default)s")
    parser.add_argument("--engines", default=",".join(ENGINES), help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    engines, size = args.engines.split(","), VOCABULARY[args.hparams_set]
    works = [Work(args.hparams_set, size, int(batch), beam_size=args.beam_size) for batch in args.batches.split(",")]
    work = works[0]
    print(machine())
    print(
        f"{args.hparams_set}, {work.pieces_in} pieces in, {work.pieces_out} out, beam {work.beam_size}, "
        f"{THREADS} threads each\n"
    )
    print("| batch | engine | seconds, median (min to max) | sentences/s | to the first |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="t2t-lite-engines-") as folder:
        export(work, folder, engines)
        for work in works:
            report(work.batch, measure({engine: start(engine, work, folder) for engine in engines}, args.rounds))


def export(work: Work, folder: str, engines: Sequence[str]) -> None:
    """Writes a vocabulary and what engines load, each as version 1 of a folder, in a process of its own."""
    exporter = PROCESSES.Process(target=_export, args=(work, folder, engines))
    exporter.start()
    exporter.join()
    if exporter.exitcode:
        raise SystemExit("The models could not be written; see above.")


def _export(work: Work, folder: str, engines: Sequence[str]) -> None:
    load_tensorflow()
    from t2t_lite.export import ctranslate2_export, saved_model
    from t2t_lite.export import export as saved_model_export
    from t2t_lite.text.vocabulary_training import train_vocabulary

    draw = random.Random(SEED)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 7))) for _ in range(60_000)]
    texts = [" ".join(words[i : i + 20]) for i in range(0, len(words), 20)]
    train_vocabulary(texts, size=work.vocab_size).save(Path(folder, "vocabulary.model"))
    for engine in engines:
        name, precision = engine.split()
        if name == "CTranslate2":
            made = translator(work, folder, "float32", changing=True)
            ctranslate2_export.export_ctranslate2(made, os.path.join(folder, engine), {}, precision=precision)
        elif name == "export":
            made = translator(work, folder, precision, changing=True)
            card = {"hparams": config.to_dict(made.decode)}
            served = saved_model.ServedModel(made, ["serving_default", "tokens"])
            saved_model_export.export(served, Path(folder, engine), card)


def start(engine: str, work: Work, folder: str) -> Connection:
    """A process that translates a batch on request and answers with the seconds it took.

    Args:
        engine: one of ENGINES; CTranslate2 also with the number of its workers, as in "CTranslate2 int8 2".
    """
    name, precision, *workers = engine.split()
    if name == "t2t-lite":
        return timed(search, work, folder, precision, environment=SETTING)
    model = os.path.join(folder, f"{name} {precision}", "1")
    if name == "export":
        return timed(exported_search, work, folder, model)
    return timed(ctranslate2_search, work, folder, model, *map(int, workers))


def timed(make: Callable[..., Call], *args: Any, environment: dict[str, str] | None = None) -> Connection:
    """A process that makes a call with `make`, runs it on request, and answers with the seconds it took."""
    ours, theirs = PROCESSES.Pipe()
    before = dict(os.environ)
    os.environ |= environment or {}
    PROCESSES.Process(target=_answer, args=(make, args, theirs), daemon=True).start()
    os.environ.clear()
    os.environ |= before
    theirs.close()
    return ours


def _answer(make: Callable[..., Call], args: tuple[Any, ...], asked: Connection) -> None:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    call = make(*args)
    while asked.recv():
        began = time.perf_counter()
        call()
        asked.send(time.perf_counter() - began)


def read_vocabulary(folder: str) -> Any:
    """The vocabulary that `export` wrote."""
    from t2t_lite.text.vocabulary import Vocabulary

    return Vocabulary.load(Path(folder, "vocabulary.model"))


def translator(work: Work, folder: str, precision: str, *, changing: bool = False) -> Any:
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
    vocabulary = read_vocabulary(folder)
    registered: Any = registry.MODELS.get("transformer")
    model = registered.from_hparams(hparams, vocabulary.size, vocabulary.size, True)
    table = model.softmax.table.numpy()
    table[EOS] = 0.0
    model.softmax.table.assign(table)
    if precision == "int8":
        quantize(model)
        if not changing:
            adapt_to_processor(model)
    made = Translator(model, vocabulary, vocabulary, hparams)
    made.prepack = not changing and is_supported(model.compute_dtype)
    return made


def search(work: Work, folder: str, precision: str) -> Call:
    """The search that t2t-lite-decoder runs; with many sentences, each thread has some of its own."""
    load_tensorflow()
    import numpy as np
    import tensorflow as tf

    from t2t_lite.decoding.line_translator import FEW
    from t2t_lite.decoding.translate import SEARCH_SIGNATURE

    threads.set_inter_op_parallelism(at_most=work.batch // FEW)
    made = translator(work, folder, precision)
    graph = tf.function(made.search, input_signature=SEARCH_SIGNATURE, autograph=False)
    ids = np.array([[*row, EOS] for row in map(made.source_vocabulary.encode, lines(work, folder))], np.int32)
    parts = np.array_split(ids, threads.num_parallel())

    def call() -> None:
        for found in threads.parallel_map(lambda part: graph(part, True)[0][:, 0].numpy(), parts):
            check(work, [int((row != 0).sum()) for row in found])

    return call


def exported_search(work: Work, folder: str, model: str) -> Call:
    """An export's answer to text, as TensorFlow alone loads it."""
    import numpy as np
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  # registers the ops of SentencePiece

    loaded = tf.saved_model.load(model)
    tokens, translate = loaded.signatures["tokens"], loaded.signatures["serving_default"]
    texts, vocabulary = lines(work, folder), read_vocabulary(folder)
    rows = np.zeros((len(texts), tokens.structured_input_signature[1]["ids"].shape[1]), np.int32)
    rows[:, : work.pieces_in] = [[*vocabulary.encode(line), EOS] for line in texts]
    check(work, np.count_nonzero(tokens(ids=tf.constant(rows))["ids"], 1).tolist())  # text does not show its pieces
    return lambda: translate(inputs=tf.constant(texts))["outputs"].numpy()


def ctranslate2_search(work: Work, folder: str, model: str, workers: int = 1) -> Call:
    """The search of CTranslate2, which adds the end symbol to a source itself; several workers share the batch."""
    import ctranslate2

    engine = ctranslate2.Translator(model, inter_threads=workers, intra_threads=THREADS // workers)
    vocabulary = read_vocabulary(folder)
    pieces = [vocabulary.pieces(vocabulary.encode(line)) for line in lines(work, folder)]
    settings: dict[str, Any] = {
        "beam_size": work.beam_size,
        "min_decoding_length": work.pieces_out,
        "max_decoding_length": work.pieces_out,
        "max_batch_size": min(-(-work.batch // workers), FULL) if workers > 1 else 0,
    }
    return lambda: check(work, [len(r.hypotheses[0]) for r in engine.translate_batch(pieces, **settings)])


def lines(work: Work, folder: str) -> list[str]:
    """Lines of words that are one piece each, without the end symbol, the same for all engines."""
    vocabulary, draw = read_vocabulary(folder), random.Random(SEED)
    words = [piece[1:] for piece in vocabulary.pieces(range(vocabulary.size)) if re.fullmatch("\u2581[a-z]+", piece)]
    whole = [word for word in words if len(vocabulary.encode(word)) == 1]
    return [" ".join(draw.sample(whole, work.pieces_in - 1)) for _ in range(work.batch)]


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
        ratio = medians[next(iter(medians))] / seconds
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
