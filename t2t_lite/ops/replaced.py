"""Attributes of layers, replaced while a graph is traced."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import Any

# Held by a thread while it traces a model or looks at what layers compute: both change attributes of layers, which
# another thread that runs their Python code would use.
LOCK = threading.RLock()


@contextlib.contextmanager
def replaced(attributes: Mapping[Any, Mapping[str, Any]]) -> Iterator[None]:
    """Replaces attributes of layers by name, and restores them at the end; Keras does not track the replacements."""
    missing = object()
    with LOCK:
        old = {layer: {name: vars(layer).get(name, missing) for name in new} for layer, new in attributes.items()}
        try:
            for layer, new in attributes.items():
                vars(layer).update(new)
            yield
        finally:
            for layer, values in old.items():
                for name, value in values.items():
                    if value is missing:
                        del vars(layer)[name]
                    else:
                        vars(layer)[name] = value
