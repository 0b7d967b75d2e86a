"""tensor2tensor's checkpoints as a `Transformer`: its logits, its n-best lists, and a recipe that describes a model."""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t2t_lite import config, registry
from t2t_lite.errors import DataError
from t2t_lite.importers import run_folder, t2t_model, tensor2tensor
from t2t_lite.importers.imported import Imported
from tests.importers import t2t_golden
from tests.importers.made_up import HPARAMS, save, variables
from tests.searches import search_graph

EXTRA = 12  # extra length of the golden searches


def _import(folder: Path) -> Imported:
    made = folder / "made.json"
    space = json.loads(made.read_text("utf-8"))["target_space_id"] if made.is_file() else None
    return tensor2tensor.read([folder], target_space_id=None if folder.name == "no_target_space" else space)


@pytest.mark.nightly
def test_logits_are_those_of_tensor2tensor(shared_data: Callable[[str], Path]) -> None:
    folders = [folder for folder in sorted(shared_data("t2t_golden").iterdir()) if (folder / "golden.npz").is_file()]
    assert {"relative", "cubbitt", "base_v1", "positions_learned", "t2t_test_ckpt"} <= {f.name for f in folders}
    for folder in folders:
        golden, imported = np.load(folder / "golden.npz"), _import(folder)
        model = t2t_model.build(imported)
        logits = np.array(model({"source": golden["inputs"], "target": golden["targets"]}))
        reference = t2t_golden.reference_of(imported)(golden["inputs"], golden["targets"])
        if "logits_columns" in golden:
            np.testing.assert_allclose(logits.max(-1), golden["logits_max"], atol=2e-5)
        for found in (logits, reference):
            found = found[:, :, golden["logits_columns"]] if "logits_columns" in golden else found
            assert np.abs(found - golden["logits"])[golden["targets"] != 0].max() <= 2e-5, folder.name


def _cut(ids: np.ndarray) -> list[int]:
    """The pieces before the end symbol."""
    row = ids.tolist()
    return row[: row.index(1)] if 1 in row else row


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["base_unshared", "base_v1", "parsing_base", "relative"])
def test_n_best_lists_are_those_of_tensor2tensor(shared_data: Callable[[str], Path], name: str) -> None:
    """Compares each sentence alone and all in one batch.

    If there are fewer hypotheses than beams, tensor2tensor gives the missing ones the score -1e7; they are left out.
    """
    folder = shared_data("t2t_golden") / name
    model, decoded = t2t_model.build(_import(folder)), np.load(folder / "decoded.npz")
    inputs = np.load(folder / "golden.npz")["inputs"]

    @functools.cache
    def search(alpha: float) -> Any:
        return search_graph(model, 4, alpha, EXTRA, early_stop=False)

    compared = 0
    for tag, alpha in (("nbest4", 0.6), ("alpha1", 1.0)):
        if f"{tag}_batch_outputs" not in decoded:
            continue
        batches = {"batch": [inputs], "alone": [row[None, : np.count_nonzero(row)] for row in inputs]}
        for way, batch in batches.items():
            theirs = zip(decoded[f"{tag}_{way}_outputs"], decoded[f"{tag}_{way}_scores"], strict=True)
            for rows in batch:
                for ids, scores in zip(*(x.numpy() for x in search(alpha)(rows)), strict=True):
                    wanted, wanted_scores = next(theirs)
                    there = wanted_scores > -1e6
                    assert [_cut(row) for row in ids[there]] == [_cut(row) for row in wanted[there]]
                    np.testing.assert_allclose(scores[there], wanted_scores[there], rtol=0, atol=1e-5)
                    compared += int(there.sum())
    assert compared >= 2 * len(inputs) * 4


def test_the_recipe_of_a_model_says_what_it_is(shared_data: Callable[[str], Path]) -> None:
    golden = shared_data("t2t_golden")

    def changed(name: str) -> dict[str, Any]:
        imported = _import(golden / name)
        recipe = config.to_dict(t2t_model.recipe(imported.description, imported.hparams))
        default = config.to_dict(type(t2t_model.recipe(imported.description, {}))())
        left_out = {"d_model", "d_ff", "num_heads", "d_k", "d_v"}
        return {k: v for k, v in recipe.items() if v != default[k] and k not in left_out}

    common = {"num_layers": 2, "num_decoder_layers": 2, "source_vector": True, "label_smoothing_over": "others"}
    v3 = common | {
        "positions": "tensor2tensor",
        "norm": "pre",
        "attention_dropout": 0.1,
        "relu_dropout": 0.1,
        "adam_beta2": 0.997,
        "warmup_steps": 8000,
        "learning_rate_factor": 2.0,
    }
    assert changed("base") == v3
    assert changed("base_v1") == common | {"positions": "tensor2tensor"}
    assert changed("relative") == v3 | {"positions": "none", "max_relative_position": 4}
    assert changed("positions_learned") == v3 | {"positions": "learned", "max_positions": 41}
    assert changed("no_target_space") == {k: v for k, v in v3.items() if k != "source_vector"}
    assert changed("base_unshared") == v3 | {"share_embeddings": False}
    cubbitt = changed("cubbitt")
    assert (cubbitt["num_layers"], cubbitt["num_decoder_layers"]) == (4, 2)
    tpu = changed("tpu")
    adafactor = {"optimizer": "adafactor", "schedule": "inverse_sqrt", "warmup_steps": 10000, "learning_rate": 0.01}
    assert {name: tpu[name] for name in adafactor} == adafactor
    assert "adam_beta2" not in tpu


@pytest.mark.commit
def test_zeros_follow_its_learned_positions(shared_data: Callable[[str], Path]) -> None:
    """Its tables, of 40 rows, are padded with zeros; a model here repeats its last row."""
    imported = _import(shared_data("t2t_golden") / "positions_learned")
    values = config.to_dict(run_folder.recipe(imported, {}))
    assert [values[name] for name in ("max_positions", "max_source_length", "max_length")] == [41, 512, 40]
    rng = np.random.default_rng(0)
    source, target = (
        rng.integers(2, imported.description.target_vocab_size, (2, length)).astype(np.int32) for length in (45, 60)
    )
    assert not imported.weights["transformer/source_positions/table"][40:].any()
    wanted = t2t_golden.reference_of(imported)(source, target)
    found = t2t_model.build(imported)({"source": source, "target": target})
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4 * np.abs(wanted).max())


@pytest.mark.parametrize(("name", "ours"), [("base", "t2t_base"), ("big", "t2t_big"), ("relative", "t2t_relative")])
def test_our_recipes_are_those_of_its_hparams(shared_data: Callable[[str], Path], name: str, ours: str) -> None:
    """Our recipes equal its hparams in model, optimizer, schedule and loss; the golden models have small sizes."""
    imported = _import(shared_data("t2t_golden") / name)
    recipe, registered = t2t_model.recipe(imported.description, imported.hparams), registry.hparams(ours)
    sizes = {"num_layers", "num_decoder_layers", "d_model", "d_ff", "num_heads", "d_k", "d_v", "max_relative_position"}
    compared = {
        field.name for field in config.fields(type(recipe)).values() if field.group in ("model", "optimization")
    } - sizes
    assert len(compared) > 20
    for field in sorted(compared):
        assert getattr(recipe, field) == getattr(registered, field), field
    assert bool(recipe.max_relative_position) == bool(registered.max_relative_position)


@pytest.mark.commit
def test_a_recipe_of_another_model_is_refused(tmp_path: Path) -> None:
    imported = tensor2tensor.read([save(tmp_path / "model.ckpt-1", variables(), HPARAMS)])
    recipe = t2t_model.recipe(imported.description, imported.hparams)
    assert t2t_model.build(imported, config.replace(recipe, precision="bfloat16")).compute_dtype == "bfloat16"
    with pytest.raises(DataError, match=r"transformer/source_bias has shape \(8,\) in it, and none in"):
        t2t_model.build(imported, config.replace(recipe, source_vector=False))
