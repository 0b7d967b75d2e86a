"""Two versions of this code, timed in turns on the workloads of ledger.py.

    git worktree add ../before 295e56e
    python benchmarks/versions.py ../before . --rounds=5

Each version's own `benchmarks/ledger.py` makes its calls in its own process, so both see the same machine at almost the
same time. The order changes from round to round. A round's figure is the median of some calls. Prints medians of the
rounds and the median of the ratios within a round, as a table.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path

CALLS = {"T1": 5, "T2": 8, "D1": 2, "D2": 4, "D3": 6}  # of a round
ROWS = (
    *((workload, precision) for workload in ("T1", "T2") for precision in ("float32", "bfloat16")),
    *((workload, precision) for workload in ("D1", "D2", "D3") for precision in ("float32", "bfloat16", "int8")),
)


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description="Times two versions of the code in turns.")
    parser.add_argument("before", nargs="?", type=Path)
    parser.add_argument("after", nargs="?", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="workloads and precisions, such as 'T1 D2 float32'; all without it")
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)  # the process that is timed
    args = parser.parse_args()
    if args.work:
        work(*args.work)
        return
    if args.after is None:
        parser.error("give the folders of two versions")
    print("| workload | precision | before, s | after, s | after / before | rounds |\n|---|---|---|---|---|---|")
    words = set(args.only.split())
    workloads, precisions = words & set(CALLS), words - set(CALLS)
    for workload, precision in ROWS:
        if (workloads and workload not in workloads) or (precisions and precision not in precisions):
            continue
        before, after = compare((args.before, args.after), workload, precision, args.rounds)
        ratios = [b / a for a, b in zip(before, after, strict=True)]
        print(
            f"| {workload} | {precision} | {statistics.median(before):.3f} | {statistics.median(after):.3f} "
            f"| **{statistics.median(ratios):.3f}** | {', '.join(f'{ratio:.3f}' for ratio in ratios)} |",
            flush=True,
        )
    print(f"\nPython {platform.python_version()}, {os.cpu_count()} processors")


def compare(trees: tuple[Path, Path], workload: str, precision: str, rounds: int) -> list[list[float]]:
    """Seconds of each round, of each version."""
    processes = [start(tree.resolve(), workload, precision) for tree in trees]
    try:
        for process in processes:
            measure(process)  # so that nothing is measured while the other one is still getting ready
        seconds: list[list[float]] = [[], []]
        for number in range(rounds):
            for which in (0, 1) if number % 2 else (1, 0):
                seconds[which].append(measure(processes[which]))
        return seconds
    finally:
        for process in processes:
            process.kill()
            process.wait()


def start(tree: Path, workload: str, precision: str) -> subprocess.Popen[str]:
    """A process with the code of a version."""
    path = os.pathsep.join([str(tree), str(tree / "benchmarks")])
    return subprocess.Popen(
        [sys.executable, str(Path(__file__).resolve()), "--work", workload, precision],
        env={**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def measure(process: subprocess.Popen[str]) -> float:
    """Asks a process for the seconds of a call, which are the median of some calls."""
    assert process.stdin
    assert process.stdout
    process.stdin.write("\n")
    process.stdin.flush()
    for line in process.stdout:
        if line.startswith("seconds "):
            return float(line.split()[1])
    raise SystemExit("A version ended without an answer; its error stands above.")


def work(workload: str, precision: str) -> None:
    """Answers each line of standard input with the median of a round's calls."""
    import ledger
    from train_step import seconds_of

    try:
        from t2t_lite.distributed.tensorflow_loading import load_tensorflow
    except ImportError:  # a version that has it elsewhere
        from t2t_lite.bin.cli import load_tensorflow
    load_tensorflow()
    make = ledger._training if workload in ledger.TRAINING else ledger._decoding
    call, *_ = make(workload, precision)
    for _ in range(2):
        call()
    for _ in sys.stdin:
        times = [seconds_of(call) for _ in range(CALLS[workload])]
        print("seconds", statistics.median(times), flush=True)


if __name__ == "__main__":
    main()
