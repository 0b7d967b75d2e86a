"""A newest checkpoint that is not whole: it is named, the one before it is used, nothing is lost silently."""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t2t_lite.errors import DataError, TrainingError
from t2t_lite.runs.checkpoint import Checkpoints, list_checkpoints
from t2t_lite.runs.checkpoint_files import BEST, NEWEST
from tests.checkpoints import SavedModel

pytestmark = pytest.mark.commit

DATA = "data-00000-of-00001"


class Setup(SavedModel):
    """A model that takes the value of a step and is saved with it."""

    def save(self, step: int) -> None:
        self.fill(step)
        self.checkpoints.save(step)

    def holds(self, value: int) -> bool:
        return all((array == value).all() for array in self.state())


@pytest.fixture(scope="module")
def model(make_model: Callable[..., Any]) -> Any:
    return make_model()


@pytest.fixture
def setup(model: Any, tmp_path: Path) -> Setup:
    return Setup(model, tmp_path)


def _flip(where: float) -> Callable[[Path], None]:
    def flip(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[int(len(content) * where)] ^= 1
        path.write_bytes(content)

    return flip


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _zeros(path: Path) -> None:
    """What some file systems leave of a file that was being written when the power failed."""
    path.write_bytes(bytes(path.stat().st_size))


DAMAGE = {
    "no index": ("index", Path.unlink, "model-3.index is not there"),
    "no data": (DATA, Path.unlink, f"model-3.{DATA} is missing"),
    "data cut": (DATA, _cut, "damaged or incomplete"),
    "data zeros": (DATA, _zeros, "damaged or incomplete"),
    "a bit of a moment": (DATA, _flip(0.2), "damaged or incomplete"),
    "a bit of a weight": (DATA, _flip(0.65), "damaged or incomplete"),
    "index cut": ("index", _cut, "damaged or incomplete"),
    "a bit of the index": ("index", _flip(0.3), "damaged or incomplete"),
}


@pytest.mark.commit("data cut", "a bit of a weight")
@pytest.mark.parametrize("name", DAMAGE)
def test_it_is_reported_and_the_one_before_is_used(
    name: str, setup: Setup, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ending, damage, reason = DAMAGE[name]
    for step in (1, 2, 3):
        setup.save(step)
    damage(tmp_path / NEWEST / f"model-3.{ending}")
    files = {path.name for path in (tmp_path / NEWEST).glob("model-3.*")}
    setup.fill(9)
    with caplog.at_level(logging.WARNING, "t2t_lite"):
        assert setup.checkpoints.resume() == 2
    assert setup.holds(2)
    (message,) = caplog.messages
    assert message.startswith(f"The checkpoint {tmp_path / NEWEST / 'model-3'} cannot be read: ")
    assert reason in message
    assert message.endswith("Resuming from model-2; the files of model-3 stay as ....damaged.")
    assert {path.name for path in (tmp_path / NEWEST).glob("model-3.*")} == {f"{file}.damaged" for file in files}

    # The run reaches step 3 again, and a new start uses that checkpoint without a message.
    caplog.clear()
    setup.save(3)
    setup.fill(9)
    assert setup.checkpoints.resume() == 3
    assert setup.holds(3)
    assert caplog.messages == []


def test_where_none_is_whole_nothing_starts_afresh_and_nothing_is_changed(setup: Setup, tmp_path: Path) -> None:
    for step in (1, 2):
        setup.save(step)
    (tmp_path / NEWEST / "model-1.index").unlink()
    _flip(0.5)(tmp_path / NEWEST / f"model-2.{DATA}")
    before = {path: path.read_bytes() for path in (tmp_path / NEWEST).iterdir()}
    with pytest.raises(DataError) as error:
        setup.checkpoints.resume()
    lines = str(error.value).split("\n")
    assert lines[0] == f"None of the checkpoints in {tmp_path / NEWEST} is whole, so this run cannot resume:"
    assert "model-2 cannot be read: it is damaged" in lines[1]
    assert "model-1.index is not there" in lines[2]
    assert lines[3] == "Put back a copy of one, or start again with another --output_dir."
    assert {path: path.read_bytes() for path in (tmp_path / NEWEST).iterdir()} == before


def test_one_of_another_model_is_not_passed_over(setup: Setup, make_model: Callable[..., Any], tmp_path: Path) -> None:
    setup.save(1)
    with pytest.raises(DataError, match="of another model: .* has shape"):
        Setup(make_model(d_model=8), tmp_path).checkpoints.resume()
    assert len(list_checkpoints(tmp_path)) == 1


def test_weights_alone_are_no_checkpoint_to_go_on_from(setup: Setup, tmp_path: Path) -> None:
    setup.checkpoints.save_weights(NEWEST, 4)
    with pytest.raises(
        DataError,
        match=r"is none that adam can resume from: it has no adam_m, adam_v, adam_start\. .* --warm_start_from=",
    ):
        setup.checkpoints.resume()


def test_an_average_leaves_out_what_a_trainer_removes_meanwhile(
    setup: Setup, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for step in (1, 2, 4):
        setup.save(step)
    paths = list_checkpoints(tmp_path)
    for ending in ("index", DATA):
        Path(f"{paths[0]}.{ending}").unlink()
    assert setup.checkpoints.average(paths) == paths[1:]
    assert all((v.numpy() == 3).all() for v in setup.adam.variables)
    assert caplog.messages == [
        f"The checkpoint {paths[0]} cannot be read: model-1.index is not there. A trainer may have removed it. It is "
        "left out: the mean is of the others."
    ]


def test_an_average_leaves_out_what_is_damaged_and_sets_it_aside(
    setup: Setup, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for step in (1, 2, 4):
        setup.save(step)
    paths = list_checkpoints(tmp_path)
    _cut(Path(f"{paths[1]}.{DATA}"))
    assert setup.checkpoints.average(paths) == [paths[0], paths[2]]
    assert all((v.numpy() == 2.5).all() for v in setup.adam.variables)
    (message,) = caplog.messages
    assert message.startswith(f"The checkpoint {paths[1]} cannot be read: it is damaged or incomplete (")
    assert message.endswith("). It is left out, and its files stay as ....damaged: the mean is of the others.")
    assert list_checkpoints(tmp_path) == [paths[0], paths[2]]
    assert Path(f"{paths[1]}.{DATA}.damaged").exists()
    for path in (paths[0], paths[2]):
        _cut(Path(f"{path}.{DATA}"))
    with pytest.raises(DataError, match="None of the 3 checkpoints that were to be averaged can be read"):
        setup.checkpoints.average(paths)


def test_numbers_that_are_not_finite_are_neither_saved_nor_loaded(
    setup: Setup, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup.save(1)
    setup.fill(np.nan)
    for save in (setup.checkpoints.save, lambda step: setup.checkpoints.save_weights(BEST, step)):
        with pytest.raises(
            TrainingError, match=r"Step 2: \d+ weights, such as .*, hold numbers that are not finite: the"
        ):
            save(2)
    assert [Path(path).name for path in list_checkpoints(tmp_path)] == ["model-1"]
    assert not list_checkpoints(tmp_path, BEST)

    monkeypatch.setattr(Checkpoints, "not_finite", lambda self: [])
    path = setup.checkpoints.save(2)
    monkeypatch.undo()
    with pytest.raises(DataError, match="model-2 holds numbers that are not finite, in .*: its training had diverged"):
        setup.checkpoints.load_weights(path)
    assert setup.checkpoints.resume() == 1
    assert setup.holds(1)
