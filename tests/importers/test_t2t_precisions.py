"""Models that tensor2tensor trained in precisions other than float32, and one model on a thousand symbols.

tests/golden/tensor2tensor_precisions.py made them.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.errors import DataError
from t2t_lite.importers import (
    import_report,
    run_folder,
    t2t_hparams,
    t2t_model,
    t2t_precision,
    t2t_slots,
    tensor2tensor,
    vocabulary_kinds,
)
from t2t_lite.importers.imported import Imported
from tests.importers import t2t_golden
from tests.importers.made_up import save

GOLDEN = t2t_golden.FOLDER / "tensor2tensor_precisions.npz"
SPACE = 5
BYTES = vocabulary_kinds.load("bytes")
# Name: largest allowed difference between logits, which are up to 3. The larger values are for tensor2tensor's rounding
# to 8 or 11 bits.
CASES = {
    "bfloat16_weights": 2e-5,
    "bfloat16": 3e-2,
    "float16": 6e-3,
    "automatic": 2e-5,
    "multistep": 2e-5,
    "long": 2e-5,
}


def _golden(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The stored data of a case, and the arrays of its checkpoint."""
    golden = t2t_golden.read(GOLDEN, name)
    return golden, t2t_golden.arrays(golden, "variables")


def _save(folder: Path, name: str) -> tuple[dict[str, Any], str]:
    golden, arrays = _golden(name)
    return golden, save(folder / "model.ckpt-60", arrays, json.loads(str(golden["hparams"])))


def _read(prefix: str, **given: Any) -> Imported:
    return tensor2tensor.read([prefix], target_space_id=SPACE, **given)


@pytest.mark.nightly
@pytest.mark.parametrize("name", CASES)
def test_logits_are_those_of_tensor2tensor(tmp_path: Path, name: str) -> None:
    golden, prefix = _save(tmp_path, name)
    logits = np.array(t2t_model.build(_read(prefix))({side: golden[side] for side in ("source", "target")}))
    assert np.abs(golden["logits"]).max() > 2
    assert np.abs(logits - golden["logits"])[golden["target"] != 0].max() <= CASES[name]


def test_the_report_says_what_is_computed_otherwise(tmp_path: Path) -> None:
    """The report knows it from hparams.json, or from the name of the set if that file is missing."""

    def said(name: str) -> str | None:
        imported = _read(_save(tmp_path / name, name)[1])
        found = run_folder.Import(imported, run_folder.recipe(imported, {}), (BYTES, BYTES), ("bytes",), {}, {})
        return dict(import_report.lines(found, 1)).get("precision")

    assert said("bfloat16_weights") == "float32; weights were stored as bfloat16"
    for name, there in (("bfloat16", "bfloat16"), ("float16", "float16"), ("automatic", "float16")):
        assert str(said(name)).startswith(f"float32; tensor2tensor computed in {there}, so that its outputs may differ")
    assert said("multistep") is said("long") is None
    named = t2t_hparams.parse("transformer_fairseq_fp16_activation_big", None)
    assert t2t_precision.describe(named) == said("float16")


def test_the_mean_of_weights_in_bfloat16_is_that_of_what_they_mean(tmp_path: Path) -> None:
    golden, arrays = _golden("bfloat16_weights")
    hparams = json.loads(str(golden["hparams"]))
    # A stored value times 2^-8 means a weight times 2^-1.
    halved = {k: v if v.dtype != tf.bfloat16 else (np.float32(v) / 256).astype(v.dtype) for k, v in arrays.items()}
    prefixes = [save(tmp_path / f"model.ckpt-{i}", made, hparams) for i, made in enumerate((arrays, halved))]
    first = _read(prefixes[0]).weights
    mean = tensor2tensor.read(prefixes, target_space_id=SPACE).weights
    for path in (
        "transformer/decoder/layer_0/around_memory/memory_attention/key",
        "transformer/target_embedding/table",
    ):
        np.testing.assert_allclose(mean[path], 0.75 * first[path], rtol=1e-6)


def test_how_bfloat16_is_meant_has_to_be_known(tmp_path: Path) -> None:
    _, prefix = _save(tmp_path, "bfloat16_weights")
    (tmp_path / "hparams.json").unlink()
    with pytest.raises(DataError, match="stores weights as bfloat16, and nothing beside it says how. Give --hparams="):
        t2t_model.build(_read(prefix, hparams="num_heads=2"))
    encoded, plain = (
        _read(prefix, hparams=f"num_heads=2,weight_dtype={kind}").weights["transformer/target_embedding/table"]
        for kind in ("bfloat16", "float32")
    )
    np.testing.assert_allclose(np.abs(128 * encoded) ** 8, np.abs(plain), rtol=1e-5)


def test_slots_of_the_optimizer(tmp_path: Path) -> None:
    """With loss scaling, the slots are Adam's, in units of the loss. Slots of multistep_adam cannot be continued."""
    for name in ("float16", "automatic"):
        slots = t2t_slots.read(_read(_save(tmp_path / name, name)[1]))
        assert (slots.optimizer, slots.step) == ("adam", 60)
        assert 0 < max(np.abs(slot["m"]).max() for slot in slots.arrays.values()) < 1
    imported = _read(_save(tmp_path / "multistep", "multistep")[1])
    with pytest.raises(DataError, match="slots of multistep_adam cannot be taken over"):
        t2t_slots.read(imported)
