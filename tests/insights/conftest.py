"""A small model with very unequal weights, and sentences that would break a careless page."""

import pytest

from t2t_lite.decoding.translate import Translator
from t2t_lite.insights.sentence import Sentence, attend
from t2t_lite.models.rnn import Rnn
from t2t_lite.models.rnn_hparams import RnnHParams
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.text.vocabulary_training import train_vocabulary
from tests import reference

HPARAMS = TransformerHParams(num_layers=2, d_model=16, d_ff=24, num_heads=3, d_k=6, d_v=6, beam_size=3, extra_length=4)
LINES = (
    "He said \"</script><b>hi</b><!-- & 'bye'\" $x$ ${y}",
    "A 🐕‍🦺 and שלום עולם on one line",
    "\u202eturned\u2028 around",
)


@pytest.fixture(scope="session")
def translator() -> Translator:
    vocabulary = train_vocabulary(LINES * 3, size=120)
    model = Transformer.from_hparams(HPARAMS, vocabulary.size, vocabulary.size, True)
    reference.randomise(model, 1, scale=2)
    return Translator(model, vocabulary, vocabulary, HPARAMS)


@pytest.fixture(scope="session")
def rnn_sentence(translator: Translator) -> Sentence:
    """A line through a model that only has attention to the source."""
    vocabulary = translator.source_vocabulary
    hparams = RnnHParams(num_layers=1, d_model=16, dropout=0.0, beam_size=3, extra_length=4)
    model = Rnn.from_hparams(hparams, vocabulary.size, vocabulary.size, True)
    reference.randomise(model, 1, scale=2)
    return attend(Translator(model, vocabulary, vocabulary, hparams), LINES[:1])[0]


@pytest.fixture(scope="session")
def sentences(translator: Translator) -> list[Sentence]:
    return attend(translator, LINES)


@pytest.fixture(params=range(len(LINES)), ids=["markup", "emoji_and_hebrew", "controls"])
def sentence(sentences: list[Sentence], request: pytest.FixtureRequest) -> Sentence:
    return sentences[request.param]


@pytest.fixture(scope="session")
def plain(translator: Translator) -> Sentence:
    """A line with a given translation, so that both sides are long enough to test."""
    return attend(translator, LINES[:1], LINES[1])[0]
