"""Latency and throughput of an exported `base`, in process, beside the matrix products that it needs.

    python benchmarks/serving.py

Weights are random, and every output is as long as its input: 32 pieces in, 32 out. Requests go to `serving_default`,
text in and text out. All models, and the products of a step, take turns in each round, so that all see the same
machine. Load time and peak memory are those of a fresh process that answers one request.

Where a token's time goes: the same search with a model as deep but almost without arithmetic gives the cost of the
graph itself; the products of a step alone (weights that no cache holds, rows = beam size) give the cost of arithmetic.

The exit status is 1 if a token takes more than twice its products, at batch 1 and beam 4 in float32.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from t2t_lite import config, registry
from t2t_lite.distributed.tensorflow_loading import load_tensorflow, quiet

VOCAB_SIZE, LENGTH = 37_000, 32
BEAMS, PRECISIONS, BATCHES = (1, 4), ("float32", "bfloat16", "int8"), (1, 32)
LIMIT = 2.0  # time of a token over that of its products


def main() -> int:
    parser = argparse.ArgumentParser(description="Times an exported base, in process.")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--precisions", default=",".join(PRECISIONS), help="default: %(default)s")
    parser.add_argument("--load", metavar="DIR", help=argparse.SUPPRESS)  # for the processes that it starts
    args = parser.parse_args()
    load_tensorflow()
    if args.load:
        print(json.dumps(_loaded(args.load)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        return _run(Path(folder), args.precisions.split(","), args.rounds)


def _run(folder: Path, precisions: list[str], rounds: int) -> int:
    vocabulary, words = _vocabulary()
    models = {(p, beam): folder / f"{p}_{beam}" for p in precisions for beam in BEAMS}
    for (precision, beam), path in models.items():
        _export(path, vocabulary, config.replace(registry.hparams("base"), beam_size=beam), precision)
    _export(folder / "empty", vocabulary, config.replace(_without_arithmetic(), beam_size=4), "float32")
    print("model          | MB on disk | load s | first answer s | peak memory MB")
    for (precision, beam), path in models.items():
        print(f"{precision:8} beam {beam} | {_fresh(path)}", flush=True)

    calls: dict[tuple[Any, ...], Callable[[], Any]] = {}
    for (precision, beam), path in [*models.items(), (("graph alone", 4), folder / "empty")]:
        translate = _signature(path)
        for batch in BATCHES if precision in precisions else (1,):
            lines = [" ".join(random.Random(i).sample(words, LENGTH - 1)) for i in range(batch)]
            calls[precision, beam, batch] = _request(translate, lines)
    for precision in set(precisions) - {"int8"}:  # int8 products include the rounding before each
        calls["products", precision] = _products(precision, rows=4)
    times = _rounds(calls, rounds)
    return _report(times)


def _vocabulary() -> tuple[Any, list[str]]:
    """A vocabulary of VOCAB_SIZE pieces and words that are one piece each."""
    from t2t_lite.text.vocabulary_training import train_vocabulary

    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 7))) for _ in range(30_000)]
    vocabulary = train_vocabulary([" ".join(words[i : i + 20]) for i in range(0, len(words), 20)], size=VOCAB_SIZE)
    return vocabulary, [word for word in words if len(vocabulary.encode(word)) == 1]


def _without_arithmetic() -> config.HParams:
    return config.replace(registry.hparams("base"), d_model=8, d_ff=8, num_heads=8)


def _export(base: Path, vocabulary: Any, hparams: config.HParams, precision: str) -> None:
    from t2t_lite.decoding.translate import Translator
    from t2t_lite.export.export import export
    from t2t_lite.export.saved_model import ServedModel
    from t2t_lite.ops.int8 import quantize

    model: Any = registry.MODELS.get("transformer")
    int8 = precision == "int8"
    hparams = config.replace(hparams, extra_length=0, precision="float32" if int8 else precision)
    model = model.from_hparams(hparams, vocabulary.size, vocabulary.size, True)
    if int8:
        quantize(model)
    translator = Translator(model, vocabulary, vocabulary, hparams)
    with quiet():
        export(ServedModel(translator), base, {"hparams": config.to_dict(hparams)})


def _signature(base: Path) -> Any:
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  # registers the ops of SentencePiece

    with quiet():
        model = tf.saved_model.load(str(base / "1"))
    signature = model.signatures["serving_default"]
    signature.model = model  # otherwise it would be freed
    return signature


def _request(translate: Any, lines: list[str]) -> Callable[[], Any]:
    import tensorflow as tf

    inputs = tf.constant(lines)
    return lambda: translate(inputs=inputs)["outputs"].numpy()


def _loaded(base: str) -> dict[str, float]:
    started = time.perf_counter()
    translate = _signature(Path(base))
    loaded = time.perf_counter()
    _request(translate, ["a line to translate"])()
    answered = time.perf_counter()
    # The peak of this process alone; ru_maxrss would begin with the peak of its parent.
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    peak = int(status.partition("VmHWM:")[2].split()[0]) * 1024
    return {"load": loaded - started, "first": answered - loaded, "peak": peak}


def _fresh(base: Path) -> str:
    done = subprocess.run(
        [sys.executable, __file__, f"--load={base}"], capture_output=True, text=True, check=True, timeout=600
    )
    found = json.loads(done.stdout)
    size = sum(path.stat().st_size for path in base.rglob("*") if path.is_file())
    return f"{size / 1e6:7.1f} | {found['load']:.1f} | {found['first']:.1f} | {found['peak'] / 1e6:,.0f}"


def _products(precision: str, rows: int) -> Callable[[], Any]:
    """A call that makes the matrix products of LENGTH steps: those of the decoder's layers and of the tied softmax."""
    import tensorflow as tf

    hparams = registry.hparams("base")
    d_model, d_ff = hparams.d_model, hparams.d_ff
    # Self-attention has four products, attention to the memory two: its keys and values are there already.
    shapes = [*[(d_model, d_model)] * 6, (d_model, d_ff), (d_ff, d_model)]
    kernels = [
        tf.Variable(tf.cast(tf.random.normal(shape), precision)) for _ in range(hparams.num_layers) for shape in shapes
    ]
    table = tf.Variable(tf.cast(tf.random.normal((VOCAB_SIZE, d_model)), precision))

    def step(i: Any, x: Any) -> tuple[Any, Any]:
        y = x
        for kernel in kernels:
            y = tf.matmul(y if y.shape[-1] == kernel.shape[0] else x, kernel)
        logits = tf.matmul(y, table, transpose_b=True)
        return i + 1, x + logits[:, :d_model]

    @tf.function(autograph=False)
    def steps(x: Any) -> Any:
        return tf.while_loop(lambda i, _: i < LENGTH, step, (tf.constant(0), x))[1]

    x = tf.cast(tf.random.normal((rows, d_model)), precision)
    return lambda: float(tf.cast(steps(x)[0, 0], tf.float32))


def _rounds(calls: dict[tuple[Any, ...], Callable[[], Any]], rounds: int) -> dict[tuple[Any, ...], list[float]]:
    """Seconds of each call; those at batch 1 ten times a round, for the rare slow ones."""
    times: dict[tuple[Any, ...], list[float]] = {name: [] for name in calls}
    for number in range(rounds + 1):
        for name, call in calls.items():
            for _ in range(1 if name[-1] == 32 else 10):
                started = time.perf_counter()
                call()
                if number:  # the first round warms up
                    times[name].append(time.perf_counter() - started)
    return times


def _report(times: dict[tuple[Any, ...], list[float]]) -> int:
    print("\nmodel                 batch | p50 ms | p95 ms | p99 ms | requests/s | sentences/s | requests")
    for name, seconds in times.items():
        if name[0] == "products":
            continue
        precision, beam, batch = name
        p50, p95, p99 = (_percentile(seconds, p) for p in (50, 95, 99))
        print(
            f"{precision:11} beam {beam} {batch:9} | {p50 * 1e3:6.0f} | {p95 * 1e3:6.0f} | {p99 * 1e3:6.0f} | "
            f"{1 / p50:10.2f} | {batch / p50:11.1f} | {len(seconds)}"
        )
    print("\nms a token at batch 1, beam 4: all | products | all / products | graph alone")
    worst = 0.0
    graph = statistics.median(times["graph alone", 4, 1]) / LENGTH
    for precision in PRECISIONS:
        if ("products", precision) in times:
            token = statistics.median(times[precision, 4, 1]) / LENGTH
            products = statistics.median(times["products", precision]) / LENGTH
            worst = token / products if precision == "float32" else worst
            print(
                f"{precision:29} {token * 1e3:5.1f} | {products * 1e3:8.1f} | {token / products:14.2f} | "
                f"{graph * 1e3:.1f}"
            )
    return int(worst > LIMIT)


def _percentile(seconds: list[float], percent: int) -> float:
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


if __name__ == "__main__":
    sys.exit(main())
