"""toy_ende and toy_reverse: their splits, their size, and that they never change. test_toy_german tests the German."""

import hashlib
import itertools
import os
import subprocess
import sys
from collections import Counter

import pytest

from t2t_lite import registry
from t2t_lite.errors import UsageError
from t2t_lite.problem import SPLITS, Problem
from t2t_lite.problems.toy import ToyEnde, ToyReverse, ende, split_of
from t2t_lite.problems.toy.ende_grammar import NounPhrase
from t2t_lite.text import vocabulary_training

SIZES = {"toy_ende": (20_000, 200, 500), "toy_reverse": (10_000, 200, 200)}
# sha256 of the first 200 pairs of each split: if the data change, every published toy score changes.
DIGESTS = {
    "toy_ende": "56946d87993f459e4eae8b3439d5b7012f8c200a021cb4e90f0016a7cf56841b",
    "toy_reverse": "ccfb9d7fe48675d4ac8f0fe3cf04a206bb1333ab0860d207c0527b3ef9fe3265",
}
DIGEST_CODE = """
import hashlib, sys
from t2t_lite import registry
pairs = [p for split in ("train", "dev", "test") for p in registry.problem(sys.argv[1], train_size=200).samples(split)]
print(hashlib.sha256("".join(f"{s}\\t{t}\\n" for s, t in pairs).encode()).hexdigest())
"""


@pytest.fixture(scope="module", params=sorted(SIZES))
def problem(request: pytest.FixtureRequest) -> Problem:
    return registry.problem(request.param)


@pytest.mark.commit
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


@pytest.mark.commit
@pytest.mark.parametrize("name", sorted(SIZES))
def test_the_same_pairs_in_each_process(name: str) -> None:
    """Python's own hash() differs from process to process; nothing may depend on it."""
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", DIGEST_CODE, name]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == DIGESTS[name]


def test_options_make_the_problem_again(problem: Problem) -> None:
    small = registry.problem(problem.name, train_size=7)
    assert small.options() == {"train_size": 7}
    assert len(list(registry.problem(problem.name, **small.options()).samples("train"))) == 7
    assert small.settings() != problem.settings()


def test_a_train_size_that_cannot_be() -> None:
    with pytest.raises(UsageError, match="toy_ende: train_size=0 must be at least 1"):
        registry.problem("toy_ende", train_size=0)


@pytest.mark.parametrize("name", sorted(SIZES))
def test_help_shows_both_and_their_recipe_exists(name: str) -> None:
    assert any(line.split()[:1] == [name] and len(line.split()) > 3 for line in registry.help_text().split("\n"))
    assert registry.hparams(registry.problem(name).default_hparams).d_model == 128


def test_the_vocabulary_can_be_trained_at_its_size(problem: Problem) -> None:
    pairs = list(registry.problem(problem.name, train_size=4000).samples("train"))
    trained = vocabulary_training.train_vocabulary(
        (line for pair in pairs for line in pair),
        size=problem.vocab_size,
        kind=problem.vocab_type,
        character_coverage=problem.character_coverage,
        seed=1,
    )
    assert trained.size == problem.vocab_size
    line = pairs[0][1]
    assert trained.decode(trained.encode(line)) == line


def test_each_symbol_of_toy_reverse_is_one_piece() -> None:
    problem = ToyReverse()
    trained = vocabulary_training.train_vocabulary(
        (line for pair in problem.samples("train") for line in pair),
        size=problem.vocab_size,
        kind="bpe",
        character_coverage=1.0,
        seed=1,
    )
    line = " ".join(problem.symbols)
    assert len(trained.encode(line)) == len(problem.symbols) == 30


def test_toy_reverse_is_reversed() -> None:
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


def test_toy_ende_has_more_than_a_million_pairs() -> None:
    """Counts one pattern only: a noun phrase of a person, one of four verbs, another such noun phrase, full stop.

    The generator draws the two phrases and the verb independently, so it can make every combination of the parts that
    it draws. No word of a noun phrase is also a verb form, so no two combinations read alike.
    """
    draw = ende.Sentences("count")
    phrases = {draw.noun_phrase("person") for _ in range(5_000)}
    texts = {phrase.to_english(subject=True) for phrase in phrases}
    assert len(texts) == len(phrases)
    clauses = [draw.clause(short=True) for _ in range(10_000)]
    verbs = {c.verb for c in clauses if isinstance(c.object, NounPhrase) and c.object.noun.english == "woman"}
    verbs = {verb for verb in verbs if verb.english in ("call", "visit", "invite", "ask")}
    assert len(verbs) == 4
    assert not {v for verb in verbs for v in (verb.english, verb.english_third)} & set(" ".join(texts).split())
    # "The man calls the man" is not drawn: pairs that share a noun are subtracted.
    nouns = Counter(phrase.noun for phrase in phrases)
    two = len(phrases) ** 2 - sum(n**2 for n in nouns.values())
    assert two * len(verbs) > 1_000_000


def test_split_of_is_fixed() -> None:
    """The rule is zlib's crc32; the expected splits were computed once."""
    lines = ["The man sleeps here.", "She never sleeps.", "You are here."]
    assert [split_of(line) for line in lines] == ["train", "dev", "test"]
    shares = [split_of(hashlib.sha256(str(n).encode()).hexdigest()) for n in range(5000)]
    assert 0.77 < shares.count("train") / 5000 < 0.83
