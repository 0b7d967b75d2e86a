"""The example plug-in: the pairs of its problem, the outputs of its model, and an installation from two wheels."""

import datetime
import functools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t2t_lite import config, registry
from t2t_lite.cli import datagen
from t2t_lite.errors import UsageError
from t2t_lite.runs.recipe_request import RecipeRequest
from t2t_lite.runs.run_dir import make_model
from tests import reference
from tests.examples.plugins import load_plugin
from tests.plain_cache import PlainCache

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "my_problem"
README = (EXAMPLE / "README.md").read_text(encoding="utf-8")
V = 20
SOURCE = np.array([[5, 9, 3, 17, 1], [7, 7, 1, 0, 0]], "int32")
TARGET = np.array([[4, 8, 1, 0, 0, 0], [6, 5, 4, 3, 12, 1]], "int32")


@pytest.fixture(scope="module")
def example() -> Iterator[Any]:
    with load_plugin(EXAMPLE / "spoken_to_written") as module:
        yield module


@pytest.mark.parametrize(
    ("function", "value", "words"),
    [
        ("say_number", (185,), "one hundred and eighty five"),
        ("say_number", (1205,), "one thousand two hundred and five"),
        ("say_year", (1905,), "nineteen oh five"),
        ("say_year", (1998,), "nineteen ninety eight"),
        ("say_year", (2004,), "two thousand and four"),
        ("say_time", (6, 30), "half past six"),
        ("say_time", (8, 40), "twenty to nine"),
        ("say_time", (12, 45), "quarter to one"),
        ("say_digits", ([0, 7, 7, 5, 5, 5],), "oh double seven double five five"),
        ("say_date", (datetime.date(2021, 5, 3),), "the third of may twenty twenty one"),
        ("say_date", (datetime.date(1901, 12, 31),), "the thirty first of december nineteen oh one"),
    ],
)
def test_how_it_is_said(example: Any, function: str, value: tuple[Any, ...], words: str) -> None:
    assert getattr(example.problem, function)(*value) == words


def test_the_readme_shows_real_pairs(example: Any) -> None:
    """Each pair in the README's table is a pair of the problem's test set."""
    rows = re.findall(r"^\| ([a-z' ]+) \| (.+[.?]) \|$", README, re.MULTILINE)
    assert len(rows) >= 4
    test = dict(registry.problem("spoken_to_written").samples("test"))
    assert [test.get(spoken) for spoken, _ in rows] == [written for _, written in rows]


def test_the_code_of_the_readme_works(example: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    blocks = re.findall(r"```python\n# mine/(\w+\.py)\n(.*?)```", README, re.DOTALL)
    assert len(blocks) == README.count("```python") == 2
    for name, code in blocks:
        (folder / name).write_text(code, encoding="utf-8")
        monkeypatch.delitem(sys.modules, name.removesuffix(".py"), raising=False)
    data = tmp_path / "data"
    assert datagen.main([f"--usr_dir={folder}", "--problem=phone_numbers", f"--data_dir={data}"]) == 0
    spoken, written = (
        (data / "phone_numbers" / f"dev.{side}.txt").read_text("utf-8").split("\n") for side in ("source", "target")
    )
    assert len(spoken) == 101
    assert [len(line.split()) for line in spoken] == [len(line) for line in written]
    assert registry.hparams("tiny_wide") == config.replace(registry.hparams("tiny"), d_ff=1024)


@functools.cache
def _model(norm: str) -> tuple[config.HParams, Any]:
    """A model of three layers that share the weights of two, in the order 0, 1, 0."""
    sizes = {"num_layers": 3, "unique_layers": 2, "d_model": 16, "d_ff": 24, "num_heads": 2}
    hparams = config.replace(registry.hparams("cyclic_tiny"), norm=norm, **sizes)
    model = registry.MODELS.get("cyclic_transformer").from_hparams(hparams, V, V, True)
    reference.randomise(model, 1)
    return hparams, model


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_equals_a_transformer_with_repeated_weights(example: Any, norm: str) -> None:
    hparams, model = _model(norm)
    weights = reference.weights_of(model)
    third = {name.replace("layer_0", "layer_2"): array for name, array in weights.items() if "layer_0" in name}
    wanted = reference.Transformer(weights | third, 3, hparams.num_heads, norm)(SOURCE, TARGET)
    reference.assert_close(model({"source": SOURCE, "target": TARGET}), wanted, 1e-5)


def test_cached_steps_equal_the_columns_of_a_call(example: Any) -> None:
    _, model = _model("pre")
    memory, bias = model.encode({"source": SOURCE})
    wanted = np.asarray(model({"source": SOURCE, "target": TARGET}))
    keys_values = model.decoder.keys_values(memory)
    cache = PlainCache(1, keys_values, bias)
    previous = np.zeros((2, 1), "int32")
    for at in range(TARGET.shape[1]):
        logits = model.logits(model.next_hidden(previous, at, cache.at(at)))
        np.testing.assert_allclose(np.asarray(logits)[:, 0], wanted[:, at], rtol=0, atol=2e-5)
        previous = TARGET[:, at : at + 1]
    assert len(keys_values) == 3


def test_the_field_belongs_to_the_model(example: Any) -> None:
    """A Transformer recipe lacks the field; --model=cyclic_transformer converts it to a recipe that has it."""
    tiny = registry.hparams("tiny")
    with pytest.raises(UsageError, match="the model transformer does not read 'unique_layers', a setting of cyclic_tr"):
        config.override(tiny, "unique_layers=1")
    with pytest.raises(UsageError, match="'cyclic_transformer' needs a recipe of the class CyclicHParams, not Transf"):
        make_model("cyclic_transformer", tiny, V, V, True)
    hparams = RecipeRequest(model="cyclic_transformer", hparams_set="tiny").make("").hparams
    assert config.to_dict(hparams) == config.to_dict(tiny) | {"unique_layers": 1}
    assert type(hparams) is type(registry.hparams("cyclic_tiny"))


Installed = Callable[..., str]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Runs a program of a fresh environment that has the two wheels installed and no access to the checkout."""
    folder = tmp_path_factory.mktemp("installed")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))}

    def call(*command: object, input: str = "") -> str:
        done = subprocess.run(
            [*map(str, command)],
            cwd=folder,
            env=environment,
            input=input,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    # The build uses copies, because it writes into its source tree.
    for name in ("t2t_lite", "problems", "hparams", "setup.py", "pyproject.toml", "README.md", "LICENSE"):
        source, copy = ROOT / name, folder / "source" / name
        if source.is_dir():
            shutil.copytree(source, copy, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy)
    shutil.copytree(EXAMPLE, folder / "example")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    offline = ["--no-deps", "--no-index"]
    call(*pip, "wheel", *offline, "--no-build-isolation", "--wheel-dir=wheels", folder / "source", folder / "example")
    shutil.rmtree(folder / "source")
    shutil.rmtree(folder / "example")
    wheels = sorted((folder / "wheels").iterdir())
    assert [wheel.name.partition("-")[0] for wheel in wheels] == ["spoken_to_written", "t2t_lite"]
    call(sys.executable, "-m", "venv", "--without-pip", "env")
    python = folder / "env" / "bin" / "python"
    call(*pip, "--python", python, "install", *offline, *wheels)
    # The other libraries are those of this interpreter. A .pth file adds its paths last, and .pth files in those paths,
    # such as that of an editable t2t-lite, are not read.
    here = Path(call(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    libraries = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    (here / "libraries.pth").write_text("".join(f"{path}\n" for path in libraries), encoding="utf-8")
    return lambda program, *flags, **options: call(folder / "env" / "bin" / program, *flags, **options)


def test_both_packages_come_from_the_wheels(installed: Installed) -> None:
    code = (
        "import json, sys, spoken_to_written, t2t_lite, t2t_lite.problems\n"
        "from t2t_lite import registry\n"
        "registry.load_plugins()\n"
        "files = [m.__file__ for m in (spoken_to_written, t2t_lite, t2t_lite.problems)]\n"
        "print(json.dumps([sys.prefix, files, sys.path, sorted({'keras', 'tensorflow'} & set(sys.modules))]))"
    )
    prefix, files, path, heavy = json.loads(installed("python", "-c", code))
    assert [Path(file).is_relative_to(prefix) for file in files] == [True] * 3
    assert str(ROOT) not in path
    assert heavy == []  # loading the plug-in imports no model


def test_three_steps_and_a_line_from_the_wheels(installed: Installed, tmp_path: Path) -> None:
    run = tmp_path / "run"
    out = installed(
        "t2t-lite-trainer",
        "--problem=spoken_to_written",
        "--hparams=num_layers=2,d_model=16,d_ff=16,batch_tokens=512,beam_size=1,extra_length=0,"
        "decode_batch_tokens=20000,log_every=1,average_checkpoints=1",
        "--train_steps=3",
        f"--output_dir={run}",
    )
    assert "test set, weights" in out
    steps = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").removesuffix("\n").split("\n")]
    assert [row["step"] for row in steps if "loss" in row] == [1, 2, 3]
    recipe = json.loads((run / "hparams.json").read_text("utf-8"))
    assert (recipe["hparams_set"], recipe["model"]) == ("cyclic_tiny", "cyclic_transformer")
    assert recipe["hparams"]["unique_layers"] == 1  # the recipe's own field
    assert len((run / "test.hyp.txt").read_bytes().split(b"\n")) == 501
    translated = installed("t2t-lite-decoder", f"--output_dir={run}", "--beam_size=2", input="half past six\n\n")
    assert translated.count("\n") == 2
    assert translated.endswith("\n\n")  # an empty line stays empty


def test_the_readme_names_what_a_model_has_to_have() -> None:
    from t2t_lite.models.base import Model

    text = README[README.index("### 3. The model") : README.index("### 4. The package")]
    named = re.search(r"has its abstract members:\n(.*?)\. Training", text, re.DOTALL)
    assert named is not None
    assert set(re.findall(r"`(\w+)`", named[1])) == Model.__abstractmethods__
