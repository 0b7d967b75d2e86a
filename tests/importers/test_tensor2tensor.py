"""tensor2tensor's checkpoints: imported weights compute the same as there; all else is refused by name."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t2t_lite.errors import DataError, T2TError, UsageError
from t2t_lite.importers import t2t_model, tensor2tensor
from tests.importers.made_up import HPARAMS, SHARDS, D, F, V, save, variables

_ATTENTION = "transformer/body/encoder/layer_0/self_attention/multihead_attention"
_TABLES = ("source_embedding", "target_embedding", "softmax")
_SPACE = "transformer/body/target_space_embedding/kernel"


@pytest.mark.parametrize("part", ["q/kernel", "ffn/conv1/bias", "layer_norm_scale", "shared/weights_3", "target_space"])
def test_a_weight_of_odd_axes_is_named(tmp_path: Path, part: str) -> None:
    arrays, name = variables(), next(name for name in variables() if part in name)
    for i, odd in enumerate(((), (D, D, D), (0, D))):
        prefix = save(tmp_path / str(i) / "model.ckpt-100", arrays | {name: np.zeros(odd, np.float32)})
        with pytest.raises(
            DataError, match=rf"{name.removeprefix('transformer/')} has shape {re.escape(str(odd))}, and"
        ):
            tensor2tensor.read([prefix])
    prefix = save(tmp_path / "text" / "model.ckpt-100", arrays | {name: np.array(["a", "b"])})
    with pytest.raises(DataError, match=f"{part}|holds no numbers"):
        t2t_model.build(tensor2tensor.read([prefix]))


def test_a_step_that_none_could_have_is_refused(tmp_path: Path) -> None:
    prefix = save(tmp_path / "model.ckpt-99999999999999999999", variables())
    for path in (prefix, f"{prefix}.index", tmp_path):
        with pytest.raises(DataError, match="no training makes 99,999,999,999,999,999,999 steps"):
            tensor2tensor.read([path])


def test_the_target_space_is_read_off_the_optimizer(shared_data: Callable[[str], Path]) -> None:
    imported = tensor2tensor.read([shared_data("t2t_golden") / "t2t_test_ckpt"])
    assert imported.target_space is not None
    assert imported.target_space.row == 8
    assert "training moved row 8" in imported.target_space.why
    assert len(imported.variables.slots) == 164


def test_each_variable_is_used_once_and_shards_are_in_order(tmp_path: Path) -> None:
    arrays = variables()
    imported = tensor2tensor.read([save(tmp_path / "model.ckpt-100", arrays)], target_space_id=5)
    shards = [arrays[f"transformer/symbol_modality_{V}_{D}/shared/weights_{i}"] for i in range(SHARDS)]
    np.testing.assert_array_equal(imported.weights["transformer/target_embedding/table"], np.concatenate(shards))
    np.testing.assert_array_equal(imported.weights["transformer/source_bias"], arrays[_SPACE][5])
    query = "transformer/encoder/layer_0/around_attention/self_attention/query"
    np.testing.assert_array_equal(imported.weights[query], arrays[f"{_ATTENTION}/q/kernel"])
    assert len(imported.variables.weights) == len(arrays) - 1
    assert imported.variables.counters == ("global_step",)
    assert len(imported.weights) == len(arrays) - 1 - SHARDS + 1
    described = imported.description
    assert (described.d_model, described.d_ff, described.num_heads, described.d_k) == (D, F, 2, D // 2)


def test_a_softmax_beside_one_table_for_both_sides(tmp_path: Path) -> None:
    """With shared_embedding=True, source and target get the same table, and the softmax its own."""
    arrays = variables()
    softmax = {name.replace("/shared/", "/softmax/"): -array for name, array in arrays.items() if "/shared/" in name}
    imported = tensor2tensor.read([save(tmp_path / "model.ckpt-1", arrays | softmax)])
    source, target, output = (imported.weights[f"transformer/{name}/table"] for name in _TABLES)
    np.testing.assert_array_equal(source, target)
    np.testing.assert_array_equal(output, -target)
    assert (imported.description.shared, imported.description.share_embeddings) == (False, False)


@pytest.mark.parametrize(
    "scope", ["body/", "transformer/body/parallel_0/body/", "transformer/parallel_0_3/transformer/transformer/body/"]
)
def test_scopes_of_other_releases(tmp_path: Path, scope: str) -> None:
    plain = tensor2tensor.read([save(tmp_path / "a" / "model.ckpt-1", variables())])
    other = tensor2tensor.read([save(tmp_path / "b" / "model.ckpt-1", variables(scope=scope))])
    assert other.description == plain.description
    for path, array in plain.weights.items():
        np.testing.assert_array_equal(other.weights[path], array)


def test_slots_are_listed_and_left_out(tmp_path: Path) -> None:
    arrays = variables()
    slots = {f"training/{name}/Adam": array for name, array in arrays.items() if array.ndim}
    slots |= {f"{name}_slot_vr": array for name, array in arrays.items() if array.ndim}
    slots[f"training/{_SPACE}/Adam"] = np.float32(np.arange(32) == 21)[:, None] * np.ones(D, np.float32)
    slots["training/beta1_power"] = np.float32(0.9)
    imported = tensor2tensor.read([save(tmp_path / "model.ckpt-1", arrays | slots)])
    assert set(imported.variables.slots) == set(slots)
    assert imported.target_space is not None
    assert imported.target_space.row == 21


def test_several_checkpoints_are_averaged(tmp_path: Path) -> None:
    """The file `checkpoint` names the newest one, by its path from before a move; a later checkpoint is left out."""
    several = [variables(seed) for seed in range(4)]
    for step, arrays in enumerate(several):
        arrays[_SPACE][:] = 0.0
        arrays[_SPACE][7] = step
        save(tmp_path / f"model.ckpt-{step + 9}", arrays)
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "/elsewhere/model.ckpt-11"\n')
    imported = tensor2tensor.read([tmp_path], average=3)
    assert [Path(prefix).name for prefix in imported.checkpoints] == ["model.ckpt-9", "model.ckpt-10", "model.ckpt-11"]
    mean = np.mean([np.float64(arrays[f"{_ATTENTION}/k/kernel"]) for arrays in several[:3]], 0)
    key = imported.weights["transformer/encoder/layer_0/around_attention/self_attention/key"]
    np.testing.assert_allclose(key, mean, rtol=1e-6)
    assert imported.target_space is not None
    assert imported.target_space.row == 7  # the row in which they differ
    assert tensor2tensor.read([tmp_path]).checkpoints == (str(tmp_path / "model.ckpt-11"),)


def test_what_is_given_wins(tmp_path: Path) -> None:
    path = save(tmp_path / "model.ckpt-1", variables(), None)
    with pytest.raises(DataError, match=r"does not say how many heads.*--hparams_set=NAME"):
        tensor2tensor.read([path])
    assert tensor2tensor.read([path], hparams_set="transformer_tiny").description.num_heads == 4
    found = tensor2tensor.read([f"{path}.index"], hparams_set="transformer_tiny", hparams="num_heads=8")
    assert (found.description.num_heads, found.description.d_k) == (8, 1)
    (tmp_path / "flags.txt").write_text("--model=transformer\n--hparams_set=transformer_test\n--hparams=\n")
    assert tensor2tensor.read([path]).description.num_heads == 2
    (tmp_path / "flags.txt").write_text("--hparams_set=my_own\n--hparams=a=[1,2],norm_epsilon=0.001\n")
    found = tensor2tensor.read([path], hparams="num_heads=4")
    assert (found.description.num_heads, found.description.norm_epsilon, found.hparams["a"]) == (4, 1e-3, "[1,2]")


def _without(arrays: dict[str, Any], part: str) -> dict[str, Any]:
    return {name: array for name, array in arrays.items() if part not in name}


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda a: a | {"transformer/body/encoder/layer_0/moe/gate": np.ones(2, np.float32)}, "nothing here is like"),
        (lambda a: a | {"discriminator/kernel": np.ones(2, np.float32)}, "no part of a Transformer: discriminator"),
        (
            lambda a: _without(a, "encoder/layer_0/ffn/conv2/bias"),
            "layer_0/around_feed_forward/feed_forward/bias_2 has shape none in it",
        ),
        (
            lambda a: _without(a, "decoder/layer_prepostprocess"),
            r"decoder/final_norm/beta has shape none in it, and \(8,\)",
        ),
        (lambda a: _without(a, "weights_10"), "has 21 rows in the shards .*; its name says 23 rows"),
        (lambda a: _without(a, "symbol_modality"), "has the embeddings none"),
        (lambda a: _without(a, "decoder/"), "has only an encoder"),
        (lambda a: _without(a, "body/"), "no checkpoint of tensor2tensor's Transformer"),
        (
            lambda a: a | {f"{_ATTENTION}/k/kernel": np.ones((D, D + 2), np.float32)},
            "contradicts itself: .*memory_attention.key has shape",
        ),
        (lambda a: a | {f"{_ATTENTION}/k/kernel": np.full((D, D), np.nan, np.float32)}, "not finite"),
        (
            lambda a: a | {f"{_ATTENTION}/qkv_transform_single/kernel": np.ones((1, 1, D, 3 * D), np.float32)},
            "not complete: it has .*self_attention/multihead_attention, but not .*/output_transform_single/kernel",
        ),
        (lambda a: a | variables(scope="other/body/"), "several models"),
    ],
)
def test_checkpoints_that_are_refused(tmp_path: Path, change: Callable[[Any], Any], match: str) -> None:
    with pytest.raises(DataError, match=match):
        t2t_model.build(tensor2tensor.read([save(tmp_path / "model.ckpt-1", change(variables()))]))


@pytest.mark.parametrize(
    ("hparams", "match"),
    [
        ({"proximity_bias": True}, "cannot be expressed here: proximity_bias=True"),
        ({"self_attention_type": "local_unmasked"}, "self_attention_type=local_unmasked"),
        ({"ffn_layer": "local_moe", "unidirectional_encoder": True}, "ffn_layer=local_moe.*; unidirectional_encoder"),
        ({"layer_preprocess_sequence": "nda"}, "layer_preprocess_sequence=nda"),
        ({"hidden_size": 512}, "another model than the checkpoint: they say, and it has, hidden_size 512 and 8"),
        ({"layer_preprocess_sequence": "none", "layer_postprocess_sequence": "dan"}, "normalisation post and pre"),
        ({"self_attention_type": "dot_product_relative"}, "dot_product_relative and dot_product"),
        ({"num_heads": 3}, "num_heads=3 does not divide"),
        ({"num_heads": "two"}, "is no number of heads"),
    ],
)
def test_hparams_that_are_refused(tmp_path: Path, hparams: dict[str, Any], match: str) -> None:
    with pytest.raises(DataError, match=match):
        tensor2tensor.read([save(tmp_path / "model.ckpt-1", variables(), HPARAMS | hparams)])


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"hparams_set": "transformer_bas"}, "Did you mean 'transformer_base"),
        ({"hparams": "num_heads"}, "'num_heads' is not name=value"),
        ({"target_space_id": 32}, "has the rows 0 to 31"),
        ({"average": 2}, "holds 1 checkpoints, and 2 are to be averaged"),
        ({"paths": ["model.ckpt-1"], "average": 2}, "ckpt-1 is not a folder, of which --average=2 takes the newest 2"),
    ],
)
def test_arguments_that_are_refused(tmp_path: Path, arguments: dict[str, Any], match: str) -> None:
    save(tmp_path / "model.ckpt-1", variables())
    paths = [tmp_path / path for path in arguments.pop("paths", [""])]
    with pytest.raises(UsageError, match=match):
        tensor2tensor.read(paths, **arguments)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no checkpoint"):
        tensor2tensor.read([tmp_path])
    with pytest.raises(DataError, match="There is no checkpoint .*none"):
        tensor2tensor.read([tmp_path / "none"])
    path = save(tmp_path / "model.ckpt-1", variables())
    data = Path(f"{path}.data-00000-of-00001")
    data.write_bytes(data.read_bytes()[: data.stat().st_size // 2])
    with pytest.raises(DataError, match="damaged or incomplete"):
        tensor2tensor.read([path])
    Path(f"{path}.index").write_bytes(b"x" * 100)
    with pytest.raises(DataError, match="damaged or incomplete"):
        tensor2tensor.read([path])
    (tmp_path / "hparams.json").write_text("{")
    with pytest.raises(T2TError, match="is not JSON"):
        tensor2tensor.read([save(tmp_path / "model.ckpt-1", variables(), None)])


def test_checkpoints_of_two_models_are_not_averaged(tmp_path: Path) -> None:
    first = save(tmp_path / "model.ckpt-1", variables())
    with pytest.raises(DataError, match="not checkpoints of one training.*encoder/layer_2"):
        tensor2tensor.read([first, save(tmp_path / "model.ckpt-2", variables(layers=(3, 2)))])
