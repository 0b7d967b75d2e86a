"""The precedence --hparams_set < --hparams_file < --hparams < --train_steps, and what a file may hold."""

import argparse
import json
import re
from pathlib import Path
from typing import Any

import pytest

from t2t_lite import config, registry
from t2t_lite.cli.flags import add_recipe_flags, recipe_request
from t2t_lite.errors import UsageError
from t2t_lite.models.rnn_hparams import RnnHParams
from tests.commands import call, with_defaults


def recipe(*flags: str) -> tuple[str, Any]:
    parser = argparse.ArgumentParser()
    add_recipe_flags(parser)
    parser.add_argument("--train_steps", type=int)
    parser.add_argument("--model")
    found = recipe_request(parser.parse_args(flags)).make("tiny")
    return found.hparams_set, found.hparams


def write(path: Path, content: Any) -> str:
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return f"--hparams_file={path}"


def test_hparams_accumulate() -> None:
    name, hparams = recipe("--hparams=dropout=0.2,d_ff=64", "--hparams=seed=7")
    assert name == "tiny"
    assert hparams == config.replace(registry.hparams("tiny"), dropout=0.2, d_ff=64, seed=7)
    with pytest.raises(UsageError, match=r"'dropout' is given twice: 0\.2 and 0\.3\."):
        recipe("--hparams=dropout=0.2", "--hparams=dropout=0.3")


def test_the_order_is_set_file_hparams_train_steps(tmp_path: Path) -> None:
    file = write(tmp_path / "recipe.json", {"d_ff": 96, "dropout": 0.3, "train_steps": 50, "norm": "pre"})
    assert recipe(file)[1] == config.replace(registry.hparams("tiny"), d_ff=96, dropout=0.3, train_steps=50, norm="pre")
    flags = (file, "--hparams_set=base", "--hparams=dropout=0.4,train_steps=60")
    assert recipe(*flags) == (
        "base",
        config.replace(registry.hparams("base"), d_ff=96, dropout=0.4, train_steps=60, norm="pre"),
    )
    assert recipe(*flags, "--train_steps=70")[1].train_steps == 70


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_files_of_windows_editors_are_read(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "recipe.json"
    path.write_bytes('{"dropout": 0.2}\r\n'.encode(encoding))
    assert recipe(f"--hparams_file={path}")[1].dropout == 0.2


def test_the_hparams_json_of_a_run_is_its_whole_recipe(tmp_path: Path) -> None:
    hparams = config.replace(registry.hparams("small"), seed=99)
    content = {"hparams_set": "small", "model": "transformer", "hparams": config.to_dict(hparams)}
    assert recipe(write(tmp_path / "hparams.json", content)) == ("small", hparams)
    assert recipe(f"--hparams_file={tmp_path / 'hparams.json'}", "--hparams_set=base") == ("base", hparams)


def test_the_model_is_the_flags_or_the_files_or_else_the_sets(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    add_recipe_flags(parser)
    parser.add_argument("--model")

    def model(*flags: str) -> str:
        found = recipe_request(parser.parse_args(flags)).make("rnn_tiny")
        assert found.hparams.model == found.model
        return found.model

    file = write(tmp_path / "hparams.json", {"model": "transformer", "hparams": {}})
    assert model() == "rnn"
    assert model(file) == "transformer"
    assert model(file, "--model=rnn") == "rnn"
    with pytest.raises(UsageError, match=r"no model called 'rn'. Did you mean 'rnn'"):
        model("--model=rn")


@pytest.mark.commit
@pytest.mark.parametrize(
    ("content", "status", "message"),
    [
        ({"hiden_size": 3}, 2, "there is no 'hiden_size'."),
        ({"d_model": "512"}, 2, "d_model='512' is not an integer"),
        ({"num_layers": 100000000}, 2, "num_layers=100000000 must be from 1 to 256"),
        ({"dropout": 1.5}, 2, "dropout=1.5 must be from 0 to below 1"),
        ('{"seed": 1, "seed": 2}', 2, "'seed' is given twice: 1 and 2."),
        ([1], 2, "holds no JSON object"),
        ("{dropout: 0.1}", 1, "is not JSON: "),
        (None, 1, "No such file or directory"),
    ],
)
def test_errors_name_the_file_and_the_entry(tmp_path: Path, content: Any, status: int, message: str) -> None:
    path = tmp_path / "recipe.json"
    flag = f"--hparams_file={path}" if content is None else write(path, content)
    done = call("trainer", "--problem=toy_ende", flag, f"--output_dir={tmp_path / 'run'}")
    assert done.returncode == status
    assert done.stderr.startswith("error: ")
    assert str(path) in done.stderr
    assert message in done.stderr
    assert not (tmp_path / "run").exists()


def test_describe_refuses_what_no_machine_can_hold() -> None:
    for flag, message in (
        ("--hparams=num_layers=100000000", "num_layers=100000000 must be from 1 to 256."),
        ("--hparams=num_layers=256,d_model=65536", "give a model of 1.3e+13 parameters; at most 100,000,000,000"),
        ("--vocab_size=100000000", "--vocab_size=100000000 must be from 4 to 10,000,000; it counts pieces"),
    ):
        done = call("trainer", "--describe", *with_defaults([flag], "--hparams_set=tiny", "--vocab_size=500"))
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr
        assert done.stderr.count("\n") == 1


def test_what_another_model_does_not_read_of_a_set_is_left_out_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hparams = recipe("--model=rnn", "--hparams=attention_score=additive")[1]
    tiny = config.to_dict(registry.hparams("tiny"))
    wanted = {name: tiny[name] for name in config.fields(RnnHParams) if name in tiny}
    own = {"encoder": "uni", "wiring": "top", "input_feeding": True, "softmax_bias": True}
    assert config.to_dict(hparams) == wanted | own | {"attention_score": "additive"}
    assert caplog.messages == [
        "warning: the model rnn does not read d_ff=512, num_heads=4, norm=pre of the hparams set tiny; left out."
    ]
    caplog.clear()
    for flags in (["--model=transformer"], ["--model=rnn", "--hparams_set=luong"], ["--hparams_set=luong"]):
        recipe(*flags)
        assert caplog.messages == []
    assert recipe("--model=transformer", "--hparams_set=rnn_tiny")[1].d_model == 128
    assert caplog.messages == []  # the settings that only rnn has are at their defaults


@pytest.mark.commit
def test_the_settings_of_a_model_of_ones_own_are_those_of_the_contributors_page(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "CONTRIBUTING.md").read_text("utf-8")
    [code] = re.findall(r"^## Add a model's settings\n.*?```python\n(.*?)```", page, re.MULTILINE | re.DOTALL)
    assert code.count("\n") <= 15
    (tmp_path / "mine").mkdir()
    code += "registry.MODELS.register_lazily('gru', 'a_model_that_is_not_imported')\n"
    (tmp_path / "mine" / "gru_of_mine.py").write_text(code, "utf-8")
    flags = [f"--usr_dir={tmp_path / 'mine'}", "--hparams_set=gru_tiny"]
    shown = call("trainer", *flags, "--registry_help=hparams").stdout
    assert re.search(r"\nModel gru:\n  units +int +64 +1 to 65,536 +size of the states\n\nOptimizer, ", shown)
    assert "num_heads" not in shown
    for change, message in (
        ("units=0", "error: hparams: units=0 must be from 1 to 65,536."),
        (
            "d_ff=32",
            "error: hparams: the model gru does not read 'd_ff', a setting of moe and transformer and transformer_moe; "
            "its own are units.",
        ),
    ):
        done = call("trainer", *flags, "--problem=toy_ende", f"--hparams={change}", f"--output_dir={tmp_path / 'run'}")
        assert (done.returncode, done.stderr) == (2, f"{message}\n")
