"""Sampler: which symbols may be drawn at a step of an output, and how likely each is."""

import abc
from numbers import Real
from typing import Any

import tensorflow as tf

from t2t_lite import registry
from t2t_lite.errors import UsageError, check_options


class Sampler(abc.ABC):
    """The distribution that symbols are drawn from.

    A subclass defines `restrict`. Its constructor takes the sampler's options, each with a default. It is registered
    with `registry.register_sampler`.

    Args:
        temperature: logits are divided by it; below 1 likely symbols become more likely.
    """

    def __init__(self, temperature: float = 1.0) -> None:
        is_right = 1e-30 <= temperature <= 1e30  # float32 holds logits that are divided by these
        check("temperature", temperature, is_right, "from 1e-30 to 1e30 (1 leaves probabilities as they are)")
        self.temperature = temperature

    @abc.abstractmethod
    def restrict(self, logits: Any) -> Any:
        """float32 [R, V], divided by the temperature -> float32 [R, V]; minus infinity for what is never drawn."""

    def __call__(self, logits: Any) -> Any:
        """The model's float32 logits [R, V] -> those of the distribution; a row must not depend on the others."""
        return self.restrict(logits / self.temperature)


def check(name: str, value: float, is_right: bool, allowed: str) -> None:
    """Raises UsageError, naming an option and its allowed values, unless the value is right."""
    if not is_right:
        raise UsageError(f"The sampler's option {name}={value:g} must be {allowed}.")


def keep_only(symbols: Any, values: Any, logits: Any) -> Any:
    """Returns float32 like `logits` [R, V]: `values` [R, C] at the ids `symbols` [R, C], minus infinity elsewhere."""
    rows = tf.range(tf.shape(symbols)[0])[:, None]
    places = tf.stack([tf.broadcast_to(rows, tf.shape(symbols)), symbols], 2)
    return tf.tensor_scatter_nd_update(tf.fill(tf.shape(logits), -float("inf")), places, values)


def make_sampler(name: str, options: dict[str, Any]) -> Sampler:
    """Makes a sampler by its name.

    Raises:
        UsageError: an unknown name, an unknown option, a value that is not allowed, an option without a value, or a
            class that is no Sampler or lacks `restrict`.
    """
    made: Any = registry.SAMPLERS.get(name)
    where = f"The sampler {name!r} ({made.__module__}.{made.__qualname__})"
    registry.check_class(where, made, Sampler)
    known, others = registry.options_of(made)
    if not others:
        check_options(f"The sampler {name!r}", options, known)
    for option, parameter in known.items():
        if parameter.default is parameter.empty and option not in options:
            raise UsageError(f"{where} needs the option {option!r}; give it a value, or in the class a default.")
        value = options.get(option, 0)
        if isinstance(parameter.default, (int, float)) and not isinstance(value, Real):
            raise UsageError(f"The sampler's option {option}={value!r} must be a number.")
    found: Sampler = made(**options)
    return found
