"""A long file through t2t-lite-decoder, killed and resumed: the output compared with the undisturbed one, and memory.

    python benchmarks/long_decode.py --output_dir=RUN --input=FILE [--lines=100000] [--kills=3] [--seed=1]

The lines of FILE are repeated, each time with another word in front, until there are enough. The whole file is decoded
first without disturbance, then with SIGKILL at random moments, each followed by --resume. Prints lines per second, the
peak memory of the undisturbed process by lines done, when the other was killed, lines that were done twice, and whether
the two outputs are equal.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def write_input(source: Path, path: Path, number: int) -> None:
    """Writes `number` lines."""
    lines = [line for line in source.read_text(encoding="utf-8").split("\n") if line.strip()]
    words = lines[0].split()
    with open(path, "w", encoding="utf-8") as file:
        for i, line in enumerate(itertools.islice(itertools.cycle(lines), number)):
            file.write(f"{words[i // len(lines) % len(words)]} {line}\n")


def lines_done(out: Path) -> int:
    """Number of lines written so far."""
    try:
        return json.loads(Path(f"{out}.partial.json").read_text())["lines"]
    except (OSError, ValueError):
        return 0


def memory(process: subprocess.Popen[bytes]) -> int:
    """Peak memory of the process so far, in megabytes."""
    for row in Path(f"/proc/{process.pid}/status").read_text().split("\n"):
        if row.startswith("VmHWM"):
            return int(row.split()[1]) // 1024
    return 0


def undisturbed(command: list[str], out: Path, number: int) -> float:
    """Runs to the end; prints memory at tenths of the way; returns the seconds."""
    start, marks = time.monotonic(), [number * i // 10 for i in range(1, 10)]
    with subprocess.Popen([*command, f"--output={out}"], stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            if marks and lines_done(out) >= marks[0]:
                print(f"  {marks.pop(0):9,} lines: at most {memory(process)} MB", flush=True)
            time.sleep(0.05)
    assert process.returncode == 0
    return time.monotonic() - start


def disturbed(command: list[str], out: Path, seconds: float, kills: int, draw: random.Random) -> None:
    """Kills `kills` times, after a random part of the time that the rest would need; prints what was lost each time."""
    for left in range(kills, 0, -1):
        flags = [
            *command,
            f"--output={out}",
            *(["--resume"] if out.with_name(out.name + ".partial.json").exists() else []),
        ]
        before, wait = lines_done(out), seconds / (left + 1) * draw.uniform(0.5, 1.5)
        with subprocess.Popen(flags, stderr=subprocess.DEVNULL) as process:
            time.sleep(wait)
            process.send_signal(signal.SIGKILL)
        print(f"  killed after {wait:.1f} s: {before:,} -> {lines_done(out):,} lines done", flush=True)
    subprocess.run([*command, f"--output={out}", "--resume"], check=True, stderr=subprocess.DEVNULL)


def main() -> int:
    """Runs the comparison; returns its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output_dir", required=True, metavar="RUN")
    parser.add_argument("--input", required=True, type=Path, metavar="FILE")
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--beam_size", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_input(args.input, folder / "in", args.lines)
        command = [sys.executable, "-m", "t2t_lite.cli.decoder", f"--output_dir={args.output_dir}"]
        command += [f"--input={folder / 'in'}", f"--beam_size={args.beam_size}"]
        seconds = undisturbed(command, folder / "whole", args.lines)
        print(f"undisturbed: {args.lines:,} lines in {seconds:.1f} s, {args.lines / seconds:.0f} lines/s")
        disturbed(command, folder / "resumed", seconds, args.kills, random.Random(args.seed))
        equal = (folder / "whole").read_bytes() == (folder / "resumed").read_bytes()
        print(f"output after {args.kills} kills: {'equal' if equal else 'DIFFERENT'}")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
