"""examples/docker: what the two files name exists, and agrees with the example of serving."""

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

from t2t_lite.cli import exporter, query, trainer

ROOT = Path(__file__).resolve().parents[2]
TRAINING, SERVING = (
    (ROOT / "examples/docker" / f"{name}.Dockerfile").read_text("utf-8") for name in ("training", "serving")
)


@pytest.mark.parametrize("text", [TRAINING, SERVING], ids=["training", "serving"])
def test_bases_are_fixed_and_the_user_is_ordinary(text: str) -> None:
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert bases
    assert all(re.search(r":\d+\.\d+\.\d+", base) for base in bases)
    assert re.findall(r"^USER (\d+):", text, re.MULTILINE)[-1] != "0"


def test_server_and_health_check_are_those_of_the_example_of_serving() -> None:
    (image,) = re.findall(r"^FROM (\S+)", SERVING, re.MULTILINE)
    server = yaml.safe_load((ROOT / "examples/serving/compose.yaml").read_text("utf-8"))["services"]["serving"]
    assert image == server["image"]
    (command,) = re.findall(r" CMD (\[.*)", re.sub(r"\\\n *", "", SERVING))
    assert json.loads(command) == [word.replace("ende", "model") for word in server["healthcheck"]["test"][1:]]


def test_the_commands_above_have_flags_that_exist() -> None:
    shown = re.sub(r"\\\n#\s*", "", TRAINING + SERVING)
    found = re.findall(r"^#.*?t2t-lite-(trainer|exporter|query) (--.*)", shown, re.MULTILINE)
    assert [name for name, _ in found] == ["trainer", "exporter", "query"]
    for (_, flags), module in zip(found, (trainer, exporter, query), strict=True):
        module.make_parser().parse_args(shlex.split(flags))


def test_each_version_of_the_lock_is_taken() -> None:
    """The pattern of the Dockerfile finds each entry, and drops hashes and markers."""
    lock = (ROOT / "requirements_lock.txt").read_text("utf-8")
    (pattern,) = re.findall(r"grep -oE '([^']+)'", TRAINING)
    versions = re.findall(pattern, lock, re.MULTILINE)
    assert len(versions) == len(re.findall(r"^[a-z0-9].*==", lock, re.MULTILINE)) > 100
