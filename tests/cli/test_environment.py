"""t2t-lite-trainer --environment: facts for a report of a fault, which name nobody."""

import getpass
import os
import re
import runpy
import socket
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from t2t_lite import cpus
from t2t_lite.cli.environment import OPTIONAL, PACKAGES
from tests import commands

_ROOT = Path(__file__).resolve().parents[2]
_CLUSTER = '{"cluster": {"worker": ["secret1:1", "secret2:1"]}, "task": {"type": "worker", "index": 1}}'


def _printed(**environment: str) -> tuple[str, dict[str, str]]:
    others = {name: value for name, value in os.environ.items() if not name.startswith(("KERAS_", "TF_"))}
    done = commands.run("t2t_lite.cli.trainer", "--environment", env={**others, **environment})
    assert done.returncode == 0, done.stderr.decode()
    text = done.stdout.decode()
    return text, dict(re.split(r": +", line, maxsplit=1) for line in text.splitlines())


@pytest.mark.commit
def test_it_has_the_facts_and_names_nobody() -> None:
    text, facts = _printed(
        TF_CONFIG=_CLUSTER,
        XLA_FLAGS="--xla_gpu_cuda_data_dir=/home/alice/cuda --xla_cpu_enable_fast_math=true",
        T2T_LITE_TEST_DATA="~/alice",
        OMP_NUM_THREADS="2",
        WANDB_API_KEY="alice",
        CUDA_VISIBLE_DEVICES="",
    )
    assert (
        f"tensorflow {version('tensorflow')}, tensorflow-text {version('tensorflow-text')}, keras " in facts["packages"]
    )
    assert facts["processor"].startswith(cpus.processor())
    assert facts["processors"].startswith(f"{cpus.available_cpus()} of ")
    assert re.fullmatch(r"[\d,.]+ GiB free in this folder", facts["disk"])
    assert float(facts["memory"].split()[0]) > 0.5
    assert facts["GPUs"].startswith("TensorFlow sees none (it was built ")
    assert facts["variables"].split("; ") == [
        "CUDA_VISIBLE_DEVICES=",
        "OMP_NUM_THREADS=2",
        "T2T_LITE_TEST_DATA=PATH",
        "TF_CONFIG=(2 processes, this is 1)",
        "XLA_FLAGS=--xla_gpu_cuda_data_dir=PATH --xla_cpu_enable_fast_math=true",
    ]
    for name in ("alice", "secret", socket.gethostname(), str(Path.home()), f"/{getpass.getuser()}"):
        assert name not in text


@pytest.mark.commit
def test_a_tensorflow_that_cannot_be_imported_is_a_fact() -> None:
    done = commands.call("trainer", "--environment")
    assert done.returncode == 0, done.stderr
    assert "\ndevices:    TensorFlow does not work: ModuleNotFoundError: " in done.stdout
    assert "\ndisk: " in done.stdout


def test_what_setup_declares_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr("setuptools.setup", lambda **options: given.update(options))
    runpy.run_path(str(_ROOT / "setup.py"))
    names = {
        extra: {re.match(r"[\w-]+", needed)[0] for needed in needs}  # type: ignore[index]
        for extra, needs in (("", given["install_requires"]), *given["extras_require"].items())
        if extra not in ("docs", "test")
    }
    assert names.pop("") <= set(PACKAGES)
    assert set().union(*names.values()) <= set(OPTIONAL)


@pytest.mark.parametrize(
    ("text", "model", "sets"),
    [
        ("model name\t: AMD EPYC\nflags\t\t: fpu avx2 avx512f amx_tile\n", "AMD EPYC", ["avx2", "avx512f", "amx_tile"]),
        ("processor\t: 0\nFeatures\t: fp asimd i8mm\n", None, ["asimd", "i8mm"]),
        (None, None, []),
    ],
    ids=["x86", "arm", "no /proc"],
)
def test_the_processor_is_named_where_the_system_does(
    text: str | None, model: str | None, sets: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpus, "_CPUINFO", tmp_path / "cpuinfo")
    if text is not None:
        (tmp_path / "cpuinfo").write_text(text)
    assert cpus.processor() == (model or os.uname().machine)
    assert cpus.instruction_sets() == sets


def test_the_form_for_faults_asks_for_it() -> None:
    form = yaml.safe_load((_ROOT / ".github/ISSUE_TEMPLATE/fault.yml").read_text(encoding="utf-8"))
    (field,) = (field for field in form["body"] if field.get("id") == "environment")
    assert "`t2t-lite-trainer --environment`" in field["attributes"]["description"]
    assert field["validations"]["required"]
