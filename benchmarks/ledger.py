"""Where the time of a workload goes: a table by part, beside the limits that arithmetic and memory set.

    python benchmarks/ledger.py --workload=D1

T1: a training step of base, 32 x (32 + 32) pieces, 37,000 pieces in the vocabulary. T2: 3 layers, d_model 256,
d_ff 1024, 4 heads, 8,000 pieces, 64 x (32 + 32). D1: base decoding 64 sentences of 32 pieces, beam 4, 40 pieces out.
D2: the same, greedy. D3: one sentence, beam 4. Random weights and ids.

TensorFlow's profiler times every operation of one call; the operation's name and type say to which part it belongs.
Operations run side by side, so the parts add up to more than the time of the call. Shares are of their sum.
"""

from __future__ import annotations

import argparse
import collections
import glob
import re
import statistics
import tempfile
from collections.abc import Callable
from typing import Any

from train_step import PRODUCTS, beside, matrix_products, seconds_of, training_step

from t2t_lite import config, registry
from t2t_lite.cli import common
from t2t_lite.distributed.tensorflow_loading import load_tensorflow
from t2t_lite.ops import threads

TRAINING = {
    "T1": ("", (32, 32, 32, 37000)),
    "T2": ("num_layers=3,d_model=256,d_ff=1024,num_heads=4", (64, 32, 32, 8000)),
}
DECODING = {"D1": (64, 4), "D2": (64, 1), "D3": (1, 4)}  # sentences, beam size
SOURCE_LENGTH, OUTPUT_LENGTH, VOCAB_SIZE = 32, 40, 37000

# The first pattern found in "name:type" decides. Names are those of layers; gradients have their layer's name, too.
PARTS = (
    ("update", "ResourceApplyAdam|L2Loss|global_norm"),
    ("dropout", "/dropout|StatelessRandom"),
    ("layer normalisation", "layer_norm"),
    ("int8: rounding, scales", "/int8(_[0-9]+)?/.*:(?!_Quantized)"),
    ("attention: products", "BatchMatMul"),
    (
        "attention: softmax",
        "around_(self|memory|attention).*:.*Softmax|:.*Softmax.*around_"
        "|while/.*around_(self|memory).*:(Max|Sub|Exp|Sum|RealDiv)$",
    ),
    ("the past: writing and renewing", "StridedSliceUpdate|:Pad$|while/cond.*:GatherV2$"),
    ("transposes", "Transpose$"),
    ("feed-forward: products", "feed_forward.*MatMul$"),
    ("feed-forward: bias, ReLU", "feed_forward"),
    ("attention: projections", "around_(self|memory|attention).*MatMul$|attention.*MatMul$|/dot.*MatMul$"),
    ("logits: product", "MatMul$"),
    ("embedding", "Gather|UnsortedSegmentSum|ScatterAdd"),
    ("top-k, log-sum-exp, softmax, loss", "TopK|Softmax|:Exp$|:Max$|:Sum$|ScatterSub|:Sub$|:Log$|:Mean$"),
)


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description="Prints where the time of a workload goes.")
    parser.add_argument("--workload", choices=sorted((*TRAINING, *DECODING)), default="T1")
    parser.add_argument("--precision", choices=common.PRECISIONS, default="float32", help="int8: D1 to D3")
    parser.add_argument("--sentences", type=int, help="of D1 to D3; default: the workload's")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    if args.sentences and args.workload in DECODING:
        DECODING[args.workload] = args.sentences, DECODING[args.workload][1]
    if args.workload in TRAINING and args.precision == "int8":
        parser.error("models of int8 weights cannot be trained")
    load_tensorflow()
    make = _training if args.workload in TRAINING else _decoding
    call, flops, read = make(args.workload, args.precision)
    products = int8_products() if args.precision == "int8" else matrix_products(args.precision)
    for warm in (call, call, *(product for product, _ in products)):
        warm()
    times, rates, bandwidths = [], [], []
    for _ in range(args.rounds):
        times.append(seconds_of(call))
        rates.append(max(work / seconds_of(product) for product, work in products))
        bandwidths.append(_bandwidth())
    seconds, rate, bandwidth = (statistics.median(values) for values in (times, rates, bandwidths))
    print(f"{args.workload} {args.precision}: {seconds:.3f} s ({min(times):.3f} to {max(times):.3f})")
    print(f"arithmetic: {flops / 1e9:.0f} GFLOP at {rate / 1e9:.0f} GFLOP/s of products: {flops / rate:.3f} s at least")
    print(f"weights:    {read / 1e9:.2f} GB at {bandwidth / 1e9:.1f} GB/s: {read / bandwidth:.3f} s at least\n")
    _print_parts(_profile(call))


def _training(workload: str, precision: str) -> tuple[Callable[[], Any], float, float]:
    """Returns (a call, its FLOPs, the bytes of weights it must read: three times, and Adam's two moments)."""
    overrides, shape = TRAINING[workload]
    hparams = config.replace(config.override(registry.hparams("base"), overrides), precision=precision)
    call, cost = training_step(hparams, shape, 1)
    rows, source_length, target_length, vocab_size = shape
    d_model, layers = hparams.d_model, hparams.num_layers
    weights = layers * (12 * d_model**2 + 4 * d_model * hparams.d_ff) + vocab_size * d_model
    return call, rows * cost.training_flops(source_length, target_length), weights * 4.0 * 5


def _decoding(workload: str, precision: str) -> tuple[Callable[[], Any], float, float]:
    """Returns (a call, its FLOPs, the bytes of weights it must read: the decoder's at each step)."""
    import numpy as np

    sentences, beam_size = DECODING[workload]
    int8 = precision == "int8"
    hparams = config.replace(registry.hparams("base"), precision="float32" if int8 else precision)
    call, _ = search_call(hparams, (sentences, SOURCE_LENGTH, OUTPUT_LENGTH, VOCAB_SIZE), beam_size, int8=int8)
    ids, _ = call()
    if np.count_nonzero(ids) != sentences * beam_size * OUTPUT_LENGTH:
        raise SystemExit("An output ended early; the figures would be of another workload.")
    layers, d, d_ff = hparams.num_layers, hparams.d_model, hparams.d_ff
    s, t = SOURCE_LENGTH, OUTPUT_LENGTH
    encoder = s * layers * (8 * d * d + 4 * d * d_ff + 4 * s * d) + s * layers * 4 * d * d
    steps = t * (layers * (12 * d * d + 4 * d * d_ff + 4 * s * d) + 2 * d * VOCAB_SIZE) + layers * 2 * t * (t + 1) * d
    per_step = layers * (6 * d * d + 2 * d * d_ff) + VOCAB_SIZE * d
    size = {"float32": 4, "bfloat16": 2, "int8": 1}[precision]
    return call, float(sentences * (encoder + beam_size * steps)), float(t * per_step * size)


def search_call(
    hparams: config.HParams, shape: tuple[int, int, int, int], beam_size: int, *, int8: bool = False
) -> tuple[Callable[..., Any], Any]:
    """Returns (a call that searches outputs of full length, the model's `Cost`).

    The call takes whole sources, or only their first `length` pieces. As in t2t-lite-decoder, with many sentences each
    processor has a batch of its own.

    Args:
        shape: sentences, source pieces, output pieces, pieces in the vocabulary.
        int8: search with a quantized model.
    """
    import keras
    import numpy as np
    import tensorflow as tf

    from t2t_lite.decoding.beam_search import beam_search
    from t2t_lite.decoding.sized_graph import SizedGraph
    from t2t_lite.distributed.devices import use_jit
    from t2t_lite.ids import EOS
    from t2t_lite.ops.int8 import adapt_to_processor, quantize
    from t2t_lite.ops.prepacked import is_supported

    sentences, source_length, output_length, vocab_size = shape
    threads.set_inter_op_parallelism_for(sentences)
    keras.utils.set_random_seed(1)
    model: Any = registry.MODELS.get("transformer")
    model = model.from_hparams(hparams, vocab_size, vocab_size, True)
    table = model.target_embedding.table.numpy()
    table[EOS] = 0  # never the best symbol: all outputs are of full length
    model.target_embedding.table.assign(table)
    if int8:
        quantize(model)
        adapt_to_processor(model)
    prepack = is_supported(model.compute_dtype)  # as t2t-lite-decoder does
    source = np.random.default_rng(1).integers(4, vocab_size, (sentences, source_length), dtype=np.int32)
    source[:, -1] = EOS

    def search(ids: Any, jit: bool = False) -> Any:
        extra = output_length - source_length
        settings = {"beam_size": beam_size, "alpha": 0.6, "extra_length": extra, "early_stop": False}
        return beam_search(model, ids, **settings, prepack=prepack, jit=jit)

    signature = [tf.TensorSpec([None, None], tf.int32)]
    graph = SizedGraph(search, signature, jit=use_jit("auto"), what="the search")

    def call(length: int | None = None) -> list[Any]:
        batches = np.array_split(source[:, :length], threads.num_parallel())
        found = list(threads.parallel_map(lambda batch: graph(batch, tokens=batch.size), batches))
        return [np.concatenate(arrays) for arrays in zip(*found, strict=True)]

    return call, model.cost


def int8_products() -> list[tuple[Callable[[], Any], float]]:
    """Like `matrix_products`, for 8-bit integers; the second matrix stays the same."""
    import tensorflow as tf

    from t2t_lite.ops.int8_product import Columns, int8_product

    calls: list[tuple[Callable[[], Any], float]] = []
    for m, k, n in PRODUCTS:
        repeats = max(1, int(4e10 / (2 * m * k * n)))

        @tf.function(autograph=False)
        def product(a: Any, b: Any) -> Any:
            return int8_product(a, Columns.make(b, tf.ones(b.shape[:1])), prepack=True)

        def multiply(_: int, product: Any = product, m: int = m, k: int = k, n: int = n, repeats: int = repeats) -> Any:
            a, b = tf.ones([m, k], tf.int8), tf.ones([n, k], tf.int8)
            for _ in range(repeats):
                c = product(a, b)
            return float(c[0, 0])

        calls.append((lambda multiply=multiply: beside(multiply), 2.0 * m * k * n * repeats * threads.num_parallel()))
    return calls


def _profile(call: Callable[[], Any]) -> dict[tuple[str, str], tuple[float, int]]:
    """Returns (phase, part) -> seconds and number of operations of one call."""
    import tensorflow as tf
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        call()
        tf.profiler.experimental.stop()
        (path,) = glob.glob(f"{folder}/**/*.xplane.pb", recursive=True)
        space = xplane_pb2.XSpace()
        with open(path, "rb") as file:
            space.ParseFromString(file.read())
    found: dict[tuple[str, str], tuple[float, int]] = collections.defaultdict(lambda: (0.0, 0))
    for plane in space.planes:
        for line in plane.lines:
            for event in line.events:
                where = _where(plane.event_metadata[event.metadata_id].name)
                if where:
                    seconds, number = found[where]
                    found[where] = seconds + event.duration_ps / 1e12, number + 1
    return found


def _where(event: str) -> tuple[str, str] | None:
    """Phase and part of an operation; None for events that are not operations, whose form is "name:Type"."""
    name, colon, kind = event.rpartition(":")
    if not colon or not re.fullmatch("_?[A-Z][A-Za-z0-9]*", kind) or " " in event or "::" in event:
        return None
    key = f"{name}:{kind}".replace("MatMulV2", "MatMul")
    if "gradient_tape" in name or name.startswith("AddN"):
        phase = "backward"
    elif "/while/" in name or name.startswith("while"):
        phase = "steps"
    else:
        phase = "forward"
    part = next((part for part, pattern in PARTS if re.search(pattern, key)), "all other operations")
    return ("update" if part == "update" else phase), part


def _print_parts(found: dict[tuple[str, str], tuple[float, int]]) -> None:
    total = sum(seconds for seconds, _ in found.values())
    if not found:
        print("The profiler has seen no operation of TensorFlow: XLA's programs have none (gpu/profile_step.py).")
        return
    print("| phase | part | ms | share | operations |\n|---|---|---|---|---|")
    rest, few = 0.0, 0
    for (phase, part), (seconds, number) in sorted(found.items(), key=lambda item: -item[1][0]):
        if seconds < total / 200:
            rest, few = rest + seconds, few + number
            continue
        print(f"| {phase} | {part} | {seconds * 1e3:,.0f} | {seconds / total:.1%} | {number:,} |")
    print(f"| | parts below 0.5% | {rest * 1e3:,.0f} | {rest / total:.1%} | {few:,} |")
    print(f"| | **sum of operations** | **{total * 1e3:,.0f}** | | {sum(n for _, n in found.values()):,} |")


def _bandwidth() -> float:
    """Bytes per second that are read from an array far larger than any cache."""
    import tensorflow as tf

    arrays = [tf.ones([1 << 26]) for _ in range(threads.num_parallel())]
    seconds = [seconds_of(lambda: beside(lambda i: float(tf.reduce_sum(arrays[i])))) for _ in range(3)]
    return len(arrays) * (4 << 26) / min(seconds)


if __name__ == "__main__":
    main()
