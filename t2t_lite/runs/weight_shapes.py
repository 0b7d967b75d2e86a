"""Comparison of the variables in a checkpoint with those of a model."""

from __future__ import annotations

import re
from collections.abc import Mapping

from t2t_lite.errors import DataError


def check_shapes(path: str, here: Mapping[str, list[int]], there: Mapping[str, list[int]]) -> None:
    """Raises DataError if a variable is missing or of another shape, or if the checkpoint has more weights.

    Args:
        path: the checkpoint's.
        here: the wanted shapes, by the variable's key in a checkpoint.
        there: the shapes of all variables in the checkpoint.
    """
    for key in [*here, *sorted(key for key in there if key.startswith("weights/"))]:
        if here.get(key) != there.get(key):
            raise DataError(
                f"The checkpoint {path} is of another model: {_name(key)} has shape {there.get(key, 'none')} there and "
                f"{here.get(key, 'none')} here."
            )


def _name(key: str) -> str:
    """The variable's name, from PART/NAME/...: TensorFlow writes .. for a dot of the name, and .S for a slash."""
    return re.sub(r"\.([.S])", lambda found: "/" if found[1] == "S" else ".", key.split("/")[1])
