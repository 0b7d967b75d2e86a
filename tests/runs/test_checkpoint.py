"""Checkpoints: what is saved comes back, the newest stay, averages are means of every weight, damage is reported."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.errors import DataError, UsageError
from t2t_lite.runs.checkpoint import FORMAT, Checkpoints, find, list_checkpoints
from t2t_lite.runs.checkpoint_files import AVERAGED, BEST, NEWEST, step_of
from t2t_lite.runs.run_dir import HPARAMS_FILE
from tests.checkpoints import SavedModel

pytestmark = pytest.mark.commit

# Every kind of weight: three embeddings, learned positions, layer norms, attention, feed-forward.
OPTIONS = {"shared": False, "share_embeddings": False, "positions": "learned", "max_positions": 8}


@pytest.fixture(scope="module")
def model(make_model: Callable[..., Any]) -> Any:
    return make_model(**OPTIONS)


@pytest.fixture(scope="module")
def other_model(make_model: Callable[..., Any]) -> Any:
    """The same model as another process would build it, with other weights."""
    return make_model(seed=2, **OPTIONS)


@pytest.fixture
def setup(model: Any, tmp_path: Path) -> SavedModel:
    return SavedModel(model, tmp_path)


def _steps(folder: Path, kind: str = NEWEST) -> list[int]:
    return [step_of(path) for path in list_checkpoints(folder, kind)]


def test_weights_moments_and_step_come_back_bit_for_bit(setup: SavedModel, other_model: Any, tmp_path: Path) -> None:
    setup.randomize(5)
    path = setup.checkpoints.save(123)
    assert path == str(tmp_path / NEWEST / "model-123")
    other = SavedModel(other_model, tmp_path)
    assert other.checkpoints.resume() == 123
    for saved, restored in zip(setup.state(), other.state(), strict=True):
        np.testing.assert_array_equal(restored, saved)


def test_a_checkpoint_of_adam_has_the_layout_it_always_had(setup: SavedModel, other_model: Any, tmp_path: Path) -> None:
    """TensorFlow alone writes one here, as before optimizers had names; our checkpoint has the same keys."""
    setup.randomize(5)
    names = [w.path for w in setup.model.trainable_weights]
    old = tf.train.Checkpoint(
        step=tf.Variable(77, dtype=tf.int64),
        weights=setup.checkpoints._variables,
        adam_m=dict(zip(names, setup.adam.m, strict=True)),
        adam_v=dict(zip(names, setup.adam.v, strict=True)),
        adam_start={"step": tf.Variable(40, dtype=tf.int64)},
        run=tf.Variable(json.dumps({"format": FORMAT})),
    )
    (tmp_path / NEWEST).mkdir()
    path = old.write(str(tmp_path / NEWEST / "model-77"))
    other = SavedModel(other_model, tmp_path)
    assert other.checkpoints.resume() == 77
    assert other.adam.start == 40
    for saved, restored in zip(setup.state(), other.state(), strict=True):
        np.testing.assert_array_equal(restored, saved)
    shapes = [tf.train.load_checkpoint(p).get_variable_to_shape_map() for p in (path, other.checkpoints.save(78))]
    assert shapes[0] == shapes[1]


def test_loading_weights_leaves_the_moments_alone_and_takes_any_kind_of_checkpoint(setup: SavedModel) -> None:
    setup.randomize(1)
    weights = setup.weights()
    paths = [setup.checkpoints.save(4), setup.checkpoints.save_weights(BEST, 4)]
    for path in paths:
        setup.randomize(2)
        moments = [m.numpy() for m in setup.adam.m]
        assert setup.checkpoints.load_weights(path) == 4
        for name, value in setup.weights().items():
            np.testing.assert_array_equal(value, weights[name])
        for before, m in zip(moments, setup.adam.m, strict=True):
            np.testing.assert_array_equal(m.numpy(), before)


def test_the_newest_n_are_kept_also_by_a_process_that_goes_on(
    setup: SavedModel, other_model: Any, tmp_path: Path
) -> None:
    for step in (1, 2, 3, 4):
        setup.checkpoints.save(step)
    assert _steps(tmp_path) == [2, 3, 4]
    later = SavedModel(other_model, tmp_path)
    assert later.checkpoints.resume() == 4
    later.checkpoints.save(5)
    later.checkpoints.save(5)  # the same step again, as after a run that was killed
    assert _steps(tmp_path) == [3, 4, 5]
    names = {path.name for path in (tmp_path / NEWEST).iterdir()}
    assert names == {"checkpoint"} | {f"model-{n}.{e}" for n in (3, 4, 5) for e in ("index", "data-00000-of-00001")}


def test_of_best_and_averaged_there_is_one_each_without_moments(setup: SavedModel, tmp_path: Path) -> None:
    for kind in (BEST, AVERAGED):
        for step in (1, 2):
            setup.checkpoints.save_weights(kind, step)
        assert _steps(tmp_path, kind) == [2]
        keys = tf.train.load_checkpoint(list_checkpoints(tmp_path, kind)[0]).get_variable_to_shape_map()
        assert not any("adam" in key for key in keys)
        stored = sum(int(np.prod(shape)) for key, shape in keys.items() if key.startswith("weights/"))
        assert stored == sum(value.size for value in setup.weights().values())  # every weight, and each once


def test_the_average_is_the_mean_of_every_weight(setup: SavedModel, other_model: Any, tmp_path: Path) -> None:
    paths, saved = [], []
    for step in (1, 2, 3):
        setup.randomize(step)
        paths.append(setup.checkpoints.save(step))
        saved.append(setup.weights())
    other = SavedModel(other_model, tmp_path)
    other.checkpoints.average(paths)
    means = {name: np.mean([weights[name] for weights in saved], axis=0, dtype=np.float64) for name in saved[0]}
    assert len(means) == len(setup.model.weights)
    for part in ("source_embedding", "target_embedding", "softmax", "positions", "encoder", "decoder", "norm"):
        assert any(part in name for name in means), part
    for name, value in other.weights().items():
        np.testing.assert_allclose(value, means[name], rtol=0, atol=1e-6, err_msg=name)

    # The file holds the average, too, under its own name.
    path = other.checkpoints.save_weights(AVERAGED, 3)
    reader = tf.train.load_checkpoint(path)
    in_file = [reader.get_tensor(key) for key in reader.get_variable_to_shape_map() if key.startswith("weights/")]
    assert sum(tensor.sum() for tensor in in_file) == pytest.approx(sum(m.sum() for m in means.values()), abs=1e-2)


def test_weights_that_are_no_floats_are_saved_and_not_averaged(tmp_path: Path) -> None:
    model = keras.Model(name="counted")
    model.add_weight(name="scale", shape=(), initializer="ones")
    model.add_weight(name="table", shape=(), dtype="int64", initializer="zeros", trainable=False)
    checkpoints, paths = Checkpoints(tmp_path, model, keep=2), []
    for step, table in ((1, 2**62 + 1), (2, 2**62 + 3)):
        model.set_weights([np.float32(step), np.int64(table)])
        paths.append(checkpoints.save(step))
    checkpoints.average(paths)
    assert [float(weight.numpy()) for weight in model.trainable_weights] == [1.5]
    assert [int(weight.numpy()) for weight in model.non_trainable_weights] == [2**62 + 3]


def test_a_moved_folder_still_opens(model: Any, other_model: Any, tmp_path: Path) -> None:
    run = tmp_path / "run"
    there = SavedModel(model, run)
    there.checkpoints.save(1)
    there.checkpoints.save(2)
    os.rename(run, tmp_path / "moved")
    assert _steps(tmp_path / "moved") == [1, 2]
    moved = SavedModel(other_model, tmp_path / "moved", keep=2)
    assert moved.checkpoints.resume() == 2
    moved.checkpoints.save(3)
    assert _steps(tmp_path / "moved") == [2, 3]
    assert not run.exists()


@pytest.mark.commit
def test_a_checkpoint_of_another_model_names_the_weight_and_both_shapes(
    setup: SavedModel, make_model: Callable[..., Any], tmp_path: Path
) -> None:
    path = setup.checkpoints.save(1)
    narrow = Checkpoints(tmp_path, make_model(d_model=8, **OPTIONS))
    with pytest.raises(DataError, match=r"of another model: \S+ has shape \[.*16.*\] there and \[.*8.*\] here"):
        narrow.load_weights(path)
    deeper = Checkpoints(tmp_path, make_model(num_layers=2, **OPTIONS))
    with pytest.raises(DataError, match=r"of another model: \S+layer_1\S+ has shape none there and \[16"):
        deeper.load_weights(path)
    deeper.save(2)
    with pytest.raises(
        DataError, match=r"of another model: transformer/\S+/layer_1/\S+ has shape \[.*\] there and none"
    ):
        setup.checkpoints.load_weights(str(tmp_path / NEWEST / "model-2"))


def test_find_takes_averaged_then_best_then_newest_or_what_is_asked_for(setup: SavedModel, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"^There is no run or checkpoint at {tmp_path}\.$"):
        find(tmp_path)
    (tmp_path / HPARAMS_FILE).touch()
    for which in (None, "best"):
        with pytest.raises(DataError, match="holds no checkpoint; train first: t2t-lite-trainer --output_dir="):
            find(tmp_path, which)
    setup.checkpoints.save(10)
    newest = setup.checkpoints.save(20)
    assert find(tmp_path) == find(tmp_path, "newest") == find(tmp_path, "20") == newest
    best = setup.checkpoints.save_weights(BEST, 15)
    assert find(tmp_path) == find(tmp_path, "best") == best
    averaged = setup.checkpoints.save_weights(AVERAGED, 20)
    assert find(tmp_path) == find(tmp_path, "averaged") == averaged
    assert find(tmp_path, "10") == str(tmp_path / NEWEST / "model-10")
    with pytest.raises(
        UsageError, match="no checkpoint 'avraged' in .*Did you mean 'averaged'.*averaged, best, newest, 10"
    ):
        find(tmp_path, "avraged")
    with pytest.raises(UsageError, match="There is no checkpoint '15' in .*There are: averaged, best, newest, 10, 20."):
        find(tmp_path, "15")
