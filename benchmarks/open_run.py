"""Times the opening of a run (`open_run`) by two versions of t2t-lite, in turn, each time in a new process.

Usage: python benchmarks/open_run.py --output_dir=RUN --tree=OLD --tree=NEW --rounds=7

A tree is a checkout. Each process first opens a small run, --first, so that TensorFlow's costs per process are not
timed.
"""

import argparse
import os
import statistics
import subprocess
import sys

CHILD = """
import sys, time
from t2t_lite.distributed.tensorflow_loading import load_tensorflow
load_tensorflow()
from t2t_lite.runs.open_run import open_run
first, run = sys.argv[1:]
open_run(first)
start = time.perf_counter()
open_run(run)
print(time.perf_counter() - start)
"""


def main() -> None:
    """The command; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--first", required=True)
    parser.add_argument("--tree", action="append", required=True)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    seconds: dict[str, list[float]] = {tree: [] for tree in args.tree}
    for _ in range(args.rounds):
        for tree, times in seconds.items():
            command = [sys.executable, "-c", CHILD, os.path.abspath(args.first), os.path.abspath(args.output_dir)]
            environment = {**os.environ, "PYTHONPATH": os.path.abspath(tree)}
            done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tree, env=environment)
            times.append(float(done.stdout.split()[-1]))
    before = statistics.median(seconds[args.tree[0]])
    for tree, times in seconds.items():
        median = statistics.median(times)
        print(f"{tree}: median {median:.3f} s of {min(times):.3f} to {max(times):.3f}; ratio {median / before:.3f}")


if __name__ == "__main__":
    main()
