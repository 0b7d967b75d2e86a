"""Mixin for layers that consist of layers."""

from __future__ import annotations

from typing import Any


class NoBuildTrace:
    """Mixin of a layer without weights of its own: its first call builds each part when it reaches it.

    Otherwise Keras would build the parts by tracing the call, and would trace each part's call once more for its own
    parts. The innermost parts would be traced five times in all, so that a new model would take seconds.
    """

    def build(self, input_shape: Any) -> None:
        """Does nothing; without this method Keras would trace the call."""
