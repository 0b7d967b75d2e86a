"""Settings that the shapes of an OpenNMT-tf checkpoint do not show: from model_description.py, or given by the user.

That file is Python, but it is read as text and never run. Read from it are names of models in OpenNMT-tf's catalog, and
constants among the arguments of a Transformer.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from t2t_lite.errors import DataError, UsageError, did_you_mean
from t2t_lite.importers import t2t_hparams
from t2t_lite.importers.opennmt_catalog import CATALOG, DEFAULTS, DROPOUTS

FILE = "model_description.py"

# The order of the arguments of opennmt.models.Transformer.
_ARGUMENTS = (
    *("source_inputter", "target_inputter", "num_layers", "num_units", "num_heads", "ffn_inner_dim", "dropout"),
    *("attention_dropout", "ffn_dropout", "ffn_activation", "mha_bias", "position_encoder_class"),
)
# Setting -> values that can be expressed here. Two names are ours: source_end is source_sequence_controls: {end: true}
# in the settings of the data; norm_epsilon, of layer normalisation, is no setting there: it depends on the release.
_EXPRESSED: dict[str, tuple[Any, ...]] = {
    "num_heads": (),  # any
    "num_units": (),
    "dropout": (),
    "attention_dropout": (),
    "ffn_dropout": (),
    "norm_epsilon": (),
    "source_end": (True, False),
    "ffn_activation": ("relu",),
    "position_encoder_class": ("SinusoidalPositionEncoder", "PositionEmbedder", None),
}
_NAMED = ("ffn_activation", "position_encoder_class")  # arguments that are functions or classes
_COUNTS = ("num_heads", "num_units")
# Settings that change a model's outputs and are not in the shapes: if they cannot be read, no default is assumed.
_TO_GIVE = {"num_heads": "N", "ffn_activation": "NAME", "position_encoder_class": "NAME"}


def find(folder: Path) -> Path | None:
    """The model_description.py of a checkpoint: in its folder or one up, as for the averages in MODEL_DIR/avg."""
    up = Path(os.path.abspath(folder)).parent
    return next((path for path in (folder / FILE, up / FILE) if path.is_file()), None)


def read(folder: Path, name: str | None, overrides: str | None) -> dict[str, Any]:
    """Returns the settings that are known; "model" is the name in the catalog, if the model has one.

    Args:
        folder: of the checkpoint.
        name: a model of OpenNMT-tf's catalog, or None for what the file that `find` finds says.
        overrides: "name=value,..."; these win.

    Raises:
        UsageError: a name that is not known.
        DataError: a setting that cannot be expressed or read here, or a file that is not Python.
    """
    given = t2t_hparams.given(None, overrides)
    if unknown := sorted(set(given) - set(_EXPRESSED)):
        raise UsageError(
            f"hparams: {unknown[0]} is no setting of an OpenNMT-tf model that is asked for here."
            f"{did_you_mean(unknown[0], _EXPRESSED)} There are {', '.join(_EXPRESSED)}."
        )
    file = find(folder)
    try:
        found = {**(_of_catalog(name) if name else _described(file, set(given)) if file else {}), **given}
    except (RecursionError, MemoryError) as error:
        raise DataError(
            f"{file} is nested too deeply to be read. Move it, and give --hparams_set=NAME or --hparams=num_heads=N."
        ) from error
    wrong = [
        f"{name}={found[name]} (only {' or '.join(map(str, values))})"
        for name, values in _EXPRESSED.items()
        if values and name in found and found[name] not in values
    ]
    if wrong:
        raise DataError(f"This model of OpenNMT-tf cannot be expressed here: {'; '.join(wrong)}.")
    return found


def _of_catalog(name: str) -> dict[str, Any]:
    if name not in CATALOG:
        raise UsageError(
            f"hparams_set={name!r} is no Transformer of OpenNMT-tf's catalog.{did_you_mean(name, CATALOG)} Give "
            "--hparams=num_heads=N."
        )
    return {"model": name, **CATALOG[name]}


def _described(file: Path, given: set[str]) -> dict[str, Any]:
    """What the file says about its one model.

    Args:
        given: names of settings that need not be read.
    """
    try:
        tree = ast.parse(file.read_text("utf-8"))
    except (SyntaxError, ValueError) as error:
        raise DataError(f"{file} is not the Python that OpenNMT-tf writes or reads: {error}.") from error
    models: list[dict[str, Any]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            models += _of_class(node, tree, file, given)
        elif isinstance(node, ast.Call) and (found := _of_call(node, file, given)) is not None:
            models.append(found)
    if any(model != models[0] for model in models):
        raise DataError(
            f"{file} describes several Transformers, and which one the checkpoint is of is not known. Leave only "
            "its own there."
        )
    return models[0] if models else {}


def _of_call(call: ast.Call, file: Path, given: set[str]) -> dict[str, Any] | None:
    """Settings from a call: get_model_from_catalog("TransformerBase"), Transformer(...), catalog.TransformerBase()."""
    kind = _last(call.func)
    if kind == "get_model_from_catalog" and call.args and isinstance(call.args[0], ast.Constant):
        return _of_catalog(str(call.args[0].value))
    if kind == "Transformer":
        return _settings(call, file, given)
    return _settings(call, file, given, _of_catalog(kind)) if kind in CATALOG else None


def _of_class(node: ast.ClassDef, tree: ast.Module, file: Path, given: set[str]) -> list[dict[str, Any]]:
    """Settings of a class derived from a Transformer: from its constructor, or else from each call of the class."""
    bases = {_last(base) for base in node.bases}
    if "Transformer" in bases:
        defaults: Mapping[str, Any] = DEFAULTS
    elif named := sorted(bases & CATALOG.keys()):
        defaults = _of_catalog(named[0])
    else:
        return []
    if any(isinstance(part, ast.FunctionDef) and part.name == "__init__" for part in node.body):
        calls = [call for call in _calls(node) if _last(call.func) == "__init__"][:1]
    else:
        calls = [call for call in _calls(tree) if _last(call.func) == node.name]
        for call in _calls(tree):  # such as functools.partial
            passed = map(_last, (*call.args, *(keyword.value for keyword in call.keywords)))
            if node.name in passed and not _is_super(call):
                return [_hidden(call, {}, file, given, defaults)]
    return [_settings(call, file, given, defaults) for call in calls] or [dict(defaults)]


def _calls(tree: ast.AST) -> list[ast.Call]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def _settings(call: ast.Call, file: Path, given: set[str], defaults: Mapping[str, Any] = DEFAULTS) -> dict[str, Any]:
    """The arguments of opennmt.models.Transformer that an import uses.

    Args:
        defaults: values of arguments that are not given, if all arguments can be read.
    """
    arguments = _arguments(call)
    found = _values(arguments, file, given)
    return _hidden(arguments[None], found, file, given, defaults) if None in arguments else {**defaults, **found}


def _hidden(
    where: ast.expr, found: Mapping[str, Any], file: Path, given: set[str], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """The settings if some arguments cannot be read: those that change outputs must be found or given."""
    if lacking := [f"{name}={value}" for name, value in _TO_GIVE.items() if name not in found.keys() | given]:
        raise _only_running(file, where, "arguments", ",".join(lacking))
    return {name: value for name, value in defaults.items() if name not in DEFAULTS} | dict(found)


def _arguments(call: ast.Call) -> dict[str | None, ast.expr]:
    """Arguments by name; the key None says that some are in a list or a dictionary."""
    found: dict[str | None, ast.expr] = {keyword.arg: keyword.value for keyword in call.keywords}
    given = call.args
    if isinstance(call.func, ast.Attribute) and call.func.attr == "__init__" and not _is_super(call.func.value):
        given = given if given and isinstance(given[0], ast.Starred) else given[1:]  # without self
    for name, value in zip(_ARGUMENTS, given, strict=False):
        if isinstance(value, ast.Starred):
            return {**found, None: value}
        found[name] = value
    return found


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and _last(node.func) == "super"


def _values(arguments: Mapping[str | None, ast.expr], file: Path, given: set[str]) -> dict[str, Any]:
    """Values of the arguments that an import uses; DataError if one is neither constant nor name, or a wrong number."""
    found: dict[str, Any] = {}
    for name, value in arguments.items():
        if name is None or name in given or name not in _EXPRESSED:
            continue
        if isinstance(value, ast.Constant):
            found[name] = _checked(name, value.value, file)
        elif name in _NAMED and (last := _last(_made(value))):
            found[name] = last
        else:
            raise _only_running(file, value, name, f"{name}=VALUE")
    return found


def _checked(name: str, value: Any, file: Path) -> Any:
    """Returns a constant; DataError if it is not of its setting's kind."""
    if name in _COUNTS and not (type(value) is int and value > 0):
        wanted = "an integer of at least 1"
    elif name in DROPOUTS and not (type(value) in (int, float) and 0 <= value < 1):
        wanted = "a number of at least 0 and below 1"
    else:
        return value
    raise DataError(
        f"{file} has {name}={value!r:.60} for its Transformer, where {wanted} is needed. Give --hparams={name}=VALUE."
    )


def _only_running(file: Path, value: ast.expr, what: str, flag: str) -> DataError:
    return DataError(
        f"{file} has {ast.unparse(value)!r:.60} as {what} of its Transformer: only running it would tell the value, "
        f"and it is never run. Give --hparams={flag}."
    )


def _made(node: ast.expr) -> ast.expr:
    """What `lambda: layers.PositionEmbedder(9)` calls; otherwise, or if a reducer is passed, the node itself."""
    if not (isinstance(node, ast.Lambda) and isinstance(node.body, ast.Call)):
        return node
    call = node.body
    read = {"PositionEmbedder": 1}.get(_last(call.func), 0)  # a number of positions, which is in the shapes
    others = [keyword for keyword in call.keywords if keyword.arg != "maximum_position"]
    return node if len(call.args) > read or others else call.func


def _last(node: ast.expr) -> str:
    """The last part of a name, such as "relu" of tf.nn.relu; "" if the node is not a name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
