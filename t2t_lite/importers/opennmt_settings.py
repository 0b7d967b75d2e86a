"""What the shapes of an OpenNMT-tf checkpoint do not say: read out of model_description.py, or given.

That file is Python. It is read as text and never run: names of models in OpenNMT-tf's catalog, and constants among the
arguments of a Transformer.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from t2t_lite.errors import DataError, UsageError, did_you_mean
from t2t_lite.importers import t2t_hparams

FILE = "model_description.py"

# Transformers of its catalog (models/catalog.py, 2.32.0). The last two say in their own configuration that the source
# has an end symbol, which --auto_config takes over.
_CATALOG: dict[str, dict[str, Any]] = {
    **{name: {"num_heads": 8} for name in ("Transformer", "TransformerBase", "TransformerBaseSharedEmbeddings")},
    **{name: {"num_heads": 16} for name in ("TransformerBig", "TransformerBigSharedEmbeddings")},
    "TransformerRelative": {"num_heads": 8, "position_encoder_class": None},
    "TransformerBaseRelative": {"num_heads": 8, "position_encoder_class": None},
    "TransformerBigRelative": {"num_heads": 16, "position_encoder_class": None},
    "TransformerTiny": {"num_heads": 2},
    "ScalingNmtEnDe": {"num_heads": 16, "source_end": True},
    "ScalingNmtEnFr": {"num_heads": 16, "source_end": True},
}
# The order of the arguments of opennmt.models.Transformer.
_ARGUMENTS = ("source_inputter", "target_inputter", "num_layers", "num_units", "num_heads", "ffn_inner_dim")
# Setting -> values that can be expressed. source_end is ours: source_sequence_controls: {end: true} of the data.
_EXPRESSED: dict[str, tuple[Any, ...]] = {
    "num_heads": (),  # any
    "num_units": (),
    "source_end": (True, False),
    "ffn_activation": ("relu",),
    "position_encoder_class": ("SinusoidalPositionEncoder", "PositionEmbedder", None),
}


def read(folder: Path, name: str | None, overrides: str | None) -> dict[str, Any]:
    """Returns the settings that are known.

    Args:
        folder: of the checkpoint.
        name: a model of OpenNMT-tf's catalog, or None for what the folder's model_description.py says.
        overrides: "name=value,...", which win.

    Raises:
        UsageError: a name that is not known.
        DataError: a setting that cannot be expressed here, or a file that is no Python.
    """
    found = {**(_of_catalog(name) if name else _described(folder / FILE)), **t2t_hparams.given(None, overrides)}
    if unknown := sorted(set(found) - set(_EXPRESSED)):
        raise UsageError(
            f"hparams: {unknown[0]} is no setting of an OpenNMT-tf model that is asked for here."
            f"{did_you_mean(unknown[0], _EXPRESSED)} There are {', '.join(_EXPRESSED)}."
        )
    wrong = [
        f"{name}={found[name]} (only {' or '.join(map(str, values))})"
        for name, values in _EXPRESSED.items()
        if values and name in found and found[name] not in values
    ]
    if wrong:
        raise DataError(f"This model cannot be expressed here: {'; '.join(wrong)}.")
    return found


def _of_catalog(name: str) -> dict[str, Any]:
    if name not in _CATALOG:
        raise UsageError(
            f"hparams_set={name!r} is no Transformer of OpenNMT-tf's catalog.{did_you_mean(name, _CATALOG)} Give "
            "--hparams=num_heads=N."
        )
    return dict(_CATALOG[name])


def _described(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        tree = ast.parse(file.read_text("utf-8"))
    except (SyntaxError, ValueError) as error:
        raise DataError(f"{file} is not the Python that OpenNMT-tf writes or reads: {error}.") from error
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for call in calls:  # models.get_model_from_catalog("TransformerBase")
        if _last(call.func) == "get_model_from_catalog" and call.args and isinstance(call.args[0], ast.Constant):
            return _of_catalog(str(call.args[0].value))
    found: dict[str, Any] = {}
    for call in calls:
        kind = _last(call.func)
        if kind in ("Transformer", "__init__"):  # or a class that derives from it
            arguments = dict(zip(_ARGUMENTS, call.args, strict=False))
            arguments |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
            found |= _settings(arguments)
            if kind == "Transformer":
                found.setdefault("num_heads", 8)  # its default
        elif kind in _CATALOG:
            found |= _CATALOG[kind]
    return found


def _settings(arguments: Mapping[str, ast.expr]) -> dict[str, Any]:
    """Of the arguments those that are asked for, where they stand there as constants or names."""
    found: dict[str, Any] = {}
    for name, value in arguments.items():
        if name not in _EXPRESSED:
            continue
        if isinstance(value, ast.Constant):
            found[name] = value.value
        elif name in ("ffn_activation", "position_encoder_class"):  # a name, or a function that makes one
            calls = [node.func for node in ast.walk(value) if isinstance(node, ast.Call)]
            found[name] = _last(calls[0] if calls else value)
    return found


def _last(node: ast.expr) -> str:
    """ "relu" of tf.nn.relu."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
