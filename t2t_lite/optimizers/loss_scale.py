"""The loss scale of float16, whose smallest number would otherwise be larger than many a gradient."""

from typing import Any

import tensorflow as tf

from t2t_lite.optimizers.base import read, write

_FIRST, _LEAST, _FACTOR, _INTERVAL = 2.0**15, 1.0, 2.0, 2000.0


class LossScale:
    """Factor of the loss before its gradients are computed, by which these are divided (Micikevicius et al., 2018).

    It begins at 2^15. It is halved, down to 1, where a gradient is not finite, and doubled after 2,000 updates in a row
    with gradients that are. Its state is on the devices: no update waits for the host.

    Attributes:
        variables: the state by name, for checkpoints.
    """

    def __init__(self) -> None:
        self._scale = tf.Variable(_FIRST, trainable=False)
        self._good = tf.Variable(0.0, trainable=False)  # updates in a row
        self.variables = {"scale": self._scale, "good_updates": self._good}

    def reset(self) -> None:
        """Sets the state to that before the first update."""
        self._scale.assign(_FIRST)
        self._good.assign(0.0)

    def value(self) -> Any:
        """The scale on this replica, a float32 scalar; a power of 2, so that multiplying by it rounds nothing."""
        return read(self._scale)

    def update(self, finite: Any, condition: Any) -> tuple[Any, Any]:
        """Follows an update, without a branch; every replica must be given the same.

        Args:
            finite: whether the gradients are.
            condition: nothing changes unless it holds.

        Returns:
            Whether the scale was lowered, and the scale for the next update.
        """
        scale, good = read(self._scale), read(self._good)
        more = good + 1.0
        full = more >= _INTERVAL
        grown = tf.where(full, scale * _FACTOR, scale)
        new = tf.where(finite, grown, tf.maximum(scale / _FACTOR, _LEAST))
        new = tf.where(condition, new, scale)
        write(self._scale, new)
        write(self._good, tf.where(condition, tf.where(finite & ~full, more, 0.0), good))
        return new < scale, new
