"""Settings of an OpenNMT-tf Transformer that the shapes of its checkpoint do not show.

They come from the name of a model in OpenNMT-tf's catalog (models/catalog.py, models/transformer.py of 2.32.0) and from
what the user gives by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from t2t_lite.errors import DataError, UsageError, did_you_mean
from t2t_lite.importers import t2t_hparams

# The arguments of opennmt.models.Transformer that an import uses, and their defaults.
DEFAULTS: Mapping[str, Any] = {
    "num_units": 512,
    "num_heads": 8,
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "ffn_dropout": 0.1,
    "ffn_activation": "relu",
    "position_encoder_class": "SinusoidalPositionEncoder",
}
# The dropouts among these arguments -> fields of a recipe here.
DROPOUTS = {"dropout": "dropout", "attention_dropout": "attention_dropout", "ffn_dropout": "relu_dropout"}
_BIG = {**DEFAULTS, "num_units": 1024, "num_heads": 16}
_RELATIVE = {"position_encoder_class": None}
# Its configuration also says that the source has an end symbol; --auto_config takes this over.
_SCALING = {**_BIG, "dropout": 0.3, "ffn_dropout": 0, "source_end": True}

CATALOG: Mapping[str, Mapping[str, Any]] = {
    **dict.fromkeys(("Transformer", "TransformerBase", "TransformerBaseSharedEmbeddings"), DEFAULTS),
    **dict.fromkeys(("TransformerBig", "TransformerBigSharedEmbeddings"), _BIG),
    **{name: {**DEFAULTS, **_RELATIVE} for name in ("TransformerRelative", "TransformerBaseRelative")},
    "TransformerBigRelative": {**_BIG, **_RELATIVE},
    "TransformerTiny": {**DEFAULTS, "num_units": 64, "num_heads": 2},
    "ScalingNmtEnDe": _SCALING,
    "ScalingNmtEnFr": {**_SCALING, "dropout": 0.1, "attention_dropout": 0},
}

# Setting -> values that can be expressed here; (): any. Two names are ours: source_end is source_sequence_controls:
# {end: true} in the settings of the data; norm_epsilon, of layer normalisation, depends on the release.
_EXPRESSED: Mapping[str, tuple[Any, ...]] = {
    **dict.fromkeys(DEFAULTS, ()),
    "norm_epsilon": (),
    "source_end": (True, False),
    "ffn_activation": ("relu",),
    "position_encoder_class": ("SinusoidalPositionEncoder", "PositionEmbedder", None),
}

# Fields of a recipe here: what --auto_config trains with, and the defaults of OpenNMT-tf's search.
_USUAL = {
    "label_smoothing": 0.1,
    "adam_beta2": 0.998,
    "adam_epsilon": 1e-7,  # Keras' default, which LazyAdam has
    "warmup_steps": 8000,
    "learning_rate_factor": 2.0,
    "beam_size": 4,
    "length_penalty": 0.0,
}
_SCALING_USUAL = {
    "label_smoothing": 0.1,
    "adam_beta2": 0.98,
    "adam_epsilon": 1e-8,
    "schedule": "inverse_sqrt",  # there it begins at 1e-7, here at 0
    "warmup_steps": 4000,
    "beam_size": 4,
    "length_penalty": 0.0,
}
_PEAKS = {"ScalingNmtEnDe": 0.001, "ScalingNmtEnFr": 0.0007}


def read(name: str | None, overrides: str | None) -> dict[str, Any]:
    """Returns the settings that the user gives; "model" is the name in the catalog.

    Args:
        name: a model of OpenNMT-tf's catalog.
        overrides: "name=value,..."; these win.

    Raises:
        UsageError: a name that is not known.
        DataError: a setting that cannot be expressed here.
    """
    given = t2t_hparams.parse(None, overrides)
    if unknown := sorted(set(given) - set(_EXPRESSED)):
        raise UsageError(
            f"hparams: {unknown[0]} is no setting of an OpenNMT-tf model that is asked for here."
            f"{did_you_mean(unknown[0], _EXPRESSED)} There are {', '.join(_EXPRESSED)}."
        )
    if name is not None and name not in CATALOG:
        raise UsageError(
            f"hparams_set={name!r} is no Transformer of OpenNMT-tf's catalog.{did_you_mean(name, CATALOG)} Give "
            "--hparams=num_heads=N."
        )
    found = {**({"model": name, **CATALOG[name]} if name else {}), **given}
    wrong = [
        f"{name}={found[name]} (only {' or '.join(map(str, values))})"
        for name, values in _EXPRESSED.items()
        if values and name in found and found[name] not in values
    ]
    if wrong:
        raise DataError(f"This model of OpenNMT-tf cannot be expressed here: {'; '.join(wrong)}.")
    return found


def complete(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a recipe, by name, with OpenNMT-tf's default values for a model.

    Args:
        settings: as `read` returns them.
    """
    found = {ours: settings.get(name, DEFAULTS[name]) for name, ours in DROPOUTS.items()}
    peak = _PEAKS.get(str(settings.get("model")))
    return found | (_USUAL if peak is None else {**_SCALING_USUAL, "learning_rate": peak})
