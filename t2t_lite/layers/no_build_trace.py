"""Mixin for layers that consist of layers."""

from __future__ import annotations

from typing import Any


class NoBuildTrace:
    """Mixin of a layer without weights of its own: its first call builds its parts, each as the call comes to it.

    Keras would build them by tracing the call, and those of each part once more within that: five times in all for the
    innermost, which makes a new model take seconds.
    """

    def build(self, input_shape: Any) -> None:
        """Has nothing to do; Keras traces the call where there is no such method."""
