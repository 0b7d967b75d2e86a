"""A training step on more processors than there are: what its blocks of rows cost, and so its time at best.

    python benchmarks/processors.py --workload=T1 --processors=8,16,64

A step of n blocks, each computed by one processor, gives the same sums on any machine (`threads.emulate`), so that the
processor time that n blocks take can be measured on fewer processors. On n processors a step takes at least that time
divided by n. For comparison, one operation at a time on all processors: its time on one and on two processors gives the
share that runs in parallel, and Amdahl's law the rest. Each measurement is a process of its own; they run one after the
other.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time

from ledger import TRAINING
from train_step import training_step

from t2t_lite import config, registry
from t2t_lite.distributed.tensorflow_loading import load_tensorflow
from t2t_lite.ops import threads

BLOCKS = (1, 2, 4, 8, 16)


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description="Prints what blocks of rows cost, and times on more processors.")
    parser.add_argument("--workload", choices=sorted(TRAINING), default="T1")
    parser.add_argument("--processors", default="4,8,16,64", help="numbers of processors to expect times for")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--measure", metavar="BLOCKS,THREADS", help="only measure this, as JSON")
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(_measure(args.workload, *map(int, args.measure.split(",")), args.rounds)))
        return
    found = {blocks: _in_process(args, blocks, 1) for blocks in BLOCKS}
    two_threads = _in_process(args, 1, 2)
    print(f"{args.workload}\n\n| blocks | processor s a step | relative to one | MB |\n|---|---|---|---|")
    for blocks, (_, processor, memory) in found.items():
        print(f"| {blocks} | {processor:.3f} | {processor / found[1][1]:.2f} | {memory:,.0f} |")
    one, two = found[1][1], two_threads[0]
    parallel = min(2 * (1 - two / one), 1)
    print(f"\nOne operation at a time: {one:.3f} s of one processor, {two:.3f} s with two threads, so that ", end="")
    print(f"{parallel:.0%} of it runs in parallel.\n")
    print("| processors | a block for each, s at least | one operation at a time, s |\n|---|---|---|")
    for number in map(int, args.processors.split(",")):
        blocks = f"{found[number][1] / number:.3f}" if number in found else "not measured"
        print(f"| {number} | {blocks} | {one * (1 - parallel + parallel / number):.3f} |")


def _in_process(args: argparse.Namespace, blocks: int, per_operation: int) -> tuple[float, float, float]:
    command = [sys.executable, __file__, f"--workload={args.workload}", f"--rounds={args.rounds}"]
    command.append(f"--measure={blocks},{per_operation}")
    seconds, processor, memory = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return seconds, processor, memory


def _measure(workload: str, blocks: int, per_operation: int, rounds: int) -> tuple[float, float, float]:
    """Returns the seconds and the processor's seconds of a step, and the largest memory in MB."""
    load_tensorflow()
    if not threads.emulate(blocks, per_operation):
        raise SystemExit(f"{blocks} blocks of {per_operation} threads cannot be set here.")
    overrides, shape = TRAINING[workload]
    step, _ = training_step(config.override(registry.hparams("base"), overrides), shape, 1)
    step()
    times = []
    for _ in range(rounds):
        start = time.perf_counter(), time.process_time()
        step()
        times.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    seconds, processor = (statistics.median(values) for values in zip(*times, strict=True))
    return seconds, processor, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
