"""Which kernels a training step starts on a GPU, how long each takes, and how long the GPU waits between them.

    python3 benchmarks/gpu/profile_step.py --hparams_set=base --precision=bfloat16 --rows=784

TensorFlow's profiler times every kernel of three steps. Kernels of one kind, whose names differ in numbers alone, are
added up; the largest kinds come first.
"""

from __future__ import annotations

import argparse
import collections
import glob
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from train_step import WORKLOADS, training_step

from t2t_lite import config, registry
from t2t_lite.distributed.tensorflow_loading import load_tensorflow

STEPS = 3


def main() -> int:
    """Runs the script."""
    parser = argparse.ArgumentParser(description="Lists the kernels of a training step by the time that they take.")
    parser.add_argument("--hparams_set", choices=sorted(WORKLOADS), default="base")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="bfloat16")
    parser.add_argument("--rows", type=int, default=784)
    parser.add_argument("--kinds", type=int, default=40, help="how many kinds of kernels are printed")
    parser.add_argument("--keep", type=Path, help="writes the profiler's file here; it has the host's calls, too")
    args = parser.parse_args()
    load_tensorflow()
    hparams = config.replace(registry.hparams(args.hparams_set), precision=args.precision)
    _, *lengths, vocab_size = WORKLOADS[args.hparams_set]
    step, _ = training_step(hparams, (args.rows, lengths[0], lengths[1], vocab_size), 1, "on")
    step(times=4)
    kernels = sorted(trace(step, args.keep), key=lambda kernel: kernel[1])
    if not kernels:
        print("The profiler has seen no kernel of a GPU.")
        return 0
    print_kernels(kernels, args.kinds)
    return 0


def trace(step: Callable[..., Any], keep: Path | None) -> list[tuple[str, int, int]]:
    """Returns (name, start, duration), in ps, of all kernels of STEPS steps."""
    import tensorflow as tf
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        step(times=STEPS)
        tf.profiler.experimental.stop()
        (path,) = glob.glob(f"{folder}/**/*.xplane.pb", recursive=True)
        if keep:
            shutil.copy(path, keep)
        space = xplane_pb2.XSpace()
        space.ParseFromString(Path(path).read_bytes())
    found = []
    for plane in space.planes:
        print(f"plane {plane.name}: {', '.join(f'{line.name} ({len(line.events)})' for line in plane.lines)}"[:500])
        for line in plane.lines if "/device:GPU" in plane.name else ():
            for event in line.events if line.name.startswith("Stream") else ():
                start = line.timestamp_ns * 1000 + event.offset_ps
                found.append((plane.event_metadata[event.metadata_id].name, start, event.duration_ps))
    return found


def print_kernels(kernels: list[tuple[str, int, int]], kinds: int) -> None:
    """Prints sums by kind, and the time in which no kernel ran."""
    by_kind: dict[str, list[int]] = collections.defaultdict(list)
    waits, end = [], kernels[0][1]
    for name, start, duration in kernels:
        by_kind[re.sub(r"\d+", "N", name)].append(duration)
        waits.append((max(start - end, 0), name))
        end = max(end, start + duration)
    whole = end - kernels[0][1]
    ms, number = whole / 1e9 / STEPS, len(kernels) / STEPS
    print(f"a step: {ms:.2f} ms, {number:.0f} kernels; in {sum(ps for ps, _ in waits) / whole:.0%} of it none ran")
    for least, most in ((0, 2), (2, 10), (10, 100), (100, 1e9)):
        some = [ps for ps, _ in waits if least <= ps / 1e6 < most]
        print(f"waits from {least} us: {len(some) / STEPS:.1f} a step, {sum(some) / 1e9 / STEPS:.2f} ms")
    print("longest, in ms:", ", ".join(f"{ps / 1e9:.2f} before {name[:40]}" for ps, name in sorted(waits)[:-9:-1]))
    print(f"| {'ms a step':>9} | {'kernels':>7} | mean us | kind |\n|---|---|---|---|")
    ordered = sorted(by_kind.items(), key=lambda item: -sum(item[1]))
    for name, durations in ordered[:kinds]:
        total = sum(durations)
        print(
            f"| {total / 1e9 / STEPS:9.3f} | {len(durations) / STEPS:7.1f} | {total / len(durations) / 1e6:7.1f} "
            f"| {name[:120]} |"
        )
    rest = sum(sum(durations) for _, durations in ordered[kinds:])
    print(f"| {rest / 1e9 / STEPS:9.3f} | | | the other {max(len(ordered) - kinds, 0)} kinds |")


if __name__ == "__main__":
    sys.exit(main())
