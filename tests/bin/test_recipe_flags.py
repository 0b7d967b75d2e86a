"""--hparams_set < --hparams_file < --hparams < --train_steps, and what a file may hold."""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from t2t_lite import config, registry
from t2t_lite.bin import recipe_flags
from t2t_lite.errors import UsageError
from tests.commands import call, with_defaults


def recipe(*flags: str) -> tuple[str, config.HParams]:
    parser = argparse.ArgumentParser()
    recipe_flags.add_recipe_flags(parser)
    parser.add_argument("--train_steps", type=int)
    return recipe_flags.recipe(parser.parse_args(flags), "tiny")


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


def test_the_hparams_json_of_a_run_is_its_whole_recipe(tmp_path: Path) -> None:
    hparams = config.replace(registry.hparams("small"), seed=99)
    content = {"hparams_set": "small", "model": "transformer", "hparams": config.to_dict(hparams)}
    assert recipe(write(tmp_path / "hparams.json", content)) == ("small", hparams)
    assert recipe(f"--hparams_file={tmp_path / 'hparams.json'}", "--hparams_set=base") == ("base", hparams)


def test_the_model_is_the_flags_or_the_files_or_else_the_default(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    recipe_flags.add_recipe_flags(parser)
    parser.add_argument("--model")

    def model(*flags: str) -> str:
        return recipe_flags.model(parser.parse_args(flags), "rnn")

    file = write(tmp_path / "hparams.json", {"hparams_set": "tiny", "model": "transformer", "hparams": {}})
    assert model() == "rnn"
    assert model(file) == "transformer"
    assert model(file, "--model=rnn") == "rnn"
    with pytest.raises(UsageError, match=r"no model called 'rn'. Did you mean 'rnn'"):
        model("--model=rn")


@pytest.mark.parametrize(
    ("content", "status", "message"),
    [
        ({"hiden_size": 3}, 2, "there is no 'hiden_size'."),
        ({"hidden_size": 3}, 2, "tensor2tensor's hidden_size is d_model here"),
        ({"hparams": {"droput": 0.1}}, 2, "there is no 'droput'. Did you mean 'dropout'"),
        ({"d_model": "512"}, 2, "d_model='512' is not an integer"),
        ({"num_layers": 100000000}, 2, "num_layers=100000000 must be at most 256"),
        ({"dropout": 1.5}, 2, "dropout=1.5 must be at least 0 and below 1"),
        ('{"seed": 1, "seed": 2}', 2, "'seed' is given twice: 1 and 2."),
        ([1], 2, "holds no JSON object"),
        ({"hparams": {}, "hparams_set": 5}, 2, "hparams_set is 5, not a name"),
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


def test_datagen_takes_a_file_too(tmp_path: Path) -> None:
    file = write(tmp_path / "recipe.json", {"batch_tokens": 64})
    done = call("datagen", "--problem=toy_ende", f"--data_dir={tmp_path / 'data'}", file)
    assert done.returncode == 2
    assert "--hparams_file, --hparams_set and --hparams are for --describe" in done.stderr


def test_describe_refuses_what_no_machine_can_hold() -> None:
    for flag, message in (
        ("--hparams=num_layers=100000000", "num_layers=100000000 must be at most 256."),
        ("--hparams=num_layers=256,d_model=65536", "give a model of 1.3e+13 parameters; at most 100,000,000,000"),
        ("--vocab_size=100000000", "--vocab_size=100000000 is too large; it counts pieces, at most 10,000,000."),
    ):
        done = call("trainer", "--describe", *with_defaults([flag], "--hparams_set=tiny", "--vocab_size=500"))
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr
        assert done.stderr.count("\n") == 1


def test_a_recipe_of_another_model_than_the_one_asked_for_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    args = argparse.Namespace(model="transformer", hparams_file=None)
    assert recipe_flags.model(args, "rnn") == "transformer"
    assert capsys.readouterr().err == (
        "warning: this hparams set is a recipe of the model rnn; transformer ignores what only rnn reads.\n"
    )
    for named, default in (("rnn", "transformer"), (None, "rnn"), ("rnn", "rnn")):
        args.model = named
        assert recipe_flags.model(args, default) == "rnn"
        assert capsys.readouterr().err == ""
