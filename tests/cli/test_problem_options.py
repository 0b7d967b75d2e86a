"""--problem_options: typed by the constructor, saved with the run, refused with a clear message if wrong."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from t2t_lite import problem, registry
from t2t_lite.cli.flags import read_options
from t2t_lite.errors import UsageError
from t2t_lite.option_values import problem_options
from tests import commands

USERS = '''
from t2t_lite import problem, registry

@registry.register_problem
class Wide(problem.Problem):
    """Lines of `width` words."""
    vocab_size = 40

    def __init__(self, width: int, mark: str = "x") -> None:
        self.width, self.mark = width, mark

    def samples(self, split):
        for n in range(60):
            line = " ".join([self.mark, *str(n)] * self.width)
            yield line, line.upper()

    def source_files(self, split):
        return []
'''


@pytest.fixture(autouse=True)
def _many(monkeypatch: pytest.MonkeyPatch) -> None:
    registry.PROBLEMS.load()  # first: undoing the patch below would drop what is loaded later
    monkeypatch.setattr(registry.PROBLEMS, "_things", dict(registry.PROBLEMS._things))

    class Many(problem.Problem):
        def __init__(
            self,
            number: int | None = None,
            share: float = 0.5,
            folder: str = "",
            side: Literal["left", "right"] = "left",
            flag: bool = False,
            plain=7,  # type: ignore[no-untyped-def]
            rows: tuple[int, ...] = (),
        ) -> None:
            pass

        def samples(self, split: str) -> Iterator[tuple[str, str]]:
            return iter(())

    registry.PROBLEMS.register("many")(Many)


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        ([], {}),
        (["number=3,share=1e-2,flag=true"], {"number": 3, "share": 0.01, "flag": True}),
        (["folder=a,b:2,side=right", "plain=8"], {"folder": "a,b:2", "side": "right", "plain": 8}),
        (["folder=x=y, flag = 0"], {"folder": "x=y", "flag": False}),
    ],
)
def test_values_are_of_their_parameters_types(texts: list[str], values: dict[str, Any]) -> None:
    found = problem_options("many", read_options("--problem_options", texts))
    assert found == values
    assert [type(value) for value in found.values()] == [type(value) for value in values.values()]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["number"], "--problem_options=number is not of the form name=value"),
        (["nubmer=3"], r"has no option 'nubmer'; it takes number, share.*Did you mean 'number'"),
        (["number=3", "number=4"], "number is given twice: 3 and 4"),
        (["number=3.5"], "number=3.5 is not an integer"),
        (["share=half"], "share=half is not a number"),
        (["side=rigth"], r"side=rigth is not one of: left, right\..*right"),
        (["rows=1"], "rows=1 is not read: only an int, float, bool, str or Literal can be, no tuple."),
    ],
)
def test_what_cannot_be_is_said(texts: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        problem_options("many", read_options("--problem_options", texts))


@pytest.mark.nightly
def test_a_problem_of_ones_own_has_options_that_stay_with_its_run(tmp_path: Path) -> None:
    users, output = tmp_path / "users", tmp_path / "run"
    users.mkdir()
    (users / "__init__.py").write_text(USERS, encoding="utf-8")
    start = ["--problem=wide", f"--usr_dir={users}", "--hparams_set=tiny", f"--output_dir={output}"]
    sizes = "num_layers=1,d_model=16,d_ff=16,num_heads=2,batch_tokens=256,max_length=64,beam_size=1,extra_length=1"
    start += [f"--hparams=train_steps=2,{sizes}"]

    def train(*flags: str) -> Any:
        return commands.run("t2t_lite.cli.trainer", *flags)

    missing = train(*start)
    assert missing.returncode == 2
    assert missing.stderr.decode() == "error: The problem 'wide' needs --problem_options=width=VALUE.\n"
    done = train(*start, "--problem_options=width=3,mark=y")
    assert done.returncode == 0, done.stderr
    assert json.loads((output / "problem.json").read_text())["options"] == {"width": 3, "mark": "y"}
    again = train(f"--output_dir={output}", f"--usr_dir={users}", "--train_steps=3")
    assert again.returncode == 0, again.stderr
    other = train(*start, "--problem_options=width=4,mark=y")
    assert other.returncode == 2
    assert "width" in other.stderr.decode()


def test_a_flag_and_an_option_are_not_both_taken(tmp_path: Path) -> None:
    flags = ["--problem=treebank", f"--data_dir={tmp_path}", "--source_dir=x", "--exchanges=2"]
    done = commands.run("t2t_lite.cli.datagen", *flags, "--problem_options=exchanges=3")
    assert done.returncode == 2
    assert "--exchanges and --problem_options=exchanges=... say the same option twice" in done.stderr.decode()


def test_a_given_vocabulary_leaves_no_options_of_its_training(tmp_path: Path) -> None:
    flags = ["--problem=text2text", f"--data_dir={tmp_path}", "--source_dir=x", "--languages=en-de", "--vocabulary=a"]
    done = commands.run("t2t_lite.cli.datagen", *flags, "--problem_options=vocab_size=50,shared_vocab=false")
    assert done.returncode == 2
    assert "vocab_size=50 is about a vocabulary that is trained" in done.stderr.decode()


def test_types_that_cannot_be_read_are_only_needed_for_values() -> None:
    class Checked(problem.Problem):
        def __init__(self, number: "Elsewhere" = 1) -> None:  # type: ignore[name-defined]  # noqa: F821
            pass

        def samples(self, split: str) -> Iterator[tuple[str, str]]:
            return iter(())

    registry.PROBLEMS.register("checked")(Checked)
    assert problem_options("checked", {}) == {}
    with pytest.raises(UsageError, match=r"cannot be read: name 'Elsewhere' is not defined\. Import them in its "):
        problem_options("checked", {"number": "2"})
