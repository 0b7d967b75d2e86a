"""Minutes from raw text to a score on dev, of our toolkit and of others on the same data, and the curves.

    python benchmarks/time_to_score.py --data=multi30k/tok --work=runs/time --peers=peers

Models have the size of our recipe `multi30k`, 8,000 pieces (or merges of BPE), float32 and --threads threads. With
--recipe=own each peer trains as it is published: its recipe that is nearest in size and data, or its defaults. With
--recipe=same it has our recipe's settings, as far as it knows them. Ours is `multi30k` in both. recipes/ has the
settings and their sources.

Each engine has clocks, of time and of processor time, on which everything counts: its vocabulary and data, its start,
training, and its own evaluations, each of which translates all of dev with the search that the engine uses there. We
score all outputs as bleu_tok_lc. The engines take turns of --slice minutes, as processes that are stopped (SIGSTOP)
while others run, so that a noisy hour is the same for all; the memory must hold all of them. An engine ends when it
reaches --bleu or has run for --max_minutes.

The same command continues a run that was interrupted. Then each engine resumes from its newest checkpoint, and the
minutes since then count twice. --work gets report.md, curves.svg, and a folder for each engine with all that it prints.

--peers holds environments called onmt, sockeye and joeynmt. With Python 3.10: OpenNMT-tf==2.32.0 and
tensorflow==2.13.*. With Python 3.11 and without their dependencies' pins (--no-deps): sockeye==3.1.34, joeynmt==2.3.0,
each beside torch, subword-nmt, sacrebleu and what else they import.
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from score_engines import ENGINES, LOG, Engine, read_lines

from t2t_lite.metrics.names import metric

STATE = "state.json"
POLL = 1.0  # seconds between two looks for new outputs


@dataclasses.dataclass
class Clock:
    """What is kept of an engine between two runs of this script; all seconds are since raw text.

    prepared: seconds until the preparation was over; 0: it is not.
    seconds, processor: so far, and those of processor time.
    evaluations: updates -> seconds, processor seconds and the score then.
    end: why it ended; "" while it has not.
    """

    prepared: float = 0.0
    seconds: float = 0.0
    processor: float = 0.0
    evaluations: dict[int, tuple[float, float, float]] = dataclasses.field(default_factory=dict)
    end: str = ""

    def reached(self, bleu: float) -> tuple[float, float] | None:
        """Seconds and processor seconds until the first evaluation that scored `bleu` or more; None: there is none."""
        return min(
            ((seconds, busy) for seconds, busy, found in self.evaluations.values() if found >= bleu), default=None
        )


class Training:
    """An engine with its clock and its process, which runs only within `turn`."""

    def __init__(self, engine: Engine, args: argparse.Namespace, references: list[str]) -> None:
        self.engine, self._args, self._references = engine, args, references
        self.folder = args.work / engine.name
        self.folder.mkdir(parents=True, exist_ok=True)
        self._process: subprocess.Popen[bytes] | None = None
        self.clock = Clock()
        if (self.folder / STATE).exists():
            kept = json.loads((self.folder / STATE).read_text())
            kept["evaluations"] = {int(updates): tuple(at) for updates, at in kept["evaluations"].items()}
            self.clock = Clock(**kept)

    def turn(self, seconds: float) -> None:
        """Prepares if that is still to be done; then trains for some seconds and stops the process."""
        clock = self.clock
        if not clock.prepared:
            self._prepare()
        if self._process is None:
            every = self._args.eval_every or self.engine.eval_every
            self.engine.configure(self.folder, self._args.recipe, every)
            self._process, self._processor_before = self._start("exec " + self.engine.train), clock.processor
        new: dict[int, tuple[float, float, Path | float]] = {}
        try:
            self._run(self._process, seconds, new)
        finally:  # also where this script is interrupted
            for updates, (at, busy, found) in sorted(new.items()):
                score = found if isinstance(found, float) else self._score(found)
                clock.evaluations[updates] = at, busy, score
                print(f"{self.engine.name}: {updates} updates, {at / 60:.1f} minutes: {score:.2f}", flush=True)
            self._settle()

    def _prepare(self) -> None:
        shutil.rmtree(self.folder)  # what an interrupted preparation left
        self.folder.mkdir()
        began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        self._process = self._start(self.engine.prepare)
        if self._process.wait():
            self._fail("preparation")
        self._process, after = None, resource.getrusage(resource.RUSAGE_CHILDREN)
        self.clock.prepared = self.clock.seconds = time.perf_counter() - began
        self.clock.processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def _run(
        self, process: subprocess.Popen[bytes], seconds: float, new: dict[int, tuple[float, float, Path | float]]
    ) -> None:
        """Lets the process run for some seconds, and collects in `new` what it puts out, and when."""
        clock, began, before = self.clock, time.perf_counter(), self.clock.seconds
        os.killpg(process.pid, signal.SIGCONT)
        try:
            while clock.seconds - before < seconds and process.poll() is None:
                time.sleep(POLL)
                clock.seconds = before + time.perf_counter() - began
                clock.processor = self._processor_before + processor_seconds(process.pid)
                for updates, found in self.engine.outputs(self.folder).items():
                    if updates not in {*clock.evaluations, *new} and self._is_whole(found):
                        new[updates] = clock.seconds, clock.processor, found
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGSTOP)
        if process.returncode:
            self._fail("training")

    def _settle(self) -> None:
        """Ends the engine if it is through, and keeps its clock."""
        clock = self.clock
        if clock.reached(self._args.bleu):
            clock.end = f"reached {self._args.bleu:g}"
        elif self._args.max_minutes and clock.seconds >= 60 * self._args.max_minutes:
            clock.end = f"{self._args.max_minutes:g} minutes were over"
        elif self._process and self._process.returncode is not None:
            clock.end = "its training was over"
        if clock.end:
            self.kill()
        (self.folder / STATE).write_text(json.dumps(dataclasses.asdict(clock)))

    def kill(self) -> None:
        """Ends the process and those that it started."""
        if self._process and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _start(self, command: str) -> subprocess.Popen[bytes]:
        ours = self.engine.name == "t2t-lite"
        home = Path(sys.executable).parent if ours else self._args.peers.absolute() / self.engine.name / "bin"
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(self._args.threads))
        env = {**os.environ, **threads, "PATH": f"{home}:{os.environ['PATH']}"}
        with (self.folder / LOG).open("ab") as log:
            return subprocess.Popen(
                ["bash", "-ec", command], cwd=self.folder, env=env, stdout=log, stderr=log, start_new_session=True
            )

    def _fail(self, what: str) -> None:
        tail = "\n".join((self.folder / LOG).read_text(errors="replace").split("\n")[-15:])
        raise SystemExit(f"{self.engine.name}: the {what} failed; the end of {self.folder / LOG}:\n{tail}")

    def _is_whole(self, found: Path | float) -> bool:
        return isinstance(found, float) or len(read_lines(found)) == len(self._references)

    def _score(self, outputs: Path) -> float:
        return float(metric("bleu_tok_lc").score(self.engine.lines(outputs), self._references).value)


def main() -> None:
    """Runs the benchmark."""
    args = _parser().parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # so that `finally` is reached
    references = write_data(args.data, args.work / "data")
    trainings = [Training(ENGINES[name], args, references) for name in args.engines.split(",")]
    try:
        while left := [training for training in trainings if not training.clock.end]:
            for training in left:
                training.turn(60 * args.slice)
            report(trainings, args)
    finally:
        for training in trainings:
            training.kill()
    report(trainings, args)
    print((args.work / "report.md").read_text())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Minutes from raw text to a score on dev, of several toolkits.")
    parser.add_argument("--data", type=Path, required=True, help="the folder of train*.en, train*.de, val*.en, val*.de")
    parser.add_argument("--work", type=Path, required=True, help="an empty folder, or that of a run to continue")
    parser.add_argument("--peers", type=Path, help="the folder of the peers' environments")
    parser.add_argument("--engines", default=",".join(ENGINES), help="default: %(default)s")
    parser.add_argument("--recipe", choices=("own", "same"), default="own", help="of the peers; same: our settings")
    parser.add_argument("--bleu", type=float, default=38.0, help="on dev; default: %(default)s")
    parser.add_argument("--max_minutes", type=float, default=0.0, help="of an engine; default: no end")
    parser.add_argument("--slice", type=float, default=5.0, help="minutes of a turn; default: %(default)s")
    parser.add_argument("--eval_every", type=int, default=0, help="updates; default: each engine's (score_engines.py)")
    parser.add_argument("--threads", type=int, default=2)
    return parser


def write_data(source: Path, folder: Path) -> list[str]:
    """Writes train and dev as plain files, from which all engines start; returns the references of dev."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, name in (("train", "train"), ("dev", "val")):
        for language in ("en", "de"):
            (path,) = (p for p in source.glob(f"{name}*") if p.name.removesuffix(".gz").endswith(f".{language}"))
            data = path.read_bytes()
            (folder / f"{split}.{language}").write_bytes(gzip.decompress(data) if path.suffix == ".gz" else data)
    return read_lines(folder / "dev.de")


def processor_seconds(pid: int) -> float:
    """What a process has used so far, with those of its own that have ended (proc_pid_stat(5), fields 14 to 17)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def report(trainings: list[Training], args: argparse.Namespace) -> None:
    """Writes report.md, a table and all evaluations, and curves.svg."""
    goal = f"{args.bleu:g}"
    titles = [
        "engine",
        "minutes of preparation",
        "minutes",
        "updates",
        "million target pieces",
        "processor s an update",
    ]
    titles += ["best BLEU", f"minutes to {goal}", f"processor minutes to {goal}", "end"]
    rows = [titles, ["---"] * len(titles)]
    for training in trainings:
        clock = training.clock
        row = [training.engine.name, f"{clock.prepared / 60:.1f}", f"{clock.seconds / 60:.1f}"]
        if clock.evaluations:
            updates, (_, busy, _) = max(clock.evaluations.items())
            pieces = updates * training.engine.pieces(training.folder) / 1e6
            best = max(score for *_, score in clock.evaluations.values())
            row += [f"{updates:,}", f"{pieces:.2f}", f"{busy / updates:.2f}", f"{best:.2f}"]
        reached = [f"{seconds / 60:.1f}" for seconds in clock.reached(args.bleu) or ()]
        rows.append([*row, *[""] * (7 - len(row)), *(reached or ["", ""]), clock.end])
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    curves = [
        (training.engine.name, [(seconds / 60, score) for seconds, _, score in training.clock.evaluations.values()])
        for training in trainings
    ]
    lines += ["", "BLEU on dev, minutes since raw text: score", ""]
    lines += [f"- {name}: " + ", ".join(f"{at:.1f}: {score:.2f}" for at, score in points) for name, points in curves]
    (args.work / "report.md").write_text("\n".join([*lines, ""]))
    draw(curves, args.bleu, args.work / "curves.svg")


def draw(curves: list[tuple[str, list[tuple[float, float]]]], goal: float, path: Path) -> None:
    """Draws BLEU against minutes."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, panel = pyplot.subplots(figsize=(6, 3.5), layout="constrained")
    for name, points in curves:
        panel.plot([at for at, _ in points], [score for _, score in points], marker=".", linewidth=1, label=name)
    panel.axhline(goal, color="#888888", linewidth=0.5)
    panel.set_xlabel("minutes since raw text")
    panel.set_ylabel("BLEU on dev")
    panel.grid(color="#dddddd", linewidth=0.5)
    panel.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


if __name__ == "__main__":
    main()
