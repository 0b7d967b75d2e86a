"""CTranslate2 with our exports: its probabilities and its search equal ours, for every shape of model."""

import dataclasses
import functools
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import ctranslate2
import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import config, registry
from t2t_lite.cli import exporter
from t2t_lite.decoding.translate import Translator
from t2t_lite.errors import UsageError
from t2t_lite.export.ctranslate2_export import export_ctranslate2
from t2t_lite.export.ctranslate2_readme import engine_length_penalty
from t2t_lite.ids import EOS, PAD
from t2t_lite.importers.vocabularies import ByteVocabulary, SubwordVocabulary, TokenVocabulary
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.text.any_vocabulary import AnyVocabulary
from t2t_lite.text.vocabulary_training import train_vocabulary
from tests import reference
from tests.subword_files import PIECES as SUBWORDS
from tests.subword_files import file_of

LINES, PIECES, LONGEST = 30, 9, 15  # for the search: sources of 9 pieces, outputs of 15
SMALL = TransformerHParams(
    num_layers=1, d_model=16, d_ff=32, num_heads=2, beam_size=4, length_penalty=0.0, extra_length=LONGEST - PIECES - 1
)
VARIANTS: dict[str, dict[str, Any]] = {
    "as in the paper": {"num_layers": 2},
    "pre-norm, learned positions": {"norm": "pre", "positions": "learned", "max_positions": 12},  # fewer than pieces
    "d_k < d_v, three matrices": {"d_k": 4, "d_v": 12, "activation": "swish", "share_embeddings": False},
    "d_k > d_v, one head": {"d_k": 12, "d_v": 4, "activation": "gelu", "num_heads": 1},
    "tensor2tensor's": {
        "norm": "pre",
        "positions": "tensor2tensor",
        "source_vector": True,
        "num_decoder_layers": 2,
        "attention_biases": True,
    },
    "OpenNMT-tf's": {
        "norm": "pre",
        "positions": "opennmt",
        "norm_epsilon": 1e-3,
        "start_vector": True,
        "output_bias": True,
        "source_end": False,
    },
    "relative positions": {
        "positions": "none",
        "start_vector": True,
        "max_relative_position": 3,
        "source_vector": True,
        "attention_biases": True,
        "d_k": 4,
        "d_v": 12,
    },
    "subwords and bytes": {"share_embeddings": False},
    "tokens and subwords": {"share_embeddings": False},
}
_SUBWORDS = SubwordVocabulary(file_of(SUBWORDS))
# The end is "<EOS>_" in subwords, "<EOS>" in bytes and tokens; the token "<EOS>_" is an ordinary one.
KINDS: dict[str, tuple[AnyVocabulary, AnyVocabulary]] = {
    "subwords and bytes": (_SUBWORDS, ByteVocabulary()),
    "tokens and subwords": (TokenVocabulary(b"<pad>\n<EOS>\nUNK\n<EOS>_\nThe\n"), _SUBWORDS),
}
TWO_VOCABULARIES = {"d_k < d_v, three matrices", "d_k > d_v, one head", *KINDS}


class Text(NamedTuple):
    source: AnyVocabulary
    target: AnyVocabulary
    sources: list[str]
    targets: list[str]


@pytest.fixture(scope="module")
def text() -> Text:
    pairs = list(registry.problem("toy_ende", train_size=400).samples("train"))
    sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
    source, target = train_vocabulary(sources, size=200), train_vocabulary(targets, size=150)
    return Text(source, target, [*sources[: LINES - 1], "日本 <pad> </s>"], targets[:LINES])


@functools.cache
def _model(variant: str, hparams: config.HParams, source_size: int, target_size: int) -> Any:
    return Transformer.from_hparams(hparams, source_size, target_size, variant not in TWO_VOCABULARIES)


def _translator(text: Text, variant: str, seed: int = 3, scale: float = 2.0) -> Translator:
    """The model of a variant, made once, with random weights."""
    hparams = config.replace(SMALL, **VARIANTS[variant])
    target = text.target if variant in TWO_VOCABULARIES else text.source
    model = _model(variant, hparams, text.source.size, target.size)
    reference.randomise(model, seed, scale)
    return Translator(model, text.source, target, hparams)


def _engine(version: Path) -> Any:
    return ctranslate2.Translator(str(version), device="cpu", intra_threads=1)


@pytest.mark.commit
@pytest.mark.parametrize("variant", VARIANTS)
def test_it_computes_our_probabilities(text: Text, variant: str, tmp_path: Path) -> None:
    if variant in KINDS:  # without the last line: its "<pad>" is the padding in a vocabulary of tokens
        text = Text(*KINDS[variant], text.sources[:-1], text.targets[:-1])
    translator = _translator(text, variant)
    version = export_ctranslate2(translator, tmp_path, {}, precision="float32")
    sources = [text.source.encode(line) for line in text.sources]
    targets = [translator.target_vocabulary.encode(line) for line in text.targets]
    theirs = _engine(version).score_batch(_named(version, "source", sources), _named(version, "target", targets))
    rows = [tf.ragged.constant([[*ids, EOS] for ids in side]).to_tensor() for side in (sources, targets)]
    logits = np.array(translator.model(dict(zip(("source", "target"), rows, strict=True))), np.float64)
    logits[..., PAD] = -np.inf  # never an output
    ours = np.take_along_axis(reference.log_softmax(logits), rows[1].numpy()[..., None], -1)[..., 0]
    for found, wanted, ids in zip(theirs, ours, targets, strict=True):
        np.testing.assert_allclose(found.log_probs, wanted[: len(ids) + 1], atol=1e-4, rtol=0)
    assert np.std(ours[:, :PIECES]) > 0.3  # they differ widely


def _named(version: Path, side: str, rows: list[list[int]]) -> list[list[str]]:
    """The pieces of ids by the names that the engine knows."""
    file = version / f"{side}_vocabulary.json"
    names = json.loads((file if file.exists() else version / "shared_vocabulary.json").read_text(encoding="utf-8"))
    return [[names[i] for i in row] for row in rows]


@pytest.mark.commit
def test_it_finds_what_our_search_finds(text: Text, tmp_path: Path) -> None:
    translator = _translator(text, "d_k < d_v, three matrices", seed=5, scale=1.0)
    _be_sure_and_never_end(translator.model)
    engine = _engine(export_ctranslate2(translator, tmp_path, {}, precision="float32"))
    ids = [text.source.encode(line * 3)[:PIECES] for line in text.sources]
    for beam_size in (1, 4):
        translator.decode = dataclasses.replace(translator.decode, beam_size=beam_size)
        outputs, scores = translator.search(tf.constant([[*row, EOS] for row in ids]), True)
        ours = [translator.target_vocabulary.pieces(row) for row in outputs[:, 0].numpy()]
        theirs = engine.translate_batch(
            [text.source.pieces(row) for row in ids],
            beam_size=beam_size,
            length_penalty=0,
            max_decoding_length=LONGEST,
            return_scores=True,
        )
        assert [result.hypotheses[0] for result in theirs] == ours
        np.testing.assert_allclose([result.scores[0] for result in theirs], scores[:, 0], atol=1e-4)
        assert len({tuple(pieces) for pieces in ours}) > LINES / 2


@pytest.mark.commit
def test_a_greedy_search_with_a_repetition_penalty(text: Text, tmp_path: Path) -> None:
    translator = _translator(text, "d_k < d_v, three matrices", seed=5, scale=1.0)
    _be_sure_and_never_end(translator.model)
    hparams = dataclasses.replace(translator.decode, repetition_penalty=1.3)
    greedy, free, beam = (
        Translator(translator.model, text.source, text.target, config.replace(hparams, **changes))
        for changes in ({"beam_size": 1}, {"beam_size": 1, "repetition_penalty": 1.0}, {"beam_size": 4})
    )
    version = export_ctranslate2(greedy, tmp_path, {}, precision="float32")
    assert "        repetition_penalty=1.3,\n" in (version / "README.txt").read_text()
    ids = [text.source.encode(line * 3)[:PIECES] for line in text.sources]
    theirs = _engine(version).translate_batch(
        [text.source.pieces(row) for row in ids],
        beam_size=1,
        repetition_penalty=1.3,
        max_decoding_length=LONGEST,
    )
    rows = tf.constant([[*row, EOS] for row in ids])
    ours, others = (
        [text.target.pieces(row) for row in one.search(rows, True)[0][:, 0].numpy()] for one in (greedy, free)
    )
    assert [result.hypotheses[0] for result in theirs] == ours
    assert sum(map(list.__ne__, ours, others)) > LINES / 4
    with pytest.raises(UsageError, match="with repetition_penalty=1.3 and beam_size=4, log-probabilities. Export"):
        export_ctranslate2(beam, tmp_path, {}, precision="float32")


def _be_sure_and_never_end(model: Any) -> None:
    """Makes logits differ widely, as after training. The last norm's first feature becomes 1 and acts as a bias."""
    norm = model.decoder.blocks[-1].feed_forward_residual.layer_norm
    gamma, beta, table = (weight.value.numpy() for weight in (norm.gamma, norm.beta, model.softmax.table))
    gamma *= 20.0
    gamma[0], beta[0] = 0.0, 1.0
    table[:, 0] = 0.0
    table[[PAD, EOS], 0] = -40.0
    for weight, value in ((norm.gamma, gamma), (norm.beta, beta), (model.softmax.table, table)):
        weight.assign(value)


def test_a_version_has_all_it_takes(text: Text, tmp_path: Path) -> None:
    shared, separate = _translator(text, "as in the paper"), _translator(text, "d_k > d_v, one head")
    before = [weight.value.numpy() for weight in shared.model.weights]
    assert export_ctranslate2(shared, tmp_path, {"step": 7}, precision="float32") == tmp_path / "1"
    assert export_ctranslate2(separate, tmp_path, {}, precision="int8") == tmp_path / "2"
    always = {"model.bin", "config.json", "README.md", "README.txt", "model_card.json"}
    assert _names(tmp_path / "1") == always | {"shared_vocabulary.json", "vocabulary.model"}
    sides = ("source", "target")
    both = {f"{side}_vocabulary.json" for side in sides} | {f"vocabulary.{side}.model" for side in sides}
    assert _names(tmp_path / "2") == always | both
    words = " ".join((tmp_path / "1" / "README.txt").read_text().split())
    longest = SMALL.max_source_length + SMALL.extra_length
    assert f"max_decoding_length={longest}," in words
    assert f"here {longest} pieces for every input. t2t-lite stops {SMALL.extra_length} pieces after" in words
    card = json.loads((tmp_path / "1" / "model_card.json").read_text())
    assert card == {"format": 1, "step": 7, "ctranslate2": {"version": ctranslate2.__version__, "precision": "float32"}}
    assert _engine(tmp_path / "2").compute_type.startswith("int8")
    for weight, value in zip(shared.model.weights, before, strict=True):
        np.testing.assert_array_equal(weight.value, value)  # the export changed no weight


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_the_length_penalties_are_equally_steep() -> None:
    for alpha, length in ((0.6, 20), (1.2, 7)):
        ours = [alpha * np.log((5 + n) / 6) for n in (length - 0.01, length + 0.01)]
        theirs = [engine_length_penalty(alpha, length) * np.log(n) for n in (length - 0.01, length + 0.01)]
        assert np.diff(ours) == pytest.approx(np.diff(theirs), rel=1e-4)
    assert engine_length_penalty(0.0, 20) == 0.0


class Other(Transformer):
    """A user's own model, which may compute anything."""


def _refused(text: Text, folder: Path, changes: dict[str, Any]) -> str:
    hparams = config.replace(SMALL, **changes)
    model = Transformer.from_hparams(hparams, text.source.size, text.source.size, True)
    with pytest.raises(UsageError) as caught:
        export_ctranslate2(Translator(model, text.source, text.source, hparams), folder, {}, precision="int8")
    assert not folder.exists()
    return str(caught.value)


def test_a_setting_that_it_does_not_know_is_refused(text: Text, tmp_path: Path) -> None:
    for name, value in (
        ("attention_score", "dot"),
        ("attention_window", 5),
        ("ffn", "gated"),
        ("positions", "rotary"),
        ("norm", "deep"),
    ):
        assert _refused(text, tmp_path / "none", {name: value}) == (
            f"CTranslate2 cannot compute {name}={value}; export it with --format=saved_model."
        )
    both = _refused(text, tmp_path / "none", {"max_relative_position": 3})
    assert "leaves out positions=sinusoidal where a model has relative positions; export it" in both


def test_a_model_of_ones_own_is_refused(text: Text, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    translator = _translator(text, "d_k > d_v, one head")
    monkeypatch.setattr(translator.model, "__class__", Other)
    with pytest.raises(
        UsageError, match="CTranslate2 runs the model 'transformer', not Other; export it with --format=s"
    ):
        export_ctranslate2(translator, tmp_path / "none", {}, precision="float32")


def test_wrong_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name, file in (("saved", "saved_model.pb"), ("theirs", "model.bin")):
        (tmp_path / name / "3").mkdir(parents=True)
        (tmp_path / name / "3" / file).write_text("")
    cases = [
        (["--format=ctranslate2", "--precision=bfloat16"], "has --precision=float32 or int8, not bfloat16."),
        (["--format=ctranslate2", f"--export_dir={tmp_path}/saved"], "saved has versions with --format=saved_model;"),
        ([f"--export_dir={tmp_path}/theirs"], "theirs has versions with --format=ctranslate2; give another"),
    ]
    for flags, message in cases:
        assert exporter.main([f"--output_dir={tmp_path}", *flags]) == 2
        assert message in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "ctranslate2", None)  # as if it were not installed
    assert exporter.main([f"--output_dir={tmp_path}", "--format=ctranslate2"]) == 2
    assert "needs the package ctranslate2: pip install 't2t-lite[ctranslate2]'." in capsys.readouterr().err
