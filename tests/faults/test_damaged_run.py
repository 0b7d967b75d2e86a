"""Files of a run that are damaged, missing or of another run: the file is named, and no command goes on with it."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.conftest import RECIPE
from tests.faults.material import contents

Run = Callable[..., tuple[int, str]]


def _flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def _decode(run: Run, folder: Path) -> tuple[int, str]:
    lines = folder.parent / "lines"
    lines.write_text("line 1 of 1\n")
    return run("decoder", f"--output_dir={folder}", f"--input={lines}", f"--output={folder.parent / 'out'}")


def _flags(trained: Path, recipe: str = RECIPE) -> list[str]:
    """The flags that the run was started with."""
    corpus = trained.parent / "corpus"
    data = ["--problem=text2text", f"--source_dir={corpus}", "--languages=en-de", "--vocab_size=300"]
    return [*data, "--hparams_set=tiny", f"--hparams={recipe}"]


def test_a_flipped_bit_in_the_vocabulary_is_named(run: Run, copy: Path) -> None:
    path = copy / "vocabulary.model"
    _flip(path, 30)
    before = contents(copy)
    for command, *flags in (("decoder", f"--input={os.devnull}"), ("exporter",), ("trainer",)):
        status, said = run(command, f"--output_dir={copy}", *flags)
        assert status == 1
        (message,) = [line for line in said.split("\n") if line.startswith("error: ")]
        assert message.startswith(f"error: {path} is damaged. Put it back from a copy; the folder of the run's")
        assert contents(copy) == before
    shutil.copy(copy / "data" / "text2text" / "vocabulary.model", path)
    assert run("decoder", f"--output_dir={copy}", f"--input={os.devnull}")[0] == 0


def test_a_vocabulary_of_another_run_is_not_taken(run: Run, copy: Path) -> None:
    """problem.json may hold its checksum, but the checkpoints hold the checksum of their own vocabulary as well."""
    from t2t_lite.runs.run_dir import seal

    path = copy / "problem.json"
    values = json.loads(path.read_text())
    del values["sha256"]
    values["files"]["vocabulary.model"] = "ab" * 32
    path.write_text(json.dumps(seal(values)))
    status, said = _decode(run, copy)
    assert (status, "vocabulary.model is damaged" in said) == (1, True)
    del values["files"]["vocabulary.model"]  # as in a run that is put together from two
    values["files"]["vocabulary.target.model"] = "ab" * 32
    path.write_text(json.dumps(seal(values)))
    assert "vocabulary.target.model is missing" in _decode(run, copy)[1]


@pytest.mark.parametrize("name", ["hparams.json", "problem.json"])
def test_a_changed_recipe_or_problem_is_named(run: Run, copy: Path, name: str) -> None:
    path = copy / name
    text = path.read_text()
    assert '"seed": 1' in text or '"vocab_size": 300' in text
    path.write_text(text.replace('"seed": 1', '"seed": 2').replace('"vocab_size": 300', '"vocab_size": 301'))
    for status, said in (_decode(run, copy), run("trainer", f"--output_dir={copy}")):
        assert status == 1
        assert said.startswith(f"error: {path} is damaged or was edited by hand.")


def test_settings_of_another_run_are_compared_with_the_checkpoint(run: Run, copy: Path) -> None:
    from t2t_lite.runs.run_dir import seal

    path = copy / "hparams.json"
    values = json.loads(path.read_text())
    del values["sha256"]
    values["hparams"] |= {"seed": 7, "dropout": 0.4, "learning_rate_factor": 3.0, "beam_size": 2}
    path.write_text(json.dumps(seal(values)))
    status, said = _decode(run, copy)
    assert status == 1
    assert "model-2 was not trained with the settings that the run is opened with now:\n  dropout: 0.0 -> 0.4\n" in said
    assert "learning_rate_factor" not in said  # --reset_optimizer may have changed it
    status, said = run("trainer", f"--output_dir={copy}", "--train_steps=3")
    assert status == 1
    assert "  dropout: 0.0 -> 0.4\n  learning_rate_factor: 0.8 -> 3.0\n  seed: 1 -> 7\n" in said


@pytest.mark.nightly
def test_without_hparams_json_a_run_goes_on_only_with_the_settings_of_its_checkpoint(
    run: Run, copy: Path, trained: Path
) -> None:
    (copy / "hparams.json").unlink()
    status, said = _decode(run, copy)
    assert (status, said.startswith(f"error: {copy} holds checkpoints, but no hparams.json, which says how")) == (
        1,
        True,
    )
    assert run("trainer", f"--output_dir={copy}") == (status, said)
    other = RECIPE.replace("train_steps=2", "train_steps=3,seed=5,learning_rate_factor=4.8")
    before = contents(copy)
    status, said = run("trainer", f"--output_dir={copy}", *_flags(trained, other))
    assert status == 1
    assert "model-2 was not trained with the settings that the run is opened with now:\n" in said
    assert "  learning_rate_factor: 0.8 -> 4.8\n  seed: 1 -> 5\n" in said
    assert contents(copy) == before
    assert run("trainer", f"--output_dir={copy}", *_flags(trained))[0] == 0
    assert _decode(run, copy)[0] == 0


def test_weights_of_a_run_whose_vocabulary_is_damaged_start_no_other(run: Run, copy: Path, trained: Path) -> None:
    _flip(copy / "vocabulary.model", 30)
    new = copy.parent / "new"
    status, said = run("trainer", f"--output_dir={new}", *_flags(trained), f"--warm_start_from={copy}")
    assert (status, f"{copy / 'vocabulary.model'} is damaged" in said) == (1, True)
