"""Words of the source for unknown pieces: against words chosen by hand, and by a model that writes unknown pieces."""

import re

import numpy as np
import pytest

from t2t_lite import config
from t2t_lite.decoding.replace_unknown import UnknownReplacer
from t2t_lite.decoding.translate import Translator
from t2t_lite.errors import UsageError
from t2t_lite.ids import EOS, UNK
from t2t_lite.importers.vocabularies import ByteVocabulary
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.text.vocabulary_training import train_vocabulary
from tests import reference

TEXT = ["ein Hund sieht die Katze", "die Katze schläft in der Stadt", ">>x<< der Hund"] * 3
HPARAMS = TransformerHParams(
    num_layers=2, d_model=16, d_ff=32, num_heads=2, beam_size=3, extra_length=4, output_bias=True, length_penalty=0.0
)
LINES = ["ein Hund sieht Łódź", "", "die Katze schläft, in Łódź"]


def _attends(target: list[int], at: dict[int, int], width: int) -> np.ndarray:
    """Attention of each target piece to one source piece: the last one, unless `at` says another."""
    weights = np.full((len(target), width), 0.1, "float32")
    for t in range(len(target)):
        weights[t, at.get(t, width - 1)] = 0.9
    return weights


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char", "word"])
def test_a_word_with_an_unknown_piece_is_the_word_that_it_attends_to(kind: str) -> None:
    vocabulary = train_vocabulary(TEXT, size=60 if kind != "word" else 16, kind=kind)
    line = "der Hund in Łódź, schläft"
    source = [*vocabulary.encode(line), EOS]
    # The word Łódź, has one piece that begins a word, or is one unknown piece.
    at = source.index(UNK)
    for text, wanted in (
        ("die Łódź sieht", "die Łódź, sieht"),
        ("Łódź die Łódź", "Łódź, die Łódź,"),
        ("die Katze", None),
    ):
        target = [*vocabulary.encode(text), EOS]
        assert (UNK in target) == (wanted is not None)
        weights = _attends(target, {t: at for t, i in enumerate(target) if i == UNK}, len(source))
        assert UnknownReplacer(vocabulary, vocabulary).replace(line, source, target, weights) == (wanted or text)
    target = [*vocabulary.encode("Łódź"), EOS]
    cut = [*source[: at + 1], EOS]  # within a word, whose other pieces are not there
    for place, wanted in ((0, "der"), (at, "Łódź,")):
        weights = _attends(target, dict.fromkeys(range(len(target)), place), len(cut))
        assert UnknownReplacer(vocabulary, vocabulary).replace(line, cut, target, weights) == wanted


def test_neither_label_nor_end_stand_for_a_word() -> None:
    vocabulary = train_vocabulary(TEXT, size=60, labels=[">>x<<"])
    line = ">>x<< Hund Łódź"
    [ids] = vocabulary.encode_source([line])
    source, target = [*ids, EOS], [*vocabulary.encode("Ł"), EOS]
    weights = np.full((len(target), len(source)), 0.0, "float32")
    weights[:, 0], weights[:, -1], weights[:, 1] = 0.5, 0.4, 0.1
    assert UnknownReplacer(vocabulary, vocabulary).replace(line, source, target, weights) == "Hund"


@pytest.mark.nightly
def test_a_model_that_writes_unknown_pieces() -> None:
    vocabulary = train_vocabulary(TEXT, size=60)
    model = Transformer.from_hparams(HPARAMS, vocabulary.size, vocabulary.size, True)
    reference.randomise(model, 6)
    model.output_bias.assign(np.where(np.arange(vocabulary.size) == UNK, 3.0, 0.0))
    made = [Translator(model, vocabulary, vocabulary, HPARAMS.decode) for _ in range(2)]
    made[1].start_replacing()
    plain, replaced = (translator.translate(LINES, nbest=3) for translator in made)
    assert any(UNK in one.ids for row in plain for one in row)
    replacer = UnknownReplacer(vocabulary, vocabulary)
    for line, before, after in zip(LINES, plain, replaced, strict=True):
        assert [one.score for one in before] == [one.score for one in after]
        for one, other in zip(before, after, strict=True):
            assert one.ids == other.ids
            if UNK not in one.ids:
                assert other.text == one.text
                continue
            source = [*vocabulary.encode(line), EOS]
            maps = model.attention_maps({"source": np.array([source]), "target": np.array([one.ids])})
            attention = np.array(maps["memory"])[0, -1].mean(0)  # the last layer's, over heads
            assert other.text == replacer.replace(line, source, list(one.ids), attention)
            assert "\u2047" in one.text
            assert "\u2047" not in other.text
            assert set(re.findall(r"\S*[Łź]\S*", other.text)) <= {"Łódź"}


def test_where_it_has_no_effect_a_warning_tells(caplog: pytest.LogCaptureFixture) -> None:
    for vocabulary, changes, why in (
        (ByteVocabulary(), {}, "the target vocabulary has no unknown piece"),
        (train_vocabulary(TEXT, size=60), {"unknown_output": False}, "with unknown_output=false, no output has"),
    ):
        caplog.clear()
        hparams = config.replace(HPARAMS, num_layers=1, **changes)
        model = Transformer.from_hparams(hparams, vocabulary.size, vocabulary.size, True)
        Translator(model, vocabulary, vocabulary, hparams.decode).start_replacing()
        [message] = caplog.messages
        assert message.startswith(f"replace_unk has no effect: {why}")


def test_a_model_without_attention_cannot() -> None:
    from tests.decoding.test_beam_search import _bytenet

    vocabulary = train_vocabulary(TEXT, size=30)
    with pytest.raises(UsageError, match="replace_unk needs the decoder's attention to the source, which the model By"):
        Translator(_bytenet(), vocabulary, vocabulary, HPARAMS.decode).start_replacing()
