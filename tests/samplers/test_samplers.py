"""Each sampler's distribution against NumPy in float64, and what is refused."""

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t2t_lite import registry
from t2t_lite.cli.flags import read_options
from t2t_lite.errors import UsageError
from t2t_lite.option_values import sampler_options
from t2t_lite.samplers.base import Sampler, make_sampler

LOGITS = np.float32(np.random.default_rng(1).normal(0, 2, (40, 17)))
LOGITS[0] = np.float32([3, 1, 2, 2, 2, 2, *[0] * 11])  # ties


def _distribution(name: str, **options: Any) -> np.ndarray:
    logits = np.float64(make_sampler(name, options)(LOGITS))
    return _softmax(logits)


def _softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def _kept(probabilities: np.ndarray, kept: list[list[int]]) -> np.ndarray:
    """Keeps only these symbols of each row, with the same ratios as before."""
    found = np.zeros_like(probabilities)
    for row, given, symbols in zip(found, probabilities, kept, strict=True):
        row[symbols] = given[symbols] / given[symbols].sum()
    return found


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_distributions(temperature: float) -> None:
    probabilities = _softmax(np.float64(LOGITS) / temperature)
    order = np.argsort(-probabilities, axis=-1, kind="stable")
    np.testing.assert_allclose(_distribution("random", temperature=temperature), probabilities, rtol=1e-5)
    for k in (1, 3, 99):
        wanted = _kept(probabilities, [list(row[:k]) for row in order])
        np.testing.assert_allclose(_distribution("top_k", top_k=k, temperature=temperature), wanted, rtol=1e-5)
    for p in (0.001, 0.6, 0.9, 1.0):
        kept = []
        for row, symbols in zip(probabilities, order, strict=True):
            number = 1
            while row[symbols[:number]].sum() < p - 1e-12 and number < len(symbols):
                number += 1
            kept.append(list(symbols[:number]))
        wanted = _kept(probabilities, kept)
        np.testing.assert_allclose(_distribution("nucleus", top_p=p, temperature=temperature), wanted, rtol=1e-5)
    assert len({len(symbols) for symbols in kept}) == 1  # with p = 1, all are kept


def test_the_sampler_of_the_page_on_contributing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--usr_dir finds it, it takes the options that its docstring names, and it draws as computed here."""
    page = (Path(__file__).resolve().parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    [code] = [code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "register_sampler" in code]
    (tmp_path / "sampler_of_the_page.py").write_text(code, encoding="utf-8")
    monkeypatch.setattr(sys, "path", list(sys.path))
    registry.load_plugins(str(tmp_path))
    [(name, options)] = re.findall(r"--sampler=(\w+) --sampler_options=(\S+)\.", code)
    given = read_options("--sampler_options", [f"{options},temperature=2"])
    assert sampler_options(name, given) == {"min_p": 0.1, "temperature": 2.0}
    for least in (0.1, 0.5, 1.0):
        probabilities = _softmax(np.float64(LOGITS) / 2)
        kept = [list(np.flatnonzero(row >= least * row.max() * (1 - 1e-6))) for row in probabilities]
        wanted = _kept(probabilities, kept)
        np.testing.assert_allclose(_distribution(name, min_p=least, temperature=2.0), wanted, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("nucleos", {}, "There is no sampler called 'nucleos'. Did you mean 'nucleus'?"),
        ("random", {"top_k": 3}, "The sampler 'random' has no option 'top_k'; it takes temperature."),
        ("random", {"temperature": 0.0}, "The sampler's option temperature=0 must be from 1e-30 to 1e30"),
        ("random", {"temperature": float("nan")}, "temperature=nan must be from"),
        ("random", {"temperature": "0.7"}, "The sampler's option temperature='0.7' must be a number."),
        ("random", {"temperature": 1e-38}, "temperature=1e-38 must be from"),
        ("top_k", {"top_k": float("inf")}, "top_k=inf must be a whole number"),
        ("top_k", {"top_k": None}, "top_k=None must be a number"),
        ("top_k", {"top_k": 0}, "top_k=0 must be a whole number of at least 1"),
        ("top_k", {"top_k": 1.5}, "top_k=1.5 must be a whole number"),
        ("nucleus", {"top_p": 1.1}, "top_p=1.1 must be above 0 and at most 1"),
        ("no_sampler", {}, "no_sampler' (builtins.dict) is no Sampler; derive it from t2t_lite.samplers.base.Sampler"),
        ("half_a_one", {}, "lacks restrict, which each sampler has; see t2t_lite.samplers.base."),
        ("wanting", {}, "needs the option 'floor'; give it a value, or in the class a default"),
    ],
)
def test_what_is_refused(name: str, options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class HalfAOne(Sampler): ...

    class Wanting(Sampler):
        def __init__(self, floor: float) -> None:
            super().__init__()

        def restrict(self, logits: Any) -> Any:
            return logits

    own = {"no_sampler": dict, "half_a_one": HalfAOne, "wanting": Wanting}
    monkeypatch.setattr(registry.SAMPLERS, "_things", {**registry.SAMPLERS._things, **own})
    with pytest.raises(UsageError) as error:
        make_sampler(name, options)
    assert message in str(error.value)


def test_a_whole_number_may_be_a_float() -> None:
    np.testing.assert_array_equal(_distribution("top_k", top_k=2.0), _distribution("top_k", top_k=2))


def test_a_sampler_with_any_options_gets_those_that_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    class Open(Sampler):
        def __init__(self, floor: float = 0.0, **options: Any) -> None:
            super().__init__()
            self.given = floor, options

        def restrict(self, logits: Any) -> Any:
            return logits

    monkeypatch.setattr(registry.SAMPLERS, "_things", {**registry.SAMPLERS._things, "open": Open})
    for options, given in (({}, (0.0, {})), ({"floor": 1.0, "other": "x"}, (1.0, {"other": "x"}))):
        sampler = make_sampler("open", options)
        assert isinstance(sampler, Open)
        assert sampler.given == given
