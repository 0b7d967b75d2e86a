"""IBM Model 1 against a loop over the paper's equations, and the shortlist that is made of it."""

import collections
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t2t_lite.data import word_model
from t2t_lite.data.shortlist import choose_pairs, make_shortlist
from t2t_lite.data.store import Store, Tokens, TokenSplit, copy_from, open_store
from t2t_lite.data.word_model import NONE, WordModel
from t2t_lite.errors import DataError
from t2t_lite.ids import EOS
from tests.data.test_shards import URL, local

__all__ = ["local"]  # a fixture
V = (14, 11)
Pair = tuple[list[int], list[int]]


def _pairs(number: int = 60) -> list[Pair]:
    """Pieces come several times in a side; targets depend on sources, so that the tables are not flat."""
    rng = np.random.default_rng(2)
    pairs = []
    for _ in range(number):
        source = rng.integers(2, V[0], rng.integers(1, 7)).tolist()
        words = [2 + piece % (V[1] - 2) for piece in source if rng.random() < 0.8]
        pairs.append((source, words + rng.integers(2, V[1], rng.integers(1, 3)).tolist()))
    return pairs


def _tokens(rows: list[list[int]], size: int) -> Tokens:
    ended = [[*row, EOS] for row in rows]
    offsets = np.cumsum([0, *map(len, ended)])
    return Tokens(np.concatenate(ended).astype(np.uint16), offsets, size, Path("train.ids"))


def _split(pairs: list[Pair]) -> TokenSplit:
    sources, targets = zip(*pairs, strict=True)
    return TokenSplit(_tokens(sources, V[0]), _tokens(targets, V[1]))


def _slow(pairs: list[Pair], iterations: int) -> dict[tuple[int, int], float]:
    """t(e | f) by (e, f): equations 13 to 17 of Brown et al. (1993), where the count of e and f in a pair is the sum
    over all places j of e and i of f, and place 0 of each source is "none".
    """
    table: dict[tuple[int, int], float] = collections.defaultdict(lambda: 1.0)
    for _ in range(iterations):
        counts: dict[tuple[int, int], float] = collections.defaultdict(float)
        for source, target in pairs:
            for e in target:
                total = sum(table[e, f] for f in [NONE, *source])
                for f in [NONE, *source]:
                    counts[e, f] += table[e, f] / total
        totals: dict[int, float] = collections.defaultdict(float)
        for (_, f), count in counts.items():
            totals[f] += count
        table = collections.defaultdict(float, {(e, f): count / totals[f] for (e, f), count in counts.items()})
    return table


@pytest.mark.parametrize("cells", [1, 100, 1 << 22])
@pytest.mark.parametrize("iterations", [1, 5])
def test_the_table_is_that_of_the_equations(monkeypatch: pytest.MonkeyPatch, iterations: int, cells: int) -> None:
    monkeypatch.setattr(word_model, "_CELLS", cells)
    pairs, chosen = _pairs(), np.arange(0, 60, 2)
    wanted, read = _slow(pairs[::2], iterations), []
    model = WordModel(_split(pairs), chosen, iterations, read.append)
    for e in range(V[1]):
        for f in range(V[0]):
            assert model.probability(e, f) == pytest.approx(wanted[e, f], abs=1e-12)
    assert sum(model.probability(e, 5) for e in range(V[1])) == pytest.approx(1)
    assert sum(read) == 30 * (1 + iterations)
    assert model.targets.tolist() == np.bincount(np.concatenate([t for _, t in pairs[::2]]), minlength=V[1]).tolist()


def test_the_best_are_the_likeliest() -> None:
    pairs = _pairs()
    table, best = _slow(pairs, 5), WordModel(_split(pairs), np.arange(60), 5).best(4)
    assert best.shape == (V[0], 4)
    for f in range(V[0]):
        likely = sorted((e for e in range(2, V[1]) if table[e, f] > 0), key=lambda e: (-round(table[e, f], 9), e))
        assert best[f].tolist() == ([*likely[:4], *[0] * 4][:4] if f > EOS else [0] * 4)


def test_a_damaged_id_is_an_error() -> None:
    split = _split(_pairs())
    broken = TokenSplit(split.source, _tokens([[V[1]]] * 60, V[1]))
    with pytest.raises(DataError, match=r"train\.ids is damaged: it holds the id 11, and the vocabulary has 11 pieces"):
        WordModel(broken, np.arange(60), 1)


@pytest.mark.parametrize(("number", "most", "wanted"), [(3, 5, [0, 1, 2]), (10, 4, [0, 2, 5, 7]), (4, 4, [0, 1, 2, 3])])
def test_pairs_are_evenly_spaced(number: int, most: int, wanted: list[int]) -> None:
    assert choose_pairs(number, most).tolist() == wanted


def test_a_shortlist_of_data_elsewhere_is_the_same(local: Store) -> None:
    there = copy_from(URL)
    assert there is not None
    made: list[Any] = []
    for store in (local, open_store(there)):
        made.append(make_shortlist(store, choose_pairs(300, 200), best=3, first=4))
    here, elsewhere = made
    size = local.source_vocabulary.size
    assert here.of_piece.shape == (size, 4)
    assert here.of_piece[:, 0].tolist() == [*range(size)]  # one vocabulary: each piece stands for itself
    assert np.array_equal(here.of_piece, elsewhere.of_piece)
    targets, _ = word_model._read(local.split("train").target, choose_pairs(300, 200))
    counts = np.bincount(targets, minlength=size)
    assert here.always.tolist() == sorted(range(size), key=lambda piece: (-counts[piece], piece))[:4]
    assert elsewhere.always.tolist() == here.always.tolist()
