"""What is worth knowing of a GPU, the most valuable first, in a quarter of an hour.

    source FOLDER/env && python3 benchmarks/gpu/quarter.py FOLDER [--seconds=780] [--only=PART,...] [--rehearse]

Each part is a command with a time limit. All that it says goes to OUT/quarter.log (OUT: a variable, default FOLDER),
its last lines to the terminal. A part that no longer fits the seconds left is left out, and named. --rehearse runs all
parts with small sizes, also without a GPU: it shows that none fails for a wrong flag.

FOLDER is what setup.sh made. With FOLDER/tok, Multi30k as pack.sh carries it, a model is trained to its BLEU.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

STEP = "python3 benchmarks/train_step.py --precision=bfloat16 --jit=on"
BASE, BIG = (f"{STEP} --rows=784 --rounds=4 --hparams_set={name}" for name in ("base", "big"))
TINY = f"{STEP} --rows=16 --rounds=1 --hparams_set=tiny"
KERNELS = "python3 benchmarks/gpu/profile_step.py"
SEARCH = "python3 benchmarks/ledger.py --precision=bfloat16 --rounds=3"
FEW = f"{SEARCH} --rounds=1 --sentences=2"
TRAIN = "python3 -m t2t_lite.cli.trainer --num_workers=1"
MULTI30K = f"{TRAIN} --output_dir={{folder}}/multi30k --hparams_set=multi30k"
TOK = "--problem=text2text --source_dir={folder}/tok --languages=en-de --metric=bleu_tok_lc --vocab_size=9712"
ONE_UPDATE = "train_steps=1,batch_tokens=256,eval_lines=1,extra_length=1"
TESTS = "python3 -m pytest -q -n 10 -p no:cacheprovider -o filterwarnings= --tb=short"
LEDGER, RUN = "^D|^arith|^weights|rror", "step|BLEU|devices|xla|rror|arning|model-"
XLA_AS_IT_COMES = "--xla_gpu_enable_triton_gemm=true --xla_gpu_experimental_enable_fusion_autotuner=true"


class Part(NamedTuple):
    """A measurement.

    Attributes:
        name: of the part.
        seconds: its time limit on a GPU.
        command: {folder} stands for FOLDER.
        rehearsal: the same with small sizes.
        shown: lines of the output that are shown.
        xla_flags: added to those that are set.
    """

    name: str
    seconds: int
    command: str
    rehearsal: str
    shown: str = "."
    xla_flags: str = ""


def _exact(name: str) -> Part:
    """A short run, packed and so of one shape: with equal weights in two of them, a GPU repeats bit for bit, too."""
    command = f"{TRAIN} --problem=toy_ende --hparams_set=tiny --data_dir={{folder}}/toy --output_dir={{folder}}/{name}"
    digest = f"sha256sum {{folder}}/{name}/checkpoints/model-*.data-*"
    whole = f"{command} --hparams=train_steps=60,eval_lines=5,packing=true && {digest}"
    rehearsal = f"{command} --hparams={ONE_UPDATE} && {digest}"
    return Part(name, 100, whole, rehearsal, RUN, "--xla_gpu_exclude_nondeterministic_ops=true")


PARTS = (
    Part("smoke", 30, "python3 benchmarks/gpu/smoke.py", "python3 benchmarks/gpu/smoke.py --without_gpu"),
    Part("base", 100, BASE, TINY),
    Part("base_warm", 40, BASE, TINY),  # from the cache of programs
    Part("big", 120, BIG, TINY),
    Part("search", 60, f"{SEARCH} --workload=D1", f"{FEW} --workload=D1", LEDGER),
    Part("search_512", 40, f"{SEARCH} --workload=D1 --sentences=512", f"{FEW} --workload=D1", LEDGER),
    Part("search_one", 40, f"{SEARCH} --workload=D3", f"{FEW} --workload=D3", LEDGER),
    Part(
        "multi30k",
        240,
        f"{MULTI30K} {TOK} --hparams=seed=4",
        f"{MULTI30K} --problem=toy_ende --hparams={ONE_UPDATE}",
        RUN,
    ),
    Part("kernels", 60, f"{KERNELS} --hparams_set=base", f"{KERNELS} --hparams_set=tiny --rows=16"),
    Part("kernels_big", 75, f"{KERNELS} --hparams_set=big", f"{KERNELS} --hparams_set=tiny --rows=16"),
    Part("base_untuned", 60, BASE, TINY, xla_flags="--xla_gpu_autotune_level=0"),
    Part("base_no_graphs", 60, BASE, TINY, xla_flags="--xla_gpu_enable_command_buffer="),
    Part("base_as_it_comes", 110, BASE, TINY, xla_flags=XLA_AS_IT_COMES),
    _exact("exact_1"),
    _exact("exact_2"),
    Part("base_tf32", 60, f"{BASE} --precision=float32", f"{TINY} --precision=float32"),
    Part(
        "memory",
        30,
        f"{TRAIN} --describe --hparams_set=base --vocab_size=37000",
        f"{TRAIN} --describe --hparams_set=tiny --vocab_size=100",
        "^Memory|^  weights|^  there",
    ),
    Part(
        "tests",
        150,
        f"{TESTS} -m 'not nightly' tests/layers tests/models tests/training/test_step.py",
        f"{TESTS} -n 0 tests/layers/test_matmul.py",
        "^(FAILED|ERROR|E  )|passed|failed",
    ),
)


def main() -> int:
    """Runs the script."""
    parser = argparse.ArgumentParser(description="Measures on a GPU what is worth knowing, the most valuable first.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=780)
    parser.add_argument("--only", default="", help="names of parts, separated by commas")
    parser.add_argument("--rehearse", action="store_true")
    args = parser.parse_args()
    known, names = [part.name for part in PARTS], [name for name in args.only.split(",") if name]
    if unknown := set(names) - set(known):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    args.folder.mkdir(parents=True, exist_ok=True)
    end, failed = time.monotonic() + args.seconds, []
    for part in PARTS:
        left = end - time.monotonic()
        if names and part.name not in names:
            continue
        if left < part.seconds and not args.rehearse:
            print(
                f"== {part.name}: left out; it may take {part.seconds} s, and {max(left, 0):.0f} s are left", flush=True
            )
        elif run(part, args.folder.resolve(), rehearse=args.rehearse):
            failed.append(part.name)
    print(f"== failed: {', '.join(failed)}" if failed else "== all that was begun has succeeded")
    return len(failed) > 0


def run(part: Part, folder: Path, *, rehearse: bool) -> int:
    """Runs a part and shows its last lines; returns its exit status, 124 where its time ran out."""
    command = (part.rehearsal if rehearse else part.command).format(folder=folder).replace("python3", sys.executable)
    environment = {"PYTHONUNBUFFERED": "1", "TF_CPP_MIN_LOG_LEVEL": "2"} | dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [environment.get("PYTHONPATH"), os.getcwd()]))
    if part.xla_flags and not rehearse:  # a machine without a GPU may not know them
        environment["XLA_FLAGS"] = f"{environment.get('XLA_FLAGS', '')} {part.xla_flags}".strip()
    pipe: Mapping[str, int] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    start = time.monotonic()
    process = subprocess.Popen(["bash", "-c", command], **pipe, env=environment, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=None if rehearse else part.seconds)
        status = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        status = 124
    said = f"== {part.name}: status {status}, {time.monotonic() - start:.0f} s"
    text = output.decode(errors="replace").replace("\r", "\n")
    with Path(os.environ.get("OUT", folder), "quarter.log").open("a", encoding="utf-8") as log:
        log.write(f"{said}: {command}\n{text}\n")
    lines = [line[:300] for line in text.splitlines() if line.strip() and re.search(part.shown, line)]
    print("\n".join([said, *lines[-30:]]), flush=True)
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
