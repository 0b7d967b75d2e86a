"""Doubles against a plain set, in memory and on disk."""

from pathlib import Path

import numpy as np
import pytest

from t2t_lite.data import doubles


@pytest.mark.parametrize("in_memory", [10**6, 500])
def test_all_but_the_first_of_equal_hashes_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: int
) -> None:
    monkeypatch.setattr(doubles, "_IN_MEMORY", in_memory)
    random = np.random.default_rng(1)
    # Hashes of 64 bits, most of which come several times, some within a call; numbers have gaps.
    hashes = random.integers(0, 2**64, 700, np.uint64)[random.integers(0, 700, 5000)]
    numbers = np.cumsum(random.integers(1, 4, len(hashes)))
    found = doubles.Doubles(tmp_path)
    for start in range(0, len(hashes), 300):
        found.add(hashes[start : start + 300], numbers[start : start + 300])
    assert bool(found._files) == (in_memory == 500)
    seen: set[int] = set()
    wanted = []
    for value, number in zip(hashes.tolist(), numbers.tolist(), strict=True):
        if value in seen:
            wanted.append(number)
        seen.add(value)
    assert sorted(found.later().tolist()) == wanted
    assert list(tmp_path.iterdir()) == []


def test_without_hashes_there_are_no_doubles() -> None:
    found = doubles.Doubles()
    found.add(np.zeros(0, np.uint64), np.zeros(0, np.int64))
    assert found.later().tolist() == []
