"""Made-up problems: their splits, their size, and that they never change."""

import itertools
import os
import subprocess
import sys

import pytest

from t2t_lite import registry
from t2t_lite.errors import UsageError
from t2t_lite.problem import SPLITS, Problem
from t2t_lite.problems.toy import ToyEnde, ToyReverse, ende, split_of
from t2t_lite.text import vocabulary_training

SIZES = {"toy_ende": (20_000, 200, 500), "toy_parsing": (20_000, 200, 500), "toy_reverse": (10_000, 200, 200)}
# sha256 of the first 5,000 pairs of train, and of dev and test: if the data change, every published toy score changes.
# The German and the trees were checked against tables that were independent of the grammars when they were made.
DIGESTS = {
    "toy_ende": "41c251eee75feba16dae05a3f6b0ffe5f013a9bdd6f57ca967df1e7ee7faaea1",
    "toy_parsing": "e4d032027bdf654da431d4b89fad9cbc1313e4a7dfa232754eca698b2f2c308e",
    "toy_reverse": "a91edf069f27f5cf7aa91a2177c84791d2eb064b8c21e9ecf557e75c55ca59a3",
}
DIGEST_CODE = """
import hashlib
from t2t_lite import registry
for name in ("toy_ende", "toy_parsing", "toy_reverse"):
    problem = registry.problem(name, train_size=5000)
    pairs = [pair for split in ("train", "dev", "test") for pair in problem.samples(split)]
    print(name, hashlib.sha256("".join(f"{s}\\t{t}\\n" for s, t in pairs).encode()).hexdigest())
"""


@pytest.fixture(scope="module", params=sorted(SIZES))
def problem(request: pytest.FixtureRequest) -> Problem:
    return registry.problem(request.param)


@pytest.mark.commit("toy_ende")
def test_sizes_and_disjoint_sources(problem: Problem) -> None:
    sources = {split: [source for source, _ in problem.samples(split)] for split in problem.splits()}
    assert tuple(len(sources[split]) for split in SPLITS) == SIZES[problem.name]
    everything = [source for split in SPLITS for source in sources[split]]
    assert len(set(everything)) == len(everything)
    assert all(split_of(source) == split for split in SPLITS for source in sources[split])


def test_the_same_pairs_at_each_call_and_for_each_size(problem: Problem) -> None:
    first = list(itertools.islice(problem.samples("train"), 300))
    assert list(itertools.islice(problem.samples("train"), 300)) == first
    small = registry.problem(problem.name, train_size=100)
    assert list(small.samples("train")) == first[:100]
    assert list(small.samples("dev")) == list(problem.samples("dev"))
    assert small.options() == {"train_size": 100}
    assert small.settings() != problem.settings()


@pytest.mark.commit
@pytest.mark.parametrize("seed", ["1", "2"])
def test_the_same_pairs_in_each_process(seed: str) -> None:
    """Python's own hash() differs from process to process; nothing may depend on it."""
    environment = os.environ | {"PYTHONHASHSEED": seed}
    done = subprocess.run(
        [sys.executable, "-c", DIGEST_CODE], env=environment, capture_output=True, text=True, check=True
    )
    assert dict(line.split() for line in done.stdout.strip().split("\n")) == DIGESTS


def test_a_train_size_that_cannot_be() -> None:
    with pytest.raises(UsageError, match="toy_ende: train_size=0 must be at least 1"):
        registry.problem("toy_ende", train_size=0)


def test_each_symbol_of_toy_reverse_is_one_piece() -> None:
    problem = ToyReverse()
    text = (line for pair in problem.samples("train") for line in pair)
    trained = vocabulary_training.train_vocabulary(text, size=problem.vocab_size, seed=1)
    assert trained.size == problem.vocab_size
    assert len(trained.encode(" ".join(problem.symbols))) == len(problem.symbols) == 30
    for source, target in ToyReverse(500).samples("train"):
        assert target.split() == source.split()[::-1]
        assert 4 <= len(source.split()) <= 12


def test_toy_ende_sentences_are_short_and_whole() -> None:
    for source, target in ToyEnde(3000).samples("train"):
        for side in (source, target):
            assert 4 <= len(side.split()) <= 16
            assert side[0].isupper()
            assert side[-1] in ".?"
            assert side == " ".join(side.split())
        assert source[-1] == target[-1]


@pytest.mark.commit
def test_toy_ende_translation_is_a_function_of_the_source() -> None:
    translations: dict[str, str] = {}
    for source, target in itertools.islice(ende.pairs("a function"), 60_000):
        assert translations.setdefault(source, target) == target
    assert len(translations) > 55_000
