"""Speed and memory of data preparation on generated pairs, and what WMT14 English-French would take.

    python benchmarks/prepare.py --pairs=250000,1000000 --clean

Random pairs are first written to files: words of an invented vocabulary with Zipf's frequencies, sentence lengths
log-normal about those of WMT14 (25 words on average). Then a separate process prepares wmt14_ende from these files
(37,000 pieces). The memory of this process and of those it starts is read ten times a second: their proportional set
size, in which a page shared by several processes is counted once. Needs Linux (/proc).

The processor time of the first process and of those that it starts is printed, too. What the first one does is not
shared, so it limits how many processes are of use, on however many cores.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ENFR_PAIRS = 36_000_000  # section 5.1
TYPES = 400_000  # words of the vocabulary
CHUNK = 10_000  # pairs drawn at once
TRAINING = "training of the vocabulary"  # on a sample of a fixed size


@dataclasses.dataclass
class Measured:
    """One preparation: seconds and peak memory in bytes by stage. "vocabulary" has the memory of training it, too."""

    pairs: int
    tokens: int
    text_bytes: int
    store_bytes: int
    seconds: dict[str, float]
    memory: dict[str, int]
    largest_process: int  # bytes, ru_maxrss
    processor: dict[str, tuple[float, float]]  # seconds of the first process and of the others, by stage

    def format(self) -> str:
        """Returns some lines for people."""
        total = sum(self.seconds.values())
        first, others = (
            1e6 / self.pairs * sum(times[i] for stage, times in self.processor.items() if stage != TRAINING)
            for i in (0, 1)
        )
        shares = ", ".join(f"{stage} {own:.1f} + {rest:.1f} s" for stage, (own, rest) in self.processor.items())
        stages = ", ".join(
            f"{stage} {seconds:,.0f} s"
            + (f" and {self.memory[stage] / 2**20:,.0f} MiB" if stage in self.memory else "")
            for stage, seconds in self.seconds.items()
        )
        return (
            f"{self.pairs:,} pairs ({self.text_bytes / 2**20:,.0f} MiB of text, {self.tokens:,} tokens): "
            f"{total:,.0f} s, {self.pairs / total:,.0f} pairs/s, {self.tokens / total:,.0f} tokens/s\n"
            f"  stages: {stages}\n"
            f"  memory of all processes at most {max(self.memory.values()) / 2**20:,.0f} MiB, of the largest one "
            f"{self.largest_process / 2**20:,.0f} MiB; on disk {self.store_bytes / 2**20:,.0f} MiB\n"
            f"  processor time, first process + others: {shares}\n"
            f"  of 1,000,000 pairs, without {TRAINING}: {first:.1f} + {others:.1f} s; n processes would take "
            f"{first:.1f} + {others:.1f} / n s"
            + "".join(f"; {n}: {(first + others) / (n * first + others):.0%} efficiency" for n in (1, 2, 4, 16))
        )


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description="Times data preparation on generated pairs, and looks at its memory.")
    parser.add_argument("--pairs", default="250000,1000000", help="sizes of the corpora")
    parser.add_argument("--clean", action="store_true")
    parser.add_argument("--num_workers", type=int, help="processes that encode; default: one per CPU")
    parser.add_argument("--keep", type=Path, help="a folder that does not exist, for the last corpus and its store")
    parser.add_argument("--prepare", help=argparse.SUPPRESS)  # the process that is measured
    args = parser.parse_args()
    if args.prepare:
        prepare_and_report(Path(args.prepare), args.clean, args.num_workers)
        return
    results = []
    for pairs in map(int, args.pairs.split(",")):
        with tempfile.TemporaryDirectory(prefix="t2t-lite-prepare-") as folder:
            text_bytes = draw_corpus(Path(folder), pairs)
            results.append(measure(Path(folder), pairs, text_bytes, args.clean, args.num_workers))
            if args.keep and pairs == int(args.pairs.split(",")[-1]):
                shutil.copytree(folder, args.keep)
        print(results[-1].format(), flush=True)
    print(extrapolated(results[-1]))


def draw_corpus(folder: Path, pairs: int) -> int:
    """Writes `pairs` pairs for training and 3,000 for dev and test each; returns the bytes for training."""
    draw = np.random.default_rng(1)
    vocabularies = [np.array(draw_words(np.random.default_rng(seed)), dtype=object) for seed in (2, 3)]
    frequencies = np.cumsum(1 / (np.arange(TYPES) + 2.7))
    for name, number in (("newstest2013", 3000), ("newstest2014", 3000), ("train", pairs)):
        for start in range(0, number, CHUNK):
            rows = min(CHUNK, number - start)
            lengths = np.clip(draw.lognormal(3.0, 0.65, rows), 1, 200)
            for code, words, factor in zip(("en", "de"), vocabularies, (1.0, 0.95), strict=True):
                counts = np.maximum(lengths * factor * draw.normal(1, 0.1, rows), 1).astype(int)
                ranks = np.searchsorted(frequencies, draw.random(counts.sum()) * frequencies[-1])
                chosen, ends = words[ranks], np.cumsum(counts)
                lines = (" ".join(chosen[end - n : end]) for end, n in zip(ends, counts, strict=True))
                with open(folder / f"{name}.{code}", "a", encoding="utf-8", newline="\n") as file:
                    file.write("".join(f"{line}.\n" for line in lines))
    return sum((folder / f"train.{code}").stat().st_size for code in ("en", "de"))


def draw_words(draw: np.random.Generator) -> list[str]:
    """Invents TYPES different words of syllables, the shorter ones first, as frequent words are short."""
    syllables = [c + v + e for c in "b d f g k l m n p r s t w sch st".split() for v in "aeiou" for e in ("", "n", "r")]
    words: dict[str, None] = {}
    while len(words) < TYPES:
        number = 1 + int(np.log10(len(words) + 1) * 0.75 + draw.random())
        words["".join(syllables[i] for i in draw.integers(len(syllables), size=number))] = None
    return list(words)


def measure(folder: Path, pairs: int, text_bytes: int, clean: bool, num_workers: int | None) -> Measured:
    """Prepares the corpus in a process of its own and measures its memory until it ends."""
    command = [sys.executable, __file__, f"--prepare={folder}", *(["--clean"] if clean else [])]
    if num_workers is not None:
        command.append(f"--num_workers={num_workers}")
    stage_file = folder / "stage"
    stage_file.write_text("start")
    memory: dict[str, int] = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            stage = stage_file.read_text() or "start"
            memory[stage] = max(memory.get(stage, 0), sum(map(proportional_set_size, descendants(process.pid))))
            time.sleep(0.1)
        output = process.stdout.read() if process.stdout else ""
    if process.returncode:
        raise SystemExit("the preparation failed")
    return Measured(pairs=pairs, text_bytes=text_bytes, memory=memory, **json.loads(output))


def prepare_and_report(folder: Path, clean: bool, num_workers: int | None) -> None:
    """In the process that is measured: prepares, keeps the name of the stage in a file, prints figures as JSON."""
    from t2t_lite import registry
    from t2t_lite.data.prepare import prepare
    from t2t_lite.text import vocabulary_training

    seconds: dict[str, float] = {}
    processor: dict[str, tuple[float, float]] = {}
    stage, since, used = "start", time.perf_counter(), os.times()

    def begin(label: str, now: float, at: os.times_result) -> None:
        nonlocal stage, since, used
        seconds[stage] = seconds.get(stage, 0) + now - since
        own, others = processor.get(stage, (0, 0))
        own += at.user + at.system - used.user - used.system
        others += at.children_user + at.children_system - used.children_user - used.children_system
        processor[stage] = own, others
        stage, since, used = label, now, at
        (folder / "stage").write_text(label)

    def progress(done: int, label: str) -> None:
        if label != stage:
            begin(label, time.perf_counter(), os.times())

    def train(*args: Any, **settings: Any) -> Any:
        begin(TRAINING, time.perf_counter(), os.times())
        return run_trainer(*args, **settings)

    run_trainer, vocabulary_training._run_trainer = vocabulary_training._run_trainer, train
    problem = registry.problem("wmt14_ende", raw_dir=str(folder), clean=clean)
    store = prepare(problem, folder / "data", num_workers=num_workers, progress=progress)
    begin("end", time.perf_counter(), os.times())
    facts = store.manifest["splits"]["train"]
    largest = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    figures = {
        "tokens": facts["source"]["ids"] + facts["target"]["ids"],
        "store_bytes": sum(file["bytes"] for file in store.manifest["files"].values()),
        "seconds": seconds,
        "processor": processor,
        "largest_process": largest * 1024,
    }
    print(json.dumps(figures))


def descendants(pid: int) -> list[int]:
    """The process and all that it has started."""
    try:
        children = [
            int(child)
            for task in os.listdir(f"/proc/{pid}/task")
            for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split()
        ]
    except OSError:  # it has just ended
        return []
    return [pid, *(each for child in children for each in descendants(child))]


def proportional_set_size(pid: int) -> int:
    """Bytes of memory of a process; of shared pages only its share."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().split("\n")
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def extrapolated(measured: Measured) -> str:
    """What 36M pairs would take: the vocabulary is trained on a sample of fixed size, all else grows with the pairs."""
    factor = ENFR_PAIRS / measured.pairs
    fixed = measured.seconds[TRAINING]
    hours = (fixed + factor * (sum(measured.seconds.values()) - fixed)) / 3600
    return (
        f"{ENFR_PAIRS:,} pairs at this speed: {hours:.1f} hours, "
        f"{factor * measured.store_bytes / 2**30:.1f} GiB on disk, "
        f"{max(measured.memory.values()) / 2**20:,.0f} MiB of memory"
    )


if __name__ == "__main__":
    main()
