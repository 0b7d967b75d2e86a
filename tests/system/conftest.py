"""Fixtures of the system tests: commands run as whole processes, a small corpus, one trained run."""

import gzip
import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from t2t_lite import registry
from tests import commands

Run = Callable[..., subprocess.CompletedProcess[str]]

# Small enough to train in seconds, with outputs that differ from line to line.
RECIPE = (
    "norm=post,num_layers=1,d_model=64,d_ff=64,num_heads=2,dropout=0,batch_tokens=1024,max_length=32,warmup_steps=40,"
    "learning_rate_factor=1,extra_length=5,train_steps=120,log_every=30,eval_every=60,save_every=20,"
    "average_checkpoints=3,keep_checkpoints=5"
)

REPORT = re.compile(
    r"step (\d+) of \d+: loss [\d.]+, lr \d\.\d\de-\d\d, [\d,]+ tok/s(?:, about .+ left(?:, until .+)?)?"
)


@pytest.fixture(scope="session")
def run() -> Run:
    """Runs `run("trainer", "--flag", ..., status=0)`; checks the exit status, and that no traceback is shown.

    With `quick=True` the command cannot load TensorFlow. With `fresh=True` it runs in a new interpreter, as for a user
    (see tests/commands.py). `env` sets environment variables; the value None removes one. The returned output leaves
    out progress lines of slow work.
    """
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment = {**os.environ, **path}
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)  # the commands themselves keep TensorFlow quiet

    def run_command(
        command: str,
        *flags: object,
        status: int = 0,
        quick: bool = False,
        fresh: bool = False,
        input: bytes = b"",
        env: Mapping[str, str | None] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        module = f"t2t_lite.cli.{command}"
        changed = {**environment, **(env or {})}
        whole = {name: value for name, value in changed.items() if value is not None}
        if fresh:
            python = [sys.executable, "-m", module, *map(str, flags)]
            done = subprocess.run(python, input=input, capture_output=True, check=False, env=whole, timeout=300)
        else:
            done = commands.run(module, *flags, input=input, env=whole, light=quick)
        stderr = commands.without_progress(done.stderr.decode("utf-8"))
        assert done.returncode == status, stderr
        assert "Traceback" not in stderr
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode("utf-8"), stderr)

    return run_command


def write_lines(path: Path, lines: Sequence[str]) -> Path:
    data = "".join(f"{line}\n" for line in lines).encode("utf-8")
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of toy_ende pairs: 1,000 for training (one side gzipped), 12 in valid.*, 16 in test.*."""
    folder = tmp_path_factory.mktemp("corpus")
    problem = registry.problem("toy_ende", train_size=1000)
    for split, name, count in (("train", "train", 1000), ("dev", "valid", 12), ("test", "test", 16)):
        sources, targets = zip(*itertools.islice(problem.samples(split), count), strict=True)
        write_lines(folder / f"{name}.en", sources)
        write_lines(folder / f"{name}.de{'.gz' if name == 'train' else ''}", targets)
    return folder


@pytest.fixture(scope="session")
def trained(run: Run, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A trained run, which tests must not change, and the trainer's output.

    The copy "as_trained" beside it has no later scores.
    """
    folder = tmp_path_factory.mktemp("runs") / "mine"
    done = run(
        "trainer",
        "--problem=text2text",
        f"--source_dir={corpus}",
        "--languages=en-de",
        "--vocab_size=400",
        "--hparams_set=tiny",
        f"--hparams={RECIPE}",
        f"--output_dir={folder}",
        fresh=True,
    )
    # Without a terminal: no notices of TensorFlow, no progress bar, one line for each report.
    warning, *reports = done.stderr.removesuffix("\n").split("\n")
    assert " of 1,000 training pairs " in warning  # some have more than max_length pieces
    assert [int(found[1]) for line in reports if (found := REPORT.fullmatch(line))] == [30, 60, 90, 120]
    assert len(reports) == 4, done.stderr
    shutil.copytree(folder, folder.with_name("as_trained"))  # t2t-lite-eval writes scores into the other one
    return folder, done.stdout
