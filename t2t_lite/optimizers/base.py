"""Base class of optimizers; a subclass is a file with an update rule."""

import abc
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from t2t_lite.name_table import snake_case

if TYPE_CHECKING:
    from t2t_lite.optimizers.ema import Ema
    from t2t_lite.optimizers.loss_scale import LossScale


class Optimizer(abc.ABC):
    """Changes weights by their gradients, and remembers what it needs in slots: named numbers for each weight.

    A subclass defines `update`. It also defines `slot_shapes` if it remembers something, and `numbers` if Python
    computes more than the learning rate. Its constructor takes `variables`, and fields of HParams by name: those are
    the settings that it reads. It is registered with `registry.register_optimizer`.

    Checkpoints hold slot S of an optimizer that is called NAME as NAME_S/(the weight's name).

    Attributes:
        variables: the weights.
        slots: for each weight, its slots by name.
        start: the step at which the slots were last zero: 0, unless they were reset.
        loss_scale: a `LossScale` if the model computes in float16.
        ema: an `Ema` of the weights if the recipe has one.

    Args:
        variables: tf.Variable, mirrored where several replicas train.
    """

    def __init__(self, variables: Sequence[tf.Variable]) -> None:
        self.variables = list(variables)
        self.slots = [
            {
                name: tf.Variable(tf.zeros(shape, variable.dtype), trainable=False)
                for name, shape in self.slot_shapes(variable.shape.as_list()).items()
            }
            for variable in self.variables
        ]
        self.start = 0
        self.loss_scale: LossScale | None = None
        self.ema: Ema | None = None

    @property
    def name(self) -> str:
        """What checkpoints call it."""
        return snake_case(type(self).__name__)

    def slot_shapes(self, shape: list[int]) -> dict[str, list[int]]:
        """The shapes of the slots of a weight of this shape, by name; no slot may be called "start"."""
        del shape
        return {}

    def numbers(self, learning_rate: float, step: int) -> tuple[float, ...]:
        """What `update` is given besides the gradient, computed in Python: always the same count, the rate first.

        Args:
            learning_rate: the schedule's.
            step: number of the update, from 1; the slots are `step - self.start` updates old.
        """
        del step
        return (learning_rate,)

    @abc.abstractmethod
    def update(self, weight: Any, slots: Mapping[str, Any], gradient: Any, *numbers: Any) -> tuple[Any, dict[str, Any]]:
        """Returns a weight and its slots as they are after an update, without a branch.

        Args:
            weight, slots, gradient: tensors; float32.
            numbers: float32 scalars, as from `numbers`.
        """

    def apply(self, gradients: Sequence[Any], *numbers: Any, condition: Any = None) -> None:
        """Updates this replica's copy of every variable.

        Every replica must be given the same gradients: nothing is exchanged here. So the update may be inside a
        condition; an update through the distribution strategy may not.

        Args:
            gradients: one per variable, all-reduced.
            numbers: float32 scalars, as from `numbers`.
            condition: nothing changes unless it holds. It makes no branch, for which a GPU would wait.
        """
        for variable, slots, gradient in zip(self.variables, self.slots, gradients, strict=True):
            old_weight, old = read(variable), {name: read(slot) for name, slot in slots.items()}
            weight, new = self.update(old_weight, old, gradient, *numbers)
            if condition is not None:
                weight = tf.where(condition, weight, old_weight)
                new = {name: tf.where(condition, new[name], old[name]) for name in old}
            write(variable, weight)
            for name, slot in slots.items():
                write(slot, new[name])

    def reset(self, step: int) -> None:
        """Sets the slots to zero, as they are before the first update; `step` is the last one that was made."""
        for slots in self.slots:
            for slot in slots.values():
                slot.assign(tf.zeros(slot.shape, slot.dtype))
        self.start = step


# Through the handle, as a mirrored variable's own methods would refuse to change one replica's copy.
def read(variable: tf.Variable) -> Any:
    """The value of this replica's copy."""
    return tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=variable.dtype)


def write(variable: tf.Variable, value: Any) -> None:
    """Changes this replica's copy."""
    tf.raw_ops.AssignVariableOp(resource=variable.handle, value=value)
