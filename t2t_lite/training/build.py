"""The model of a training run, with fresh weights."""

from __future__ import annotations

from typing import Any

from t2t_lite.config import HParams
from t2t_lite.distributed.devices import use_jit
from t2t_lite.errors import UsageError
from t2t_lite.models.base import Cost
from t2t_lite.models.ensemble import EnsembleCost
from t2t_lite.runs.run_dir import make_model
from t2t_lite.training.estimates import check_memory


def build_model(
    name: str,
    hparams: HParams,
    source_vocab_size: int,
    target_vocab_size: int,
    shared: bool,
    *,
    training: bool = False,
    restored: bool = False,
) -> Any:
    """Builds the model as `make_model` does.

    Raises:
        UsageError: it is far too large, or does not support the packed rows or the XLA that the recipe asks for.
    """
    check_memory(hparams, target_vocab_size)
    sizes = source_vocab_size, target_vocab_size, shared
    model = make_model(name, hparams, *sizes, training=training, restored=restored)
    if hparams.jit == "on" and not model.xla:
        raise UsageError(
            f"jit=on: XLA cannot compile the training of a {type(model).__name__}. Leave jit at auto, which means "
            "plain graphs here."
        )
    if hparams.packing and not model.packs:
        raise UsageError(f"A {type(model).__name__} reads no packed rows: leave packing=true out.")
    return model


def training_cost(model: Any, hparams: HParams) -> Cost:
    """Arithmetic and memory of an update: of all passes over its rows."""
    return EnsembleCost((model.cost,) * hparams.optimization.passes)


def uses_xla(hparams: HParams, model: Any) -> bool:
    """Whether XLA compiles the training of `model`."""
    return model.xla and use_jit(hparams.jit)
