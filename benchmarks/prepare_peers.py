"""What other toolkits do of a preparation, on the pairs and with the pieces of `prepare.py`.

    python benchmarks/prepare_peers.py FOLDER --sockeye=/path/to/sockeye/bin/sockeye-prepare-data

FOLDER holds train.en, train.de and data/wmt14_ende, as `prepare.py --keep=FOLDER` leaves them. Timed are, each with the
processor time of all processes:

pieces     SentencePiece's Python package cuts both sides into pieces and writes them, as spm_encode does
sockeye    sockeye-prepare-data makes shards of the pieces: counts, vocabularies, ids; no cutting into pieces
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import sentencepiece

SIDES = ("en", "de")
LINES = 10_000  # that are cut at once


def main() -> None:
    """The command; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sockeye", help="the command sockeye-prepare-data")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--pairs", type=int, help="the first pairs only")
    args = parser.parse_args()
    model = args.folder / "data" / "wmt14_ende" / "vocabulary.model"
    options = (args.processes, args.pairs)
    pairs = timed("pieces", lambda: sum(cut(model, args.folder, side, *options) for side in SIDES) // 2)
    print(f"  of {pairs:,} pairs")
    if args.sockeye:
        shutil.rmtree(args.folder / "sockeye", ignore_errors=True)
        command = [args.sockeye, f"--source={args.folder / 'pieces.en'}", f"--target={args.folder / 'pieces.de'}"]
        command += ["--shared-vocab", "--max-seq-len=256", f"--max-processes={args.processes}"]
        command.append(f"--output={args.folder / 'sockeye'}")
        timed("sockeye", lambda: subprocess.run(command, check=True, stderr=sys.stderr))


def cut(model: Path, folder: Path, side: str, threads: int, most: int | None) -> int:
    """Writes the pieces of a side, of at most so many lines; returns how many these are."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    count = 0
    with (
        open(folder / f"train.{side}", encoding="utf-8", newline="\n") as text,
        open(folder / f"pieces.{side}", "w", encoding="utf-8", newline="\n") as pieces,
    ):
        wanted = itertools.islice(text, most)
        while lines := [line.rstrip("\n") for line in itertools.islice(wanted, LINES)]:
            count += len(lines)
            pieces.writelines(
                " ".join(row) + "\n" for row in processor.encode(lines, out_type=str, num_threads=threads)
            )
    return count


def timed(what: str, run: Callable[[], int]) -> int:
    """Runs something and prints its time."""
    start, before = time.perf_counter(), sum(os.times()[:4])
    result = run()
    print(
        f"{what}: {time.perf_counter() - start:.1f} s, of processors {sum(os.times()[:4]) - before:.1f} s", flush=True
    )
    return result


if __name__ == "__main__":
    main()
