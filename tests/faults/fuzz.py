"""Runs every parser of unchecked input on damaged inputs: python -m tests.faults.fuzz --cases=1000000 --seed=1.

It reports cases that give neither a result nor one of the package's own errors, cases that take longer than a second,
and how much the memory grew. For a given seed, case N of a parser is always the same, whatever ran before it:
--only=PARSER --first=N.
"""

import argparse
import faulthandler
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import NamedTuple

from t2t_lite.errors import T2TError
from tests.faults.mutation import mutated
from tests.faults.parsers import Parser, make_parsers

SECONDS = 1.0  # processor time that a case may take
_HANGS = 10.0  # seconds of processor time after which a case is aborted


class Result(NamedTuple):
    """The results of a parser's cases; `faults` holds (case, input, outcome)."""

    cases: int
    refused: int
    seconds: float
    slowest: float
    megabytes: float
    faults: list[tuple[int, bytes, str]]


def fuzz(parser: Parser, cases: int, seed: int, first: int = 0) -> Result:
    """Runs the cases `first` to `first + cases` of a parser."""
    signal.signal(signal.SIGPROF, _hangs)
    refused, slowest, faults = 0, 0.0, []
    start, memory = time.process_time(), _peak_megabytes()
    for case in range(first, first + cases):
        data = mutated(random.Random(f"{seed} {parser.name} {case}"), parser.seeds)
        if parser.size is not None:
            data = data[: parser.size].ljust(parser.size, b"\0")
        since = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, _HANGS)
        try:
            parser.call(data)
        except T2TError:
            refused += 1
        except Exception:
            faults.append((case, data, traceback.format_exc(limit=-2)))
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        seconds = time.process_time() - since
        slowest = max(slowest, seconds)
        if seconds > SECONDS:
            faults.append((case, data, f"{seconds:.1f} seconds"))
    return Result(cases, refused, time.process_time() - start, slowest, _peak_megabytes() - memory, faults)


def shares(parsers: list[Parser], cases: int) -> list[int]:
    """How many of the cases each parser gets; together they are `cases`."""
    whole = sum(parser.share for parser in parsers)
    numbers = [cases * parser.share // whole for parser in parsers]
    return [numbers[0] + cases - sum(numbers), *numbers[1:]]


def _hangs(number: int, frame: object) -> None:
    raise TimeoutError(f"not done after {_HANGS:.0f} s")


def _peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> int:
    """Prints a line for each parser, and the faults; the exit status is 1 if there were any."""
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--cases", type=int, default=1_000_000)
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--only", default="", metavar="PARSER", help="the beginning of a parser's name")
    flags.add_argument("--first", type=int, default=0, metavar="N")
    args = flags.parse_args()
    faulthandler.enable()  # names the parser if a library ends the process
    with tempfile.TemporaryDirectory() as folder:
        parsers = [parser for parser in make_parsers(Path(folder)) if parser.name.startswith(args.only)]
        os.chdir(folder)
        results = []
        for parser, cases in zip(parsers, shares(parsers, args.cases), strict=True):
            result = fuzz(parser, cases, args.seed, args.first)
            results.append(result)
            print(
                f"{parser.name:24} {result.cases:9,} cases {result.refused:9,} refused {result.seconds:6.1f} s",
                f"slowest {result.slowest * 1000:4.0f} ms, memory +{result.megabytes:.0f} MB",
                f"{len(result.faults)} faults",
                sep=", ",
                flush=True,
            )
            for case, data, fault in result.faults[:5]:
                print(f"  case {case}: {data[:300]!r}\n{fault}", flush=True)
    faults = sum(len(result.faults) for result in results)
    print(f"{sum(r.cases for r in results):,} cases, {sum(r.seconds for r in results):.0f} s, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
