"""The contract of a model: errors name what breaks it, and optional members have defaults."""

from typing import Any

import numpy as np
import pytest

from t2t_lite.errors import UsageError
from t2t_lite.models.base import Cost, Model, check_model
from t2t_lite.models.rnn import Rnn
from t2t_lite.models.transformer import Transformer


class _Whole(Model):
    """Has all members that a model must have."""

    @classmethod
    def from_hparams(cls, hparams: Any, source_vocab_size: int, target_vocab_size: int, shared: bool) -> "_Whole":
        return cls()

    @property
    def cost(self) -> Cost:
        raise NotImplementedError

    def encode(self, batch: Any, seed: Any = None) -> Any: ...
    def hidden(self, batch: Any, seed: Any = None) -> Any: ...
    def output(self) -> Any: ...
    def start(self, memory: Any, beam_size: int, steps: Any) -> Any: ...


class _Lacking(Model):
    def encode(self, batch: Any) -> Any: ...
    def hidden(self, batch: Any, seed: Any = None) -> Any: ...


class _Swapped(_Whole):
    def reorder(self, parents: Any, state: Any) -> Any: ...


@pytest.mark.parametrize("model", [Transformer, Rnn, _Whole])
def test_who_keeps_it_passes(model: type) -> None:
    check_model("name", model)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (dict, r"The model 'mine' \(<class 'dict'>\) does not derive from t2t_lite.models.base.Model, which says what"),
        (lambda: None, "does not derive from t2t_lite.models.base.Model"),
        (
            _Lacking,
            r"'mine' \(_Lacking\) does not keep the contract of t2t_lite.models.base.Model: it has no cost, "
            r"from_hparams, output, start; encode takes \(batch\), not \(batch, seed\)\.$",
        ),
        (_Swapped, r"Model: reorder takes \(parents, state\), not \(state, parents\)\.$"),
    ],
)
def test_each_fault_is_named(model: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_model("mine", model)


def test_by_default_the_rows_of_hypotheses_are_gathered_and_all_else_stays() -> None:
    draw = np.random.default_rng(1)
    state = {"h": draw.standard_normal((3, 4, 5)), "ids": draw.integers(0, 9, (3, 4)), "step": np.int32(7)}
    parents = draw.integers(0, 4, (3, 4)).astype("int32")
    found = _Whole().reorder(state, parents)
    for name in ("h", "ids"):
        wanted = np.stack([state[name][b, parents[b]] for b in range(3)])
        np.testing.assert_array_equal(np.asarray(found[name]), wanted.astype(np.asarray(found[name]).dtype))
    assert found["step"] == 7
    assert not bool(_Whole().is_full(state))
    assert _Whole().renewed(state, 3) is state
