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
import importlib.metadata
import json
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

ENGINES = (
    *(f"t2t-lite {precision}" for precision in ("float32", "bfloat16", "int8")),
    *(f"export {precision}" for precision in ("float32", "int8")),
    *(f"CTranslate2 {precision}" for precision in ("float32", "int8")),
)
PIECES_IN, PIECES_OUT, THREADS = 32, 40, 2
VOCABULARY = {"base": 37000, "multi30k": 8000, "tiny": 8000}  # pieces
EOS, SEED = 1, 1
PROCESSES = multiprocessing.get_context("spawn")
Call = Callable[[], Any]


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description="Times our search and exports beside CTranslate2.")
    parser.add_argument("--hparams_set", choices=sorted(VOCABULARY), default="base")
    parser.add_argument("--beam_size", type=int, default=4)
    parser.add_argument("--batches", default="1,32", help="sentences at a time; default: %(default)s")
    parser.add_argument("--engines", default=",".join(ENGINES), help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    print(machine())
    print(
        f"{args.hparams_set}, {PIECES_IN} pieces in, {PIECES_OUT} out, beam {args.beam_size}, {THREADS} threads each\n"
    )
    print("| batch | engine | seconds, median (min to max) | sentences/s | to the first |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="t2t-lite-engines-") as folder:
        exporter = PROCESSES.Process(target=export, args=(args.hparams_set, args.beam_size, folder, args.engines))
        exporter.start()
        exporter.join()
        if exporter.exitcode:
            raise SystemExit("The models could not be written; see above.")
        for batch in map(int, args.batches.split(",")):
            request = (args.hparams_set, args.beam_size, folder, batch)
            started = {engine: start(engine, *request) for engine in args.engines.split(",")}
            report(batch, measure(started, args.rounds))
            for engine in started.values():
                engine.send(False)


def export(hparams_set: str, beam_size: int, folder: str, engines: str) -> None:
    """Writes a vocabulary, lines of it and what the engines load, each as version 1 of a folder."""
    load_tensorflow()
    from t2t_lite.export import ctranslate2_export, saved_model
    from t2t_lite.export import export as saved_model_export
    from t2t_lite.text.vocabulary_training import train_vocabulary

    draw = random.Random(SEED)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 7))) for _ in range(30_000)]
    size = VOCABULARY[hparams_set]
    vocabulary = train_vocabulary([" ".join(words[i : i + 20]) for i in range(0, len(words), 20)], size=size)
    vocabulary.save(Path(folder, "vocabulary.model"))
    whole = [word for word in words if len(vocabulary.encode(word)) == 1]
    lines = [" ".join(draw.sample(whole, PIECES_IN - 1)) for _ in range(64)]
    Path(folder, "lines.json").write_text(json.dumps(lines))
    for engine in engines.split(","):
        name, precision = engine.split()
        if name == "t2t-lite":
            continue
        made = translator(hparams_set, beam_size, folder, "float32", changing=True)
        if name == "CTranslate2":
            ctranslate2_export.export_ctranslate2(made, os.path.join(folder, engine), {}, precision=precision)
        else:
            made = translator(hparams_set, beam_size, folder, precision, changing=True)
            card = {"hparams": config.to_dict(made.decode)}
            saved_model_export.export(
                saved_model.ServedModel(made, ["serving_default", "tokens"]), Path(folder, engine), card
            )


def start(engine: str, hparams_set: str, beam_size: int, folder: str, batch: int) -> Connection:
    """A process that translates a batch on request and answers with the seconds it took."""
    ours, theirs = PROCESSES.Pipe()
    arguments = (engine, hparams_set, beam_size, folder, batch, theirs)
    PROCESSES.Process(target=answer, args=arguments, daemon=True).start()
    theirs.close()
    return ours


def answer(engine: str, hparams_set: str, beam_size: int, folder: str, batch: int, asked: Connection) -> None:
    """Runs in a process of `start`: answers its requests."""
    name, precision = engine.split()
    lines = json.loads(Path(folder, "lines.json").read_text())[:batch]
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    if name == "t2t-lite":
        call = search(hparams_set, beam_size, folder, precision, lines)
    elif name == "export":
        call = exported_search(os.path.join(folder, engine, "1"), folder, lines)
    else:
        call = ctranslate2_search(os.path.join(folder, engine, "1"), beam_size, folder, lines)
    while asked.recv():
        began = time.perf_counter()
        call()
        asked.send(time.perf_counter() - began)


def read_vocabulary(folder: str) -> Any:
    """The vocabulary that `export` wrote."""
    from t2t_lite.text.vocabulary import Vocabulary

    return Vocabulary.load(Path(folder, "vocabulary.model"))


def translator(hparams_set: str, beam_size: int, folder: str, precision: str, *, changing: bool = False) -> Any:
    """A translator with random weights that never gives the end symbol: its logit is 0, far from the best of thousands.

    Unless its weights are `changing`, the model is set up as in t2t-lite-decoder.
    """
    import keras

    from t2t_lite.decoding.translate import Translator
    from t2t_lite.ops.int8 import adapt_to_processor, quantize
    from t2t_lite.ops.prepacked import is_supported

    keras.utils.set_random_seed(SEED)
    decoding = {"beam_size": beam_size, "extra_length": PIECES_OUT - PIECES_IN}
    wide = "float32" if precision == "int8" else precision
    hparams = config.replace(registry.hparams(hparams_set), precision=wide, **decoding)
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


def search(hparams_set: str, beam_size: int, folder: str, precision: str, lines: list[str]) -> Call:
    """The search that t2t-lite-decoder runs; with many sentences, each thread has some of its own."""
    load_tensorflow()
    import numpy as np
    import tensorflow as tf

    from t2t_lite.decoding.translate import FEW, SEARCH_SIGNATURE

    threads.set_inter_op_parallelism(at_most=len(lines) // FEW)
    made = translator(hparams_set, beam_size, folder, precision)
    graph = tf.function(made.search, input_signature=SEARCH_SIGNATURE, autograph=False)
    ids = np.array([[*made.source_vocabulary.encode(line), EOS] for line in lines], np.int32)
    parts = np.array_split(ids, threads.num_parallel())

    def call() -> None:
        for found in threads.parallel_map(lambda part: graph(part, True)[0][:, 0].numpy(), parts):
            check([int((row != 0).sum()) for row in found])

    return call


def exported_search(model: str, folder: str, lines: list[str]) -> Call:
    """An export's answer to text, as TensorFlow alone loads it."""
    import numpy as np
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  # registers the ops of SentencePiece

    loaded = tf.saved_model.load(model)
    tokens, translate = loaded.signatures["tokens"], loaded.signatures["serving_default"]
    vocabulary = read_vocabulary(folder)
    rows = np.zeros((len(lines), tokens.structured_input_signature[1]["ids"].shape[1]), np.int32)
    rows[:, :PIECES_IN] = [[*vocabulary.encode(line), EOS] for line in lines]
    check(np.count_nonzero(tokens(ids=tf.constant(rows))["ids"], 1).tolist())  # text does not show its pieces
    return lambda: translate(inputs=tf.constant(lines))["outputs"].numpy()


def ctranslate2_search(model: str, beam_size: int, folder: str, lines: list[str]) -> Call:
    """The search of CTranslate2, which adds the end symbol to a source itself."""
    import ctranslate2

    engine = ctranslate2.Translator(model, intra_threads=THREADS)
    vocabulary = read_vocabulary(folder)
    pieces = [vocabulary.pieces(vocabulary.encode(line)) for line in lines]
    length = {"min_decoding_length": PIECES_OUT, "max_decoding_length": PIECES_OUT}
    return lambda: check(
        [len(result.hypotheses[0]) for result in engine.translate_batch(pieces, beam_size=beam_size, **length)]
    )


def check(lengths: list[int]) -> None:
    """Ends the process, and so the benchmark, if an engine did more or less work than it should."""
    if set(lengths) != {PIECES_OUT}:
        raise SystemExit(f"outputs of {sorted(set(lengths))} pieces instead of {PIECES_OUT}")


def measure(started: dict[str, Connection], rounds: int) -> dict[str, list[float]]:
    """Seconds of each engine's calls, in turns; each is run once before."""
    taken: dict[str, list[float]] = {name: [] for name in started}
    for turn in range(rounds + 1):
        for name, engine in started.items():
            engine.send(True)
            seconds = engine.recv()
            if turn:
                taken[name].append(seconds)
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
