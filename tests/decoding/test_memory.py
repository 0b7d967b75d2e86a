"""Where a device has too little memory, less is computed at once, with the same results."""

import logging
from collections.abc import Sequence

import pytest
import tensorflow as tf

from t2t_lite.decoding.memory import TIMES_ON_GPUS, TokenBudget
from t2t_lite.errors import T2TError

ROWS = [3, 1, 4, 1, 5, 9, 2, 6, 5]
LENGTH = 10


def _what(number: int) -> str:
    return f"{number} rows"


def _squares(tried: list[int], most: int, rows: Sequence[int]) -> list[int]:
    tried.append(len(rows))
    if len(rows) > most:
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor with shape[9,9]")
    return [row**2 for row in rows]


def _spent(budget: TokenBudget, most: int) -> tuple[list[int], list[int]]:
    """The results with memory for `most` rows, and how many rows were tried at once."""
    tried: list[int] = []
    results = budget.spend(
        lambda rows: _squares(tried, most, rows), ROWS, size=lambda n: n * LENGTH, what=_what, advice="Sell."
    )
    return results, tried


def test_half_as_many_until_they_fit(caplog: pytest.LogCaptureFixture) -> None:
    budget = TokenBudget(1000)
    assert _spent(budget, 9) == ([row**2 for row in ROWS], [9])
    assert (budget.given, budget.tokens) == (1000, 1000)
    assert not caplog.messages
    assert _spent(budget, 3) == ([row**2 for row in ROWS], [9, 5, 3, 2, 4, 2, 2])
    assert (budget.given, budget.tokens) == (1000, 20)  # half of four rows, which were the fewest that did not fit
    ran_out = "The device ran out of memory with {} rows; computing half as many at once."
    assert caplog.messages == [ran_out.format(number) for number in (9, 5, 4)]


def test_a_single_row_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(T2TError, match=r"^The device ran out of memory with 1 rows\. Sell\.$"):
        _spent(TokenBudget(1000), 0)


def test_other_errors_are_not_tried_again() -> None:
    def failing(rows: Sequence[int]) -> list[int]:
        raise tf.errors.InternalError(None, None, "no")

    with pytest.raises(tf.errors.InternalError):
        TokenBudget(1000).spend(failing, ROWS, size=len, what=_what, advice="")  # type: ignore[arg-type]


def test_gpus_take_more_at_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [kind])
    budget = TokenBudget(1000)
    assert (budget.given, budget.tokens) == (1000, 1000 * TIMES_ON_GPUS)
    caplog.set_level(logging.CRITICAL)
    _spent(budget, 8)
    assert budget.tokens == 9 * LENGTH // 2
