"""A small model, as in a run and as an export."""

from pathlib import Path

import pytest
import tensorflow as tf

from t2t_lite import config
from t2t_lite.decoding.translate import Translator
from t2t_lite.export.export import write_card
from t2t_lite.export.saved_model import ServedModel
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.text.vocabulary_training import train_vocabulary
from tests import reference

HPARAMS = TransformerHParams(
    num_layers=1, d_model=16, d_ff=24, num_heads=2, d_k=8, d_v=8, beam_size=3, extra_length=4, max_source_length=150
)
LINES = ("a small dog sees the big cat", "<b>two</b> cats & a 🐕 run", "שלום עולם")
CARD = {
    "problem": {"name": "toy", "source_language": "en", "target_language": "de"},
    "parameters": 1_234_567,
    "hparams": config.to_dict(HPARAMS),
    "licence": "<i>none</i>",
    "scores": [],
}


@pytest.fixture(scope="session")
def translator() -> Translator:
    vocabulary = train_vocabulary(LINES * 3, size=100)
    model = Transformer.from_hparams(HPARAMS, vocabulary.size, vocabulary.size, True)
    reference.randomise(model, 1, scale=2)
    return Translator(model, vocabulary, vocabulary, HPARAMS)


@pytest.fixture(scope="session")
def export_base(translator: Translator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export as t2t-lite-exporter writes it, without the signatures that the page does not use."""
    base = tmp_path_factory.mktemp("export")
    model = ServedModel(translator, ("serving_default", "nbest", "attention"))
    tf.saved_model.save(model, str(base / "1"), signatures=model.signatures)
    translator.source_vocabulary.save(base / "1" / "assets" / "vocabulary.model")
    write_card(base / "1" / "assets", CARD)
    return base
