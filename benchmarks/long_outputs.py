"""Time and memory of decoding with `parsing` (4 layers of 1,024, beam 21), a sentence of 40 words, by output length.

    python benchmarks/long_outputs.py

Trees have two to three symbols for each word, and the paper allows input + 300. Weights are random and never give the
end symbol, so that every output is as long as allowed. Each length has its own process; its peak memory above the
loaded model is what decoding takes. A round runs all lengths, one after the other.

The exit status is 1 if memory grows faster than the length, or the time of a symbol more than doubles from the
shortest output to the longest.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from pathlib import Path

from t2t_lite import config, registry
from t2t_lite.distributed.tensorflow_loading import load_tensorflow

WORDS, VOCAB_SIZE, SYMBOLS = 40, 16_000, 2_000
EXTRA_LENGTHS = (50, 100, 200, 300)
EOS = 1


def main() -> int:
    parser = argparse.ArgumentParser(description="Times long outputs, and measures their memory.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--extra_length", type=int, help=argparse.SUPPRESS)  # for the processes that it starts
    args = parser.parse_args()
    if args.extra_length is not None:
        print(json.dumps(_measured(args.extra_length)))
        return 0
    rounds = [[_in_process(extra) for extra in EXTRA_LENGTHS] for _ in range(args.rounds)]
    print("symbols | s a sentence, median (min - max) | ms a symbol | MB above the model")
    table = []
    for extra, found in zip(EXTRA_LENGTHS, zip(*rounds, strict=True), strict=True):
        length = WORDS + 1 + extra
        seconds = [run["seconds"] for run in found]
        median, memory = statistics.median(seconds), statistics.median(run["megabytes"] for run in found)
        table.append((length, median / length, memory))
        spread = f"{median:6.2f} ({min(seconds):.2f} - {max(seconds):.2f})"
        print(f"{length:7} | {spread:32} | {1e3 * median / length:11.1f} | {memory:18.0f}")
    (short, fast, small), (long, slow, large) = table[0], table[-1]
    growth = math.log(large / small) / math.log(long / short)
    print(f"memory grows with length^{growth:.2f}, the time of a symbol by a factor of {slow / fast:.2f}")
    return int(growth > 1.1 or slow > 2 * fast)


def _in_process(extra_length: int) -> dict[str, float]:
    command = [sys.executable, __file__, f"--extra_length={extra_length}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _measured(extra_length: int) -> dict[str, float]:
    load_tensorflow()
    import numpy as np
    import tensorflow as tf

    from t2t_lite.decoding.beam_search import beam_search

    model_class = registry.MODELS.get("transformer")
    hparams = config.replace(registry.hparams("parsing"), extra_length=extra_length)
    model = model_class.from_hparams(hparams, VOCAB_SIZE, SYMBOLS, False)  # type: ignore[attr-defined]
    table = model.softmax.weights[0].numpy()
    table[EOS] = 0.0  # a logit of 0, far from the best of thousands
    model.softmax.weights[0].assign(table)
    search = tf.function(
        lambda source: beam_search(
            model,
            source,
            beam_size=hparams.beam_size,
            alpha=hparams.length_penalty,
            extra_length=hparams.extra_length,
        ),
        autograph=False,
    )
    source = np.random.default_rng(1).integers(3, VOCAB_SIZE, (1, WORDS + 1)).astype(np.int32)
    source[0, -1] = EOS
    graph = search.get_concrete_function(tf.TensorSpec([None, None], tf.int32))
    Path("/proc/self/clear_refs").write_text("5")  # the peak from here on
    before = _peak_megabytes()
    started = time.perf_counter()
    ids, _ = graph(tf.constant(source))
    seconds = time.perf_counter() - started
    if np.count_nonzero(ids[0, 0]) != WORDS + 1 + extra_length:
        raise RuntimeError("An output ended before the longest length.")
    return {"seconds": seconds, "megabytes": _peak_megabytes() - before}


def _peak_megabytes() -> float:
    # The peak of this process alone; ru_maxrss would begin with the peak of its parent.
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1e3


if __name__ == "__main__":
    sys.exit(main())
