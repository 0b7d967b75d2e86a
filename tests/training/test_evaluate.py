"""Scores against NumPy; translations come in the order of the lines, with any batches and any odd lines."""

import dataclasses
import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from sacrebleu.metrics import TER

from t2t_lite import registry
from t2t_lite.data.prepare import prepare
from t2t_lite.data.store import Store
from t2t_lite.decoding import score
from t2t_lite.decoding.beam_search import beam_search
from t2t_lite.decoding.line_translator import Hypothesis
from t2t_lite.decoding.memory import TokenBudget
from t2t_lite.decoding.translate import Translator
from t2t_lite.errors import DataError, T2TError
from t2t_lite.groups import DecodeGroup
from t2t_lite.ids import EOS
from t2t_lite.metrics import names
from t2t_lite.metrics.bracketing import Bracketing
from t2t_lite.metrics.metric import Metric
from t2t_lite.metrics.score import Score
from t2t_lite.ops import threads
from t2t_lite.runs.ranking import SCORES, DevScore, past_scores
from t2t_lite.training import evaluate
from t2t_lite.training.evaluate import Evaluator

HPARAMS = DecodeGroup(beam_size=3, extra_length=4, max_source_length=40, decode_batch_tokens=60)


@pytest.fixture(scope="module")
def model(make_model: Callable[..., Any], toy_store: Store) -> Any:
    """Not trained, but with weights far enough from 0 that its outputs depend on its inputs."""
    model = make_model(toy_store.source_vocabulary.size)
    random = np.random.default_rng(4)
    for weight in model.weights:
        if "layer_norm" not in weight.path:
            weight.assign(weight.value.numpy() + random.normal(scale=0.4, size=weight.shape))
    return model


@pytest.fixture(scope="module")
def translator(model: Any, toy_store: Store) -> Translator:
    return Translator(model, toy_store.source_vocabulary, toy_store.target_vocabulary, HPARAMS)


@pytest.fixture(scope="module")
def lines(toy_store: Store) -> list[str]:
    return toy_store.text("dev")[0][:12]


@pytest.fixture(scope="module")
def translations(translator: Translator, lines: list[str]) -> list[list[Hypothesis]]:
    """The 3 best of each of `lines`."""
    return translator.translate(lines, nbest=3)


def _texts(results: list[list[Hypothesis]]) -> list[str]:
    return [hypotheses[0].text for hypotheses in results]


@pytest.mark.nightly
def test_loss_and_accuracy_are_means_over_the_target_tokens_of_all_pairs(
    model: Any, translator: Translator, toy_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    split = toy_store.split("dev")
    total = tokens = right = 0.0
    for source, target in zip(split.source, split.target, strict=True):  # one pair at a time, no padding
        batch = {"source": source[None].astype(np.int32), "target": target[None].astype(np.int32)}
        logits = np.asarray(model(batch))[0].astype(np.float64)
        logp = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        total -= logp[np.arange(len(target)), target].sum()
        right += (logits.argmax(1) == target).sum()
        tokens += len(target)
    evaluator = Evaluator(model, toy_store, translator, names.metric("bleu"))
    assert len(split) == 40
    assert 0 < right < tokens
    assert evaluator.loss_and_accuracy("dev") == pytest.approx((total / tokens, right / tokens), rel=1e-5)
    # The result does not depend on how the pairs are cut into batches.
    monkeypatch.setattr(evaluate, "_BATCH_TOKENS", 70)
    assert evaluator.loss_and_accuracy("dev") == pytest.approx((total / tokens, right / tokens), rel=1e-5)


@pytest.mark.nightly
def test_a_line_of_a_megabyte_is_left_out_of_the_dev_loss_and_cut_for_the_score(
    make_model: Callable[..., Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    words = [f"{a}{b}" for a in "bdfgk" for b in "aeiou"]
    sentences = [" ".join(np.random.default_rng(i).choice(words, 8)) for i in range(120)]
    short = sentences[:20]
    long = [*short, " ".join(sentences * 200)]  # attention over all of it: 100 GB a head
    stores = {}
    for name, dev in (("short", short), ("long", long)):
        folder = tmp_path / name
        folder.mkdir()
        for side in ("en", "de"):
            (folder / f"train.{side}").write_text("\n".join(sentences) + "\n", encoding="utf-8")
            (folder / f"dev.{side}").write_text("\n".join(dev) + "\n", encoding="utf-8")
        problem = registry.problem("text2text", source_dir=str(folder), languages="en-de", vocab_size=60)
        stores[name] = prepare(problem, folder / "data")
    assert stores["long"].split("dev").target.lengths.max() > 100_000
    vocabulary = stores["long"].source_vocabulary
    model = make_model(vocabulary.size)
    translator = Translator(model, vocabulary, vocabulary, HPARAMS)
    scores = Evaluator(model, stores["long"], translator, names.metric("bleu"))("dev")
    short = Evaluator(model, stores["short"], translator, names.metric("bleu")).loss_and_accuracy("dev")
    assert (scores.loss, scores.accuracy) == pytest.approx(short, rel=1e-6)
    assert len(scores.hypotheses) == 21
    assert [record.getMessage() for record in caplog.records if record.name.startswith("t2t_lite")] == [
        "1 of 21 inputs are longer than max_source_length=40 pieces; only their beginning is translated.",
        "1 of 21 pairs of dev are longer than 1,024 pieces; its loss is that of the others.",
    ]


@pytest.mark.nightly
def test_data_prepared_again_meanwhile_leave_a_models_scores_as_they_were(
    make_model: Callable[..., Any], tmp_path: Path
) -> None:
    def made(vocab_size: int, dev_size: int) -> Store:
        problem = registry.problem("toy_ende", train_size=120)
        problem.dev_size, problem.test_size, problem.vocab_size = dev_size, 4, vocab_size
        return prepare(problem, tmp_path, num_workers=1, again=True)

    store = made(300, 6)
    model = make_model(store.source_vocabulary.size)
    translator = Translator(model, store.source_vocabulary, store.target_vocabulary, HPARAMS)
    one, other = (Evaluator(model, store, translator, names.metric("bleu")) for _ in range(2))
    before = one("dev")
    assert made(250, 5).folder == store.folder
    assert dataclasses.asdict(other("dev")) == dataclasses.asdict(before)
    assert len(other("test").hypotheses) == 4  # opened when the evaluator was made, like dev


def test_where_all_pairs_are_too_long_there_is_no_loss(
    model: Any, translator: Translator, toy_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate, "_LONGEST", 1)
    with pytest.raises(DataError, match="^40 of 40 pairs of dev are longer than 1 pieces: there is none"):
        Evaluator(model, toy_store, translator, names.metric("bleu")).loss_and_accuracy("dev")


@pytest.mark.commit
def test_the_score_is_that_of_the_translations_of_the_whole_split(
    model: Any, translator: Translator, toy_store: Store
) -> None:
    sources, references = toy_store.text("test")
    scores = Evaluator(model, toy_store, translator, names.metric("chrf"))("test")
    assert len(sources) == 20
    assert scores.hypotheses == _texts(translator.translate(sources))
    assert scores.score == names.metric("chrf").score(scores.hypotheses, references)
    assert scores.perplexity == pytest.approx(np.exp(scores.loss))
    assert scores.as_metrics("test") == {
        "test_loss": scores.loss,
        "test_perplexity": scores.perplexity,
        "test_accuracy": scores.accuracy,
        "test_chrf": scores.score.value,
    }


@pytest.mark.commit
def test_a_score_of_another_counter_is_found_again_by_a_run_that_goes_on(
    model: Any, translator: Translator, toy_store: Store, tmp_path: Path
) -> None:
    class FewEdits(Metric):
        def score(self, hypotheses: Sequence[str], *references: Sequence[str]) -> Score:
            found = super().score(hypotheses, *references)
            return dataclasses.replace(found, value=-found.value)

    metrics = Evaluator(model, toy_store, translator, FewEdits(TER()))("dev", 2).as_metrics("dev")
    (tmp_path / "metrics.jsonl").write_text(json.dumps({"step": 3, **metrics}) + "\n", "utf-8")
    assert past_scores(tmp_path) == {3: DevScore(metrics["dev_score"], metrics["dev_loss"])}


@pytest.mark.parametrize(
    ("metric", "kind"),
    [
        *((names.metric(name), "bleu") for name in ("bleu", "bleu_lc", "bleu_tok_lc")),
        *((names.metric(name), "chrf") for name in ("chrf", "chrf2")),
        (names.metric("accuracy"), "accuracy_per_sequence"),
        (names.metric("bleu_paper", "de"), "bleu_paper"),
        (Bracketing(), "f1"),
    ],
)
def test_metrics_jsonl_calls_scores_by_their_metric(metric: Any, kind: str) -> None:
    assert metric.kind == kind
    assert f"dev_{kind}".startswith(SCORES)  # a run that goes on finds it again


def test_n_lines_in_are_n_lines_out_in_their_order(
    translator: Translator, lines: list[str], translations: list[list[Hypothesis]]
) -> None:
    assert len(translations) == len(lines)
    assert len({len(line) for line in lines}) > 5  # so that sorting by length does change the order
    assert len(set(_texts(translations))) > len(lines) / 2  # and an error in it would show
    for i in (0, 3, 11):
        assert translator.translate([lines[i]])[0][0].text == translations[i][0].text
    backwards = translator.translate(lines[::-1])
    assert _texts(backwards) == _texts(translations)[::-1]
    assert translator.translate([]) == []


def test_empty_lines_stay_in_their_places(translator: Translator, lines: list[str]) -> None:
    odd = ["", lines[0], " ", "\t\u3000\u2028", lines[1], ""]
    done: list[tuple[int, float]] = []
    results = translator.translate(odd, nbest=2, progress=lambda number, weight: done.append((number, weight)))
    assert [len(hypotheses) for hypotheses in results] == [2] * 6
    for i in (0, 2, 3, 5):
        assert results[i] == [Hypothesis("", 0.0)] * 2
    assert [results[i][0].text for i in (1, 4)] == _texts(translator.translate(lines[:2]))
    assert sum(number for number, _ in done) == 6
    assert sum(weight for _, weight in done) == pytest.approx(6)
    assert translator.translate(["", " "]) == [[Hypothesis("", 0.0)]] * 2


@pytest.mark.commit
def test_the_size_of_a_batch_does_not_change_the_results(
    model: Any, toy_store: Store, lines: list[str], translations: list[list[Hypothesis]]
) -> None:
    vocabulary = toy_store.source_vocabulary
    longest = max(len(ids) + 1 for ids in vocabulary.encode_many(lines))
    assert HPARAMS.decode_batch_tokens < 4 * longest  # `translations` were made with a few lines at a time
    batches: list[int] = []
    together = Translator(model, vocabulary, vocabulary, dataclasses.replace(HPARAMS, decode_batch_tokens=10_000))
    results = together.translate(lines, nbest=3, progress=lambda number, _: batches.append(number))
    assert batches == [len(lines)]
    for before, now in zip(translations, results, strict=True):
        assert [h.text for h in now] == [h.text for h in before]
        np.testing.assert_allclose([h.score for h in now], [h.score for h in before], rtol=1e-4)


@pytest.mark.nightly
def test_batches_that_are_under_way_together_share_tokens_and_lines(
    model: Any, toy_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    vocabulary, lines = toy_store.source_vocabulary, toy_store.text("dev")[0]
    whole = Translator(model, vocabulary, vocabulary, dataclasses.replace(HPARAMS, decode_batch_tokens=10_000))
    cut = Translator(model, vocabulary, vocabulary, dataclasses.replace(HPARAMS, decode_batch_tokens=600))
    wanted = _texts(whole.translate(lines))
    assert len(set(wanted)) > len(lines) / 2
    alone = _sizes(cut, lines)
    monkeypatch.setattr(threads, "num_parallel", lambda: 2)
    assert _texts(whole.translate(lines)) == wanted
    assert _sizes(whole, lines) == [20, 20]
    assert _sizes(whole, lines[:3]) == [2, 1]
    assert _sizes(cut, lines)[0] == alone[0] // 2
    evaluator = Evaluator(model, toy_store, whole, names.metric("bleu"))
    together = evaluator.loss_and_accuracy("dev")
    monkeypatch.setattr(threads, "num_parallel", lambda: 1)
    assert together == pytest.approx(evaluator.loss_and_accuracy("dev"), rel=1e-6)


def _sizes(translator: Translator, lines: list[str]) -> list[int]:
    batches: list[int] = []
    translator.translate(lines, progress=lambda number, _: batches.append(number))
    return batches


def test_where_memory_runs_out_the_batch_and_the_settings_are_named(
    model: Any, toy_store: Store, translator: Translator, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_out(*_: Any) -> None:
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor with shape[9,9]")

    monkeypatch.setattr(translator.search_graph, "_plain", run_out)
    monkeypatch.setattr(translator, "_budget", TokenBudget(60))
    monkeypatch.setattr(score, "piece_log_probs", run_out)
    message = (
        r"^The device ran out of memory with 1 sentence of up to \d+ pieces, 3 outputs of each\. "
        r"Lower decode_batch_tokens \(now 60\), beam_size or nbest, or max_source_length\.$"
    )
    with pytest.raises(T2TError, match=message):
        translator.translate(["", *lines])
    message = r"memory with 1 pair of up to \d+ pieces a side\. Lower max_source_length \(now 40\), or cut the lines "
    with pytest.raises(T2TError, match=message):
        score.score(translator, lines, lines)
    evaluator = Evaluator(model, toy_store, translator, names.metric("bleu"))
    monkeypatch.setattr(evaluator, "_sums", run_out)
    with pytest.raises(T2TError, match=r"memory with the loss of \d+ pairs of up to \d+ pieces a side\. In a training"):
        evaluator.loss_and_accuracy("dev")


def test_nbest_are_different_and_sorted_by_score(
    translator: Translator, lines: list[str], translations: list[list[Hypothesis]]
) -> None:
    for hypotheses in translations:
        scores = [h.score for h in hypotheses]
        assert len(hypotheses) == 3
        assert scores == sorted(scores, reverse=True)
        assert scores[0] > scores[2]
        assert all(-np.inf < score < 0 for score in scores)
    # The best hypothesis is the same, however many are asked for.
    assert _texts(translator.translate(lines)) == _texts(translations)


@pytest.mark.commit
def test_an_input_that_is_too_long_is_cut_and_counted_in_a_warning(
    model: Any, translator: Translator, toy_store: Store, lines: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    vocabulary = toy_store.source_vocabulary
    long = " ".join(lines)
    assert len(vocabulary.encode(long)) > 2 * HPARAMS.max_source_length
    with caplog.at_level(logging.WARNING, logger="t2t_lite"):
        translator.translate(lines[:3])
        assert not [record for record in caplog.records if record.name.startswith("t2t_lite")]
        results = translator.translate([lines[0], long, lines[1]])
    assert [record.getMessage() for record in caplog.records if record.name.startswith("t2t_lite")] == [
        "1 of 3 inputs are longer than max_source_length=40 pieces; only their beginning is translated."
    ]
    # The first 39 pieces and the end symbol are what the model sees.
    kept = [*vocabulary.encode(long)[:39], EOS]
    ids, scores = beam_search(model, np.array([kept], np.int32), beam_size=3, alpha=0.6, extra_length=4)
    assert results[1][0].text == vocabulary.decode(ids.numpy()[0, 0].tolist())
    assert results[1][0].score == pytest.approx(float(scores[0, 0]), rel=1e-5)
    assert [results[i][0].text for i in (0, 2)] == _texts(translator.translate(lines[:2]))
