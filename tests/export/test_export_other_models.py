"""Every signature of exports of models other than the Transformer, run as the server runs them: the model's answers."""

import concurrent.futures
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t2t_lite import config, registry
from t2t_lite.decoding.score import score
from t2t_lite.decoding.translate import Translator
from t2t_lite.export.export import export
from t2t_lite.export.export_folder import SIGNATURES
from t2t_lite.export.saved_model import ServedModel
from t2t_lite.ids import EOS, PAD
from t2t_lite.insights.sentence import attend
from t2t_lite.runs.run_dir import make_model
from tests import reference
from tests.export.conftest import EXPORTED, Exported, decoded, run
from tests.serving.served_model import Version

pytestmark = pytest.mark.commit

K, WIDTH, EXTRA = 3, 24, 4
EXPERTS = "d_model=16,d_ff=16,num_experts=4,experts_per_token=2"
MODELS = {  # hparams set, and its sizes
    "vinyals": ("rnn_tiny", "num_layers=2,d_model=16,encoder=reversed,wiring=vinyals,share_embeddings=false"),
    "gnmt": ("rnn_tiny", "num_layers=3,d_model=16,encoder=gnmt,wiring=gnmt,attention_score=normed_additive"),
    "convs2s": ("convs2s_tiny", "encoder_layers=2x16x3,decoder_layers=16x3+12x2,d_model=16,d_out=16"),
    "bytenet": ("bytenet_tiny", "num_layers=3,d_model=8,dilations=2"),
    "moe": ("moe_tiny", f"{EXPERTS},cells=12"),
    "transformer_moe": ("transformer_moe_tiny", f"{EXPERTS},num_layers=2,num_heads=2"),
}


def _model(name: str, exported: Exported) -> tuple[Any, Any]:
    """A model with random weights, and its recipe."""
    hparams_set, sizes = MODELS[name]
    decoding = f"beam_size={K},max_source_length={WIDTH},extra_length={EXTRA},dropout=0"
    hparams = config.override(registry.hparams(hparams_set), f"{sizes},{decoding}")
    source, target = (vocabulary.size for vocabulary in exported.served.vocabularies)
    model: Any = make_model(registry.model_of(hparams_set), hparams, source, target, False)
    reference.randomise(model, 3, 2.0)
    return model, hparams


@pytest.mark.nightly
def test_the_rules_of_a_search_are_exported(exported: Exported, tmp_path: Path) -> None:
    hparams = config.replace(EXPORTED, no_repeat_ngram_size=2, min_length=4, repetition_penalty=1.5)
    translator = Translator(exported.translator.model, *exported.served.vocabularies, hparams)
    version = Version(export(ServedModel(translator, ("nbest",)), tmp_path, {"hparams": config.to_dict(hparams)}))
    wanted = [[one.text for one in row] for row in translator.translate(exported.lines, nbest=3)]
    assert decoded(run(version, "nbest", exported.lines)["outputs"]) == wanted
    assert wanted != [[one.text for one in row] for row in exported.translator.translate(exported.lines, nbest=3)]


@pytest.mark.nightly
@pytest.mark.parametrize("name", MODELS)
def test_every_signature_answers_as_the_model_does(exported: Exported, tmp_path: Path, name: str) -> None:
    source, target = exported.served.vocabularies
    model, hparams = _model(name, exported)
    translator = Translator(model, source, target, hparams)
    lacking = {"alignments", *([] if model.attention_kinds else ["attention"])}
    names = tuple(name for name in SIGNATURES if name not in lacking)
    version = Version(export(ServedModel(translator, names), tmp_path, {"hparams": config.to_dict(hparams)}))
    assert set(names) <= set(version.meta.signature_def)
    lines = [*exported.lines[:5], "", " ".join(exported.lines)]  # the last is cut
    best = _assert_searches(translator, version, lines)
    _assert_tokens(translator, version, lines, best)
    _assert_scores(translator, version, lines, [*decoded(best["outputs"])[:4], *exported.lines[:3]])
    if model.attention_kinds:
        _assert_attention(translator, version, [lines[1], "", lines[0]])
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        alone = list(pool.map(lambda line: run(version, "serving_default", [line]), lines))
    assert [decoded(answer["outputs"])[0] for answer in alone] == decoded(best["outputs"])


def _assert_searches(translator: Translator, version: Version, lines: list[str]) -> dict[str, np.ndarray]:
    """Asserts that serving_default and nbest are the translator's; returns what serving_default answers."""
    wanted = translator.translate(lines, nbest=K)
    best, nbest = (run(version, name, lines) for name in ("serving_default", "nbest"))
    assert decoded(nbest["outputs"]) == [[h.text for h in row] for row in wanted]
    np.testing.assert_allclose(nbest["scores"], [[h.score for h in row] for row in wanted], rtol=1e-4)
    first = [row[0] for row in translator.translate(lines)]
    assert decoded(best["outputs"]) == [h.text for h in first]
    np.testing.assert_allclose(best["scores"], [h.score for h in first], rtol=1e-4)
    assert len(set(decoded(best["outputs"]))) > 4  # or the comparison would say little
    return best


def _assert_tokens(translator: Translator, version: Version, lines: list[str], best: dict[str, np.ndarray]) -> None:
    rows = np.full((len(lines), WIDTH), PAD, np.int32)
    for row, line in zip(rows, lines, strict=True):
        ids = [*translator.source_vocabulary.encode(line)[: WIDTH - 1], EOS] if line else []
        row[: len(ids)] = ids
    answer = version.run("tokens", {"ids": rows}, 60)
    assert answer["ids"].shape == (len(lines), WIDTH + EXTRA)
    assert [translator.target_vocabulary.decode(ids.tolist()) for ids in answer["ids"]] == decoded(best["outputs"])
    np.testing.assert_allclose(answer["scores"], best["scores"], rtol=1e-4)


def _assert_scores(translator: Translator, version: Version, lines: list[str], targets: list[str]) -> None:
    answer, wanted = run(version, "score", lines, targets), score(translator, lines, targets)
    np.testing.assert_allclose(answer["log_probs"], [pair.log_prob for pair in wanted], rtol=1e-4)
    assert answer["tokens"].tolist() == [pair.tokens for pair in wanted]


def _assert_attention(translator: Translator, version: Version, lines: list[str]) -> None:
    answer, kinds = run(version, "attention", lines), translator.model.attention_kinds
    assert answer.keys() == {"outputs", "source_pieces", "target_pieces", *kinds}
    for row, line in enumerate(lines):
        if not line:
            assert not any(np.any(value[row]) for value in answer.values())
            continue
        [wanted] = attend(translator, [line])
        assert decoded(answer["outputs"])[row] == wanted.translations[0].text
        pieces = wanted.source, wanted.translations[0].target
        for side, those in zip(("source", "target"), pieces, strict=True):
            assert [piece for piece in decoded(answer[f"{side}_pieces"])[row] if piece] == those
        for kind, weights in wanted.maps().items():
            queries, keys = weights.shape[-2:]
            np.testing.assert_allclose(answer[kind][row][..., :queries, :keys], weights, atol=1e-4)
