"""A recipe too large for the memory limit of its process: the command says so before its first step."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).resolve().parents[2]
# The limit is added to the memory that TensorFlow takes when it is loaded, which differs from machine to machine. One
# tensor, inside the feed-forward network, is far larger than the limit; all others are small, as not all of TensorFlow
# survives a lack of memory.
LIMITED = """
import resource, sys
from t2t_lite.cli import common, trainer
from t2t_lite.distributed.tensorflow_loading import load_tensorflow
load_tensorflow()
taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + 8 * 2**30,) * 2)
"""
RUN = "sys.exit(trainer.main(sys.argv[1:]))"
# Otherwise the estimate would not let it come to that.
TOO_LOW = "from t2t_lite.training import trainer as training; training.choose_accumulate = lambda *given: 1"


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the size of a process as Linux shows it")
def test_the_largest_batch_is_tried_before_the_first_step(tmp_path: Path) -> None:
    flags = [
        "--problem=toy_reverse",
        "--hparams_set=tiny",
        "--hparams=num_layers=1,d_model=16,num_heads=1,d_ff=200000,batch_tokens=65536",
    ]
    command = [
        sys.executable,
        "-c",
        f"{LIMITED}\n{RUN}",
        *flags,
        "--accumulate=1",
        "--num_workers=1",
        f"--output_dir={tmp_path / 'run'}",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1, done.stderr
    warning, _, error = done.stderr.partition("\n")
    assert warning.startswith("warning: 1,400 steps of hparams set tiny are 700 epochs of 10,000 pairs; ")
    assert re.fullmatch(
        r"error: The device ran out of memory when the largest batch was tried before the first step: \d+ rows x "
        r"\(\d+ \+ \d+\) pieces at once, of the batch's \d+ rows \(accumulate=1\)\. Smaller parts need less, and "
        r"change no result: --accumulate=2\. "
        r"\(.*allocat.*\)\n",
        error,
    )
    assert not (tmp_path / "run" / "checkpoints").exists()
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the size of a process as Linux shows it")
def test_more_parts_are_tried_until_the_memory_is_enough(tmp_path: Path) -> None:
    sizes = "num_layers=1,d_model=8,num_heads=1,d_ff=300000,batch_tokens=8192"
    run = "train_steps=1,log_every=1,eval_lines=1,beam_size=1,extra_length=1"
    flags = ["--problem=toy_reverse", "--hparams_set=tiny", f"--hparams={sizes},{run}", "--num_workers=1"]
    command = [sys.executable, "-c", f"{LIMITED}\n{TOO_LOW}\n{RUN}", *flags, f"--output_dir={tmp_path / 'run'}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=900)
    tried = re.findall(r"^memory:   too little with --accumulate=(\d+); trying (\d+)$", done.stdout, re.MULTILINE)
    assert tried[0] == ("1", "2")
    assert all(int(more) == 2 * int(less) for less, more in tried)
    assert re.search(r"^step 1 of 1: loss ", done.stdout, re.MULTILINE), done.stderr
    [start] = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))["starts"]
    assert start["computed"]["accumulate"] == int(tried[-1][1])
