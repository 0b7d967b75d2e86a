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
from t2t_lite.models.ensemble import Ensemble
from t2t_lite.runs.run_dir import make_model
from tests import reference
from tests.export.conftest import Exported
from tests.serving.served_model import Version

pytestmark = pytest.mark.commit

K, WIDTH, EXTRA = 3, 24, 4
EXPERTS = "d_model=16,d_ff=16,num_experts=4,experts_per_token=2"
MODELS = {  # hparams set, and its sizes
    "top": ("rnn_tiny", "num_layers=2,d_model=16,wiring=top"),
    "attention_wrapper": ("rnn_tiny", "num_layers=2,d_model=16,encoder=bi,wiring=attention_wrapper"),
    "vinyals": ("rnn_tiny", "num_layers=2,d_model=16,encoder=reversed,wiring=vinyals,share_embeddings=false"),
    "gnmt": ("rnn_tiny", "num_layers=3,d_model=16,encoder=gnmt,wiring=gnmt,attention_score=normed_additive"),
    "gnmt_v2": ("rnn_tiny", "num_layers=3,d_model=16,encoder=gnmt,wiring=gnmt_v2,attention_score=additive"),
    "convs2s": ("convs2s_tiny", "encoder_layers=2x16x3,decoder_layers=16x3+12x2,d_model=16,d_out=16"),
    "bytenet": ("bytenet_tiny", "num_layers=3,d_model=8,dilations=2"),
    "bytenet_tensor2tensor": ("bytenet_tiny", "num_layers=2,d_model=8,dilations=2,wiring=tensor2tensor"),
    "moe": ("moe_tiny", f"{EXPERTS},cells=12"),
    "transformer_moe": ("transformer_moe_tiny", f"{EXPERTS},num_layers=2,num_heads=2"),
}
ENSEMBLE = ("convs2s", "transformer_moe")


def _model(name: str, exported: Exported) -> tuple[Any, Any]:
    """A model with random weights, and its recipe."""
    hparams_set, sizes = MODELS[name]
    decoding = f"beam_size={K},max_source_length={WIDTH},extra_length={EXTRA},dropout=0"
    hparams = config.override(registry.hparams(hparams_set), f"{sizes},{decoding}")
    source, target = (vocabulary.size for vocabulary in exported.served.vocabularies)
    model: Any = make_model(registry.model_of(hparams_set), hparams, source, target, False)
    reference.randomise(model, 3, 2.0)
    return model, hparams


def _texts(values: Any) -> Any:
    return [_texts(v) if isinstance(v, np.ndarray) else v.decode() for v in values]


def _run(version: Version, signature: str, **inputs: list[str]) -> dict[str, np.ndarray]:
    return version.run(signature, {k: np.array([t.encode() for t in v], object) for k, v in inputs.items()}, 60)


@pytest.mark.nightly
@pytest.mark.parametrize("name", [*MODELS, "ensemble"])
def test_every_signature_answers_as_the_model_does(exported: Exported, tmp_path: Path, name: str) -> None:
    source, target = exported.served.vocabularies
    made = [_model(member, exported) for member in (ENSEMBLE if name == "ensemble" else [name])]
    model = Ensemble([model for model, _ in made]) if name == "ensemble" else made[0][0]
    translator = Translator.from_hparams(model, source, target, made[0][1])
    names = SIGNATURES if model.attention_kinds else SIGNATURES[:-1]
    version = Version(export(ServedModel(translator, names), tmp_path, {"hparams": config.to_dict(made[0][1])}))
    assert set(names) <= set(version.meta.signature_def)
    lines = [*exported.lines[:5], "", " ".join(exported.lines)]  # the last is cut
    best = _assert_searches(translator, version, lines)
    _assert_tokens(translator, version, lines, best)
    _assert_scores(translator, version, lines, [*_texts(best["outputs"])[:4], *exported.lines[:3]])
    if model.attention_kinds:
        _assert_attention(translator, version, [lines[1], "", lines[0]])
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        alone = list(pool.map(lambda line: _run(version, "serving_default", inputs=[line]), lines))
    assert [_texts(answer["outputs"])[0] for answer in alone] == _texts(best["outputs"])


def _assert_searches(translator: Translator, version: Version, lines: list[str]) -> dict[str, np.ndarray]:
    """Asserts that serving_default and nbest are the translator's; returns what serving_default answers."""
    wanted = translator.translate(lines, nbest=K)
    best, nbest = (_run(version, name, inputs=lines) for name in ("serving_default", "nbest"))
    assert _texts(nbest["outputs"]) == [[h.text for h in row] for row in wanted]
    np.testing.assert_allclose(nbest["scores"], [[h.score for h in row] for row in wanted], rtol=1e-4)
    first = [row[0] for row in translator.translate(lines)]
    assert _texts(best["outputs"]) == [h.text for h in first]
    np.testing.assert_allclose(best["scores"], [h.score for h in first], rtol=1e-4)
    assert len(set(_texts(best["outputs"]))) > 4  # or the comparison would say little
    return best


def _assert_tokens(translator: Translator, version: Version, lines: list[str], best: dict[str, np.ndarray]) -> None:
    rows = np.full((len(lines), WIDTH), PAD, np.int32)
    for row, line in zip(rows, lines, strict=True):
        ids = [*translator.source_vocabulary.encode(line)[: WIDTH - 1], EOS] if line else []
        row[: len(ids)] = ids
    answer = version.run("tokens", {"ids": rows}, 60)
    assert answer["ids"].shape == (len(lines), WIDTH + EXTRA)
    assert [translator.target_vocabulary.decode(ids.tolist()) for ids in answer["ids"]] == _texts(best["outputs"])
    np.testing.assert_allclose(answer["scores"], best["scores"], rtol=1e-4)


def _assert_scores(translator: Translator, version: Version, lines: list[str], targets: list[str]) -> None:
    answer, wanted = _run(version, "score", inputs=lines, targets=targets), score(translator, lines, targets)
    np.testing.assert_allclose(answer["log_probs"], [pair.log_prob for pair in wanted], rtol=1e-4)
    assert answer["tokens"].tolist() == [pair.tokens for pair in wanted]


def _assert_attention(translator: Translator, version: Version, lines: list[str]) -> None:
    answer, kinds = _run(version, "attention", inputs=lines), translator.model.attention_kinds
    assert answer.keys() == {"outputs", "source_pieces", "target_pieces", *kinds}
    for row, line in enumerate(lines):
        if not line:
            assert not any(np.any(value[row]) for value in answer.values())
            continue
        [wanted] = attend(translator, [line])
        assert _texts(answer["outputs"])[row] == wanted.translations[0].text
        pieces = wanted.source, wanted.translations[0].target
        for side, those in zip(("source", "target"), pieces, strict=True):
            assert [piece for piece in _texts(answer[f"{side}_pieces"])[row] if piece] == those
        for kind, weights in wanted.maps().items():
            queries, keys = weights.shape[-2:]
            np.testing.assert_allclose(answer[kind][row][..., :queries, :keys], weights, atol=1e-4)
