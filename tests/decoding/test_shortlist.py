"""Search with a shortlist: against the search without one, and against a plain NumPy search with masked logits."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import config
from t2t_lite.decoding.beam_search import beam_search, fewest_candidates
from t2t_lite.decoding.translate import Translator
from t2t_lite.errors import UsageError
from t2t_lite.groups import DecodeGroup
from t2t_lite.models.ensemble import Ensemble
from t2t_lite.models.transformer import Transformer
from t2t_lite.ops.int8 import expand, int8_matrices, quantize
from t2t_lite.text.shortlist import Shortlist
from t2t_lite.text.vocabulary_training import train_vocabulary
from tests import families, reference
from tests.decoding.test_beam_search import SOURCES, TINY, V, _Searches
from tests.searches import EOS, EXTRA, PAD, hypotheses, without_padding

ALL = np.tile(np.arange(V, dtype=np.int32), (len(SOURCES), 1))
WIDE = config.replace(TINY, d_model=64, d_ff=64)


def _lists(beam: int, never: tuple[int, ...] = (PAD,)) -> np.ndarray:
    """Candidates of each source: seven to twelve, of which each has others."""
    rng = np.random.default_rng(7)
    rows = [np.union1d([PAD, EOS], rng.choice(np.arange(2, V), 5 + at % 6, replace=False)) for at in range(9)]
    array = np.full((9, max(12, fewest_candidates(beam, never))), -1, np.int32)
    for row, pieces in zip(array, rows, strict=True):
        row[: len(pieces)] = pieces
    return array


def _search(model: Any, beam: int, **options: Any) -> Any:
    how: dict[str, Any] = {"beam_size": beam, "alpha": 0.6, "extra_length": EXTRA, "early_stop": False, **options}

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)] * 2, autograph=False)
    def search(source: Any, candidates: Any) -> Any:
        return beam_search(model, source, candidates=candidates, **how)

    return lambda source, candidates: tuple(found.numpy() for found in search(source, candidates))


def _without(model: Any, beam: int, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    how: dict[str, Any] = {"beam_size": beam, "alpha": 0.6, "extra_length": EXTRA, "early_stop": False, **options}
    search = tf.function(lambda source: beam_search(model, source, **how), autograph=False)
    ids, scores = search(tf.constant(SOURCES))
    return ids.numpy(), scores.numpy()


class _Among(_Searches):
    """The plain search, in which the probability of all but the candidates is zero."""

    lists: np.ndarray

    def logits(self, source: tuple[int, ...], prefixes: list[tuple[int, ...]]) -> np.ndarray:
        logits = super().logits(source, prefixes).copy()
        [row] = [at for at, ids in enumerate(SOURCES) if without_padding(ids) == source]
        logits[:, np.setdiff1d(np.arange(V), self.lists[row])] = -np.inf
        return logits


@pytest.fixture(scope="module")
def searches() -> _Among:
    return _Among()


@pytest.mark.commit("4")
@pytest.mark.parametrize("beam", [1, 4, 7])
def test_with_all_pieces_it_is_the_search_without(searches: _Among, beam: int) -> None:
    ids, scores = _search(searches.model, beam)(SOURCES, ALL)
    wanted, values = _without(searches.model, beam)
    np.testing.assert_array_equal(ids, wanted)
    np.testing.assert_allclose(scores, values, rtol=0, atol=1e-5)


@pytest.mark.commit("False-4")
@pytest.mark.parametrize("beam", [1, 4, 7])
@pytest.mark.parametrize("early", [True, False])
def test_fast_equals_slow(searches: _Among, early: bool, beam: int) -> None:
    searches.lists = _lists(beam)
    ids, scores = _search(searches.model, beam, early_stop=early)(SOURCES, searches.lists)
    for source, pieces, got, values in zip(SOURCES, searches.lists, ids, scores, strict=True):
        wanted = searches.slow(without_padding(source), beam, 0.6, early)
        assert hypotheses(got)[: len(wanted)] == [output for output, _ in wanted]
        np.testing.assert_allclose(values[: len(wanted)], [score for _, score in wanted], rtol=0, atol=1e-4)
        assert {*got.ravel().tolist()} <= {*pieces.tolist()}


@pytest.mark.nightly
def test_a_piece_that_no_output_has_is_none_of_a_shortlist(searches: _Among) -> None:
    lists = _lists(4, (PAD, 2))
    frequent = int(np.bincount(_search(searches.model, 4)(SOURCES, lists)[0].ravel())[2:].argmax()) + 2
    ids, _ = _search(searches.model, 4, never=(PAD, frequent))(SOURCES, lists)
    assert not (ids == frequent).any()


@pytest.mark.commit("float32")
@pytest.mark.parametrize("kind", ["float32", "bfloat16", "int8", "expanded"])
def test_no_sentence_depends_on_its_neighbours(kind: str, request: pytest.FixtureRequest) -> None:
    search = _search(_model(kind, request), 4)
    lists = _lists(4)
    ids, scores = search(SOURCES, lists)
    for row, source in enumerate(SOURCES):
        length = np.count_nonzero(source)
        width = max(np.count_nonzero(lists[row] >= 0), fewest_candidates(4, (PAD,)))
        alone, values = search(source[None, :length], lists[row][None, :width])
        np.testing.assert_array_equal(alone[0], ids[row, :, : alone.shape[2]])
        # Numbers of eight bits are rounded the other way where a sum's last bit differs.
        np.testing.assert_allclose(values[0], scores[row], rtol=5e-3 if kind == "bfloat16" else 1e-5)


def _model(kind: str, request: pytest.FixtureRequest) -> Transformer:
    if kind == "int8":
        request.getfixturevalue("int8_machine")
    hparams = config.replace(WIDE, precision="bfloat16") if kind == "bfloat16" else WIDE
    model = Transformer.from_hparams(hparams, V, V, True)
    reference.randomise(model, 3, 2.0)
    if kind in ("int8", "expanded"):
        quantize(model)
    if kind == "expanded":
        expand(int8_matrices(model).values())
    return model


@pytest.mark.nightly
@pytest.mark.parametrize("prepack", [False, True])
@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("kind", ["bfloat16", "int8", "expanded"])
def test_other_precisions(kind: str, beam: int, prepack: bool, request: pytest.FixtureRequest) -> None:
    model = _model(kind, request)
    ids, scores = _search(model, beam, prepack=prepack)(SOURCES, ALL)
    wanted, values = _without(model, beam, prepack=prepack)
    if kind == "bfloat16":  # whose logits are rounded to eight bits: equal ones may be taken in another order
        np.testing.assert_allclose(scores[:, 0], values[:, 0], rtol=0.05)
        assert np.mean(ids[:, 0] == wanted[:, 0]) > 0.8
    else:
        np.testing.assert_array_equal(ids, wanted)
        np.testing.assert_allclose(scores, values, rtol=1e-5)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["transformer/opennmt", "rnn/general", "rnn/vinyals", "bytenet/paper", "moe/plain"])
def test_other_models(name: str) -> None:
    family = name.partition("/")[0]
    model = families.build(family, families.VARIANTS[name], (V, V))
    for beam in (1, 4):
        ids, scores = _search(model, beam)(SOURCES, ALL)
        wanted, values = _without(model, beam)
        np.testing.assert_array_equal(ids, wanted)
        np.testing.assert_allclose(scores, values, rtol=0, atol=1e-5)


@pytest.mark.nightly
@pytest.mark.parametrize("beam", [1, 4])
def test_an_ensemble_has_one_list(searches: _Among, beam: int) -> None:
    models = [searches.model, families.build("rnn", families.VARIANTS["rnn/general"], (V, V))]
    ids, scores = _search(Ensemble(models), beam)(SOURCES, ALL)
    wanted, values = _without(Ensemble(models), beam)
    np.testing.assert_array_equal(ids, wanted)
    np.testing.assert_allclose(scores, values, rtol=0, atol=1e-5)
    lists = _lists(beam)
    twice, of_one = _search(Ensemble([searches.model] * 2), beam), _search(searches.model, beam)
    for found, one in zip(twice(SOURCES, lists), of_one(SOURCES, lists), strict=True):
        np.testing.assert_allclose(found, one, rtol=1e-5)


class _OwnLogits(Transformer):
    def logits(self, hidden: Any) -> Any:
        return super().logits(hidden) * 1.0


class _OwnStep(Transformer):
    def start(self, memory: Any, beam_size: int, steps: Any) -> tuple[Any, Any, Any]:
        fixed, state, step = super().start(memory, beam_size, steps)

        def whole(ids: Any, index: Any, fixed: Any, state: Any) -> tuple[Any, Any]:
            return tf.zeros([tf.shape(ids)[0], beam_size, V]), step(ids, index, fixed, state)[1]

        return fixed, state, whole


def test_a_model_with_a_softmax_layer_of_its_own_is_refused() -> None:
    with pytest.raises(UsageError, match="shortlist is not for a _OwnStep, which has a softmax layer of its own"):
        _search(_OwnStep(TINY, V, V, True), 2)(SOURCES, ALL)
    vocabulary = train_vocabulary(["a b c d e f g"] * 2, size=14)
    nothing = Shortlist(np.zeros((14, 1), np.int32), np.array([3], np.int32))
    for model in (_OwnLogits(TINY, 14, 14, True), families.build("convs2s", families.TINY["convs2s"], (14, 14))):
        translator = Translator(model, vocabulary, vocabulary, DecodeGroup())
        with pytest.raises(UsageError, match=f"shortlist is not for a {type(model).__name__}, which has a softmax"):
            translator.shorten(nothing)


@pytest.fixture(scope="module")
def translator() -> Translator:
    vocabulary = train_vocabulary(["a b c d e f g ab cd ef"] * 2, size=20)
    model = Transformer.from_hparams(config.replace(TINY, guided_alignment=0.1), 20, 20, True)
    reference.randomise(model, 4, 2.0)
    return Translator(model, vocabulary, vocabulary, DecodeGroup(beam_size=3, coverage_penalty=0.2))


def _shortlist(size: int) -> Shortlist:
    rng = np.random.default_rng(1)
    return Shortlist(rng.integers(3, size, (size, 2)).astype(np.int32), np.array([4], np.int32), "abc")


@pytest.mark.commit
def test_a_translator_writes_pieces_of_the_list_alone_and_scores_them(translator: Translator) -> None:
    lines = ["a b", "", "ab cd e f g", "c"]
    without = translator.translate(lines, nbest=3)
    shortened = Translator(
        translator.model, translator.source_vocabulary, translator.target_vocabulary, translator.decode
    )
    shortlist = _shortlist(20)
    shortened.shorten(shortlist)
    found = shortened.translate(lines, nbest=3)
    for line, hypotheses_of_line in zip(lines, found, strict=True):
        [ids], _, _ = shortened.encode([line])
        allowed = set(shortlist.candidates([ids or [EOS]], 1)[0].tolist())
        assert all({*hypothesis.ids} <= allowed for hypothesis in hypotheses_of_line)
    assert [[h.ids for h in row] for row in found] != [[h.ids for h in row] for row in without]
    assert translator.translate(lines, nbest=3) == without
    shortened.start_aligning()
    aligned = shortened.translate(lines, nbest=3)
    assert [[h.ids for h in row] for row in aligned] == [[h.ids for h in row] for row in found]
    assert all(len(h.alignment.target) == len(h.ids) for row in aligned for h in row if h.alignment)
    assert shortened.settings == {**translator.settings, "shortlist": "abc"}
    for name, given in (("prefixes", ["a"] * 4), ("constraints", [["a"]] * 4)):
        with pytest.raises(UsageError, match=f"shortlist does not go with {name}. Leave one of them out"):
            shortened.translate(lines, **{name: given})


@pytest.mark.parametrize(
    ("changes", "other"),
    [
        ({"beam_groups": 2, "beam_size": 4}, "beam_groups"),
        ({"no_repeat_ngram_size": 3}, "no_repeat_ngram_size"),
        ({"min_length": 2}, "min_length"),
        ({"repetition_penalty": 1.2}, "repetition_penalty"),
    ],
)
def test_other_searches_are_refused(translator: Translator, changes: dict[str, Any], other: str) -> None:
    vocabularies = translator.source_vocabulary, translator.target_vocabulary
    special = Translator(translator.model, *vocabularies, DecodeGroup(**changes))
    with pytest.raises(UsageError, match=f"shortlist does not go with {other}. Leave one of them out."):
        special.shorten(_shortlist(20))
    banned = Translator(translator.model, *vocabularies, DecodeGroup())
    banned.ban(["a"])
    with pytest.raises(UsageError, match="shortlist does not go with banned_words. Leave one of them out."):
        banned.shorten(_shortlist(20))
    compiled = Translator(translator.model, *vocabularies, DecodeGroup(), jit=True)
    with pytest.raises(UsageError, match="shortlist does not go with XLA, which compiles searches on GPUs. Leave one"):
        compiled.shorten(_shortlist(20))
