"""CONTRIBUTING.md names the files that an addition touches; existing additions touch the same files."""

import ast
import re
import sys
from pathlib import Path

import pytest

from t2t_lite import registry

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "t2t_lite"
TREES = {
    str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8"))
    for folder in (PACKAGE, ROOT / "hparams", ROOT / "problems")
    for path in sorted(folder.rglob("*.py"))
}
CHOOSING = ("hparams/", "t2t_lite/importers/")  # recipes, ours and tensor2tensor's, name what they are trained with
ONE_FILE = {
    "problem": (
        "from t2t_lite import problem, registry\n\n@registry.register_problem\nclass Mine(problem.Problem): ...\n"
    ),
    "hparams set": (
        "from t2t_lite import config, registry\n\n@registry.register_hparams\ndef mine(): return config.HParams()\n"
    ),
    "model": (
        "from t2t_lite import config, registry\nfrom t2t_lite.models.rnn import Rnn\n\n"
        "@registry.register_model\nclass Mine(Rnn): ...\n\n"
        '@registry.register_hparams(model="mine")\ndef mine_tiny(): return config.HParams()\n'
    ),
    "optimizer": (
        "from t2t_lite import registry\nfrom t2t_lite.optimizers.base import Optimizer\n\n"
        "@registry.register_optimizer\nclass Mine(Optimizer): ...\n"
    ),
    "sampler": (
        "from t2t_lite import registry\nfrom t2t_lite.samplers.base import Sampler\n\n"
        "@registry.register_sampler\nclass Mine(Sampler): ...\n"
    ),
    "schedule": (
        "from t2t_lite import registry\nfrom t2t_lite.schedules.base import Schedule\n\n"
        "@registry.register_schedule\nclass Mine(Schedule): ...\n"
    ),
    "metric": (
        "from t2t_lite import registry\nfrom t2t_lite.metrics.score import CorpusMetric\n\n"
        "@registry.register_metric\nclass Mine(CorpusMetric): ...\n"
    ),
}
TABLES = {
    "problem": registry.PROBLEMS,
    "hparams set": registry.HPARAMS,
    "model": registry.MODELS,
    "optimizer": registry.OPTIMIZERS,
    "sampler": registry.SAMPLERS,
    "schedule": registry.SCHEDULES,
    "metric": registry.METRICS,
}


def _rows() -> dict[str, tuple[str, str]]:
    """Returns kind of addition -> the two cells about it."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    part = text[text.index("## What an addition touches") : text.index("## Add a problem")]
    return {
        row[0]: (row[1], row[2]) for row in re.findall(r"^\| an? ([\w ]+?) \| (.+?) \| (.+?) \|$", part, re.MULTILINE)
    }


def _naming(name: str) -> set[str]:
    """Returns the files with a string that is `name`, or that is a list of names with `name`, separated by spaces."""
    return {
        file
        for file, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and name in node.value.split()
        if all(word.isidentifier() for word in node.value.split())
    }


def _importing(module: str) -> set[str]:
    return {
        file
        for file, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        if module in {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    }


@pytest.mark.parametrize("kind", ONE_FILE)
def test_one_file_of_ones_own_is_enough(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for table in TABLES.values():
        table.load()
        for names in ("_things", "_lazy"):
            monkeypatch.setattr(table, names, dict(getattr(table, names)))
    monkeypatch.setattr(registry, "_models_of_sets", dict(registry._models_of_sets))
    monkeypatch.setattr(sys, "path", list(sys.path))
    file = tmp_path / f"only_{kind.replace(' ', '_')}.py"
    file.write_text(ONE_FILE[kind], encoding="utf-8")
    assert "mine" not in TABLES[kind].names()
    registry.load_plugins(str(tmp_path))
    assert "mine" in TABLES[kind].names()
    assert kind != "model" or registry.model_of("mine_tiny") == "mine"
    sys.modules.pop(file.stem)
    said = next(cells[0] for name, cells in _rows().items() if name.startswith(kind))
    assert said.startswith("1: its file")


@pytest.mark.parametrize(
    ("kind", "names"), [("optimizer", "adafactor nesterov"), ("schedule", "plateau halving"), ("sampler", "nucleus")]
)
def test_an_optimizer_a_schedule_and_a_sampler_are_named_in_the_registry_alone(kind: str, names: str) -> None:
    for name in names.split():
        own = f"t2t_lite/{kind}s/{name}.py"
        assert own in TREES
        named = {file for file in _naming(name) - {own} if not file.startswith(CHOOSING)}
        assert named == {"t2t_lite/registry.py"}
    assert _rows()[kind][1] == "2: its file, `registry.py`"


def test_a_model_is_named_in_the_registry_and_by_its_recipes() -> None:
    assert {file for file in _naming("rnn") if not file.startswith("t2t_lite/models/rnn")} == {
        "t2t_lite/registry.py",
        "hparams/rnn.py",
    }
    assert "from . import rnn as rnn\n" in (ROOT / "hparams/__init__.py").read_text(encoding="utf-8")
    assert _rows()["model with its recipe"][1].startswith(
        "4: its file, `registry.py`, the recipe's, `hparams/__init__.py`"
    )


@pytest.mark.parametrize("layer", ["lstm", "rnn_attention"])
def test_a_layer_is_used_by_its_model_alone(layer: str) -> None:
    """No other model uses the layer. `moe` is an exception, as it is made of the parts of `rnn`."""
    users = _importing(f"t2t_lite.layers.{layer}")
    assert users
    family = ("t2t_lite/models/rnn", "t2t_lite/models/moe", "t2t_lite/layers/projected_lstm")
    assert all(file.startswith(family) for file in users)
    assert _rows()["layer"][1].startswith("2: ")
