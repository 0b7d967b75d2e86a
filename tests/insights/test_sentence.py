"""The page and the pictures show what the model computes."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from t2t_lite import config
from t2t_lite.decoding.translate import Translator
from t2t_lite.errors import UsageError
from t2t_lite.ids import EOS
from t2t_lite.importers.vocabularies import ImportedVocabulary, OpenNmtVocabulary, SubwordVocabulary, TokenVocabulary
from t2t_lite.insights.picture import attention_figure
from t2t_lite.insights.sentence import MAX_PIECES, Sentence, attend
from t2t_lite.models.transformer import Transformer
from tests.insights.conftest import HPARAMS
from tests.subword_files import PIECES, file_of

LINE = "A line and one said hi"


def test_weights_and_translations_are_the_models(translator: Translator, sentence: Sentence) -> None:
    vocabulary = translator.source_vocabulary
    source = [*vocabulary.encode(sentence.text), EOS]
    assert sentence.source == vocabulary.pieces(source)
    hypotheses = translator.translate([sentence.text], nbest=3)[0]
    assert [t.text for t in sentence.translations] == [h.text for h in hypotheses]
    np.testing.assert_allclose([t.score for t in sentence.translations], [h.score for h in hypotheses], rtol=1e-5)
    outputs, _ = translator.search_graph(np.array([source], np.int32), False, tokens=len(source))
    for translation, row in zip(sentence.translations, outputs[0], strict=True):
        ids = row[row != 0]
        assert translation.target == vocabulary.pieces(ids)
        alone = translator.model.attention_maps({"source": np.array([source]), "target": ids[None]})
        np.testing.assert_allclose(sentence.encoder, alone["encoder"][0], atol=1e-5)
        np.testing.assert_allclose(translation.decoder, alone["decoder"][0], atol=1e-5)
        np.testing.assert_allclose(translation.memory, alone["memory"][0], atol=1e-5)


def test_a_given_translation_is_taken_as_it_is(translator: Translator) -> None:
    ((translation,),) = (sentence.translations for sentence in attend(translator, [LINE], "hi and bye"))
    assert (translation.text, translation.score) == ("hi and bye", None)
    vocabulary = translator.target_vocabulary
    assert translation.target == [*vocabulary.pieces(vocabulary.encode("hi and bye")), "</s>"]
    assert translation.memory.shape == (2, 3, len(translation.target), len(vocabulary.encode(LINE)) + 1)


def test_json_holds_the_weights_with_three_digits(plain: Sentence) -> None:
    text = json.dumps(plain.to_json(), allow_nan=False)
    assert "0.0," not in text
    data = json.loads(text)
    assert data["source"] == plain.source
    assert data["translations"][0]["target"] == plain.translations[0].target
    for got, wanted in (
        (data["encoder"], plain.encoder),
        (data["translations"][0]["decoder"], plain.translations[0].decoder),
        (data["translations"][0]["memory"], plain.translations[0].memory),
    ):
        assert np.shape(got) == wanted.shape
        np.testing.assert_allclose(got, wanted, atol=0.000501)


@pytest.mark.parametrize(
    ("text", "target", "message"),
    [
        ("hi " * 200, None, f"The sentence has [0-9]+ pieces; attention is shown for at most {MAX_PIECES}"),
        ("a", "hi " * 200, f"The target has [0-9]+ pieces; attention is shown for at most {MAX_PIECES}"),
    ],
)
def test_what_cannot_be_shown(translator: Translator, text: str, target: str | None, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        attend(translator, [text], target)


def test_a_model_with_attention_to_the_source_alone(rnn_sentence: Sentence) -> None:
    data = rnn_sentence.to_json()
    assert list(rnn_sentence.maps()) == ["memory"]
    assert "encoder" not in data
    for translation, plain in zip(rnn_sentence.translations, data["translations"], strict=True):
        assert plain.keys() == {"text", "score", "target", "memory"}
        assert np.shape(plain["memory"]) == (1, 1, len(translation.target), len(rnn_sentence.source))
        np.testing.assert_allclose(np.sum(plain["memory"], -1), 1, atol=0.01)
    assert len(data["translations"]) == 3


def test_a_model_without_attention() -> None:
    model = SimpleNamespace(attention_kinds=())
    with pytest.raises(UsageError, match="A SimpleNamespace has no attention to show."):
        attend(SimpleNamespace(model=model), ["a"])  # type: ignore[arg-type]


def test_a_run_that_cuts_its_inputs_early(translator: Translator) -> None:
    vocabularies = translator.source_vocabulary, translator.target_vocabulary
    short = Translator(translator.model, *vocabularies, config.HParams(max_source_length=4))
    with pytest.raises(UsageError, match="at most 4"):
        attend(short, [LINE])


@pytest.mark.commit
@pytest.mark.parametrize(
    "vocabulary",
    [
        SubwordVocabulary(file_of([*PIECES, "ein_", "Hau"])),
        TokenVocabulary(b"<pad>\n<EOS>\nUNK\nein\nHau@@\ns\n"),
        OpenNmtVocabulary(b"<blank>\n<s>\n</s>\nein\nHau@@\ns\n"),
    ],
    ids=["subwords", "tokens", "opennmt"],
)
def test_pieces_of_other_toolkits_are_labelled_as_our_own(vocabulary: ImportedVocabulary) -> None:
    model = Transformer.from_hparams(HPARAMS, vocabulary.size, vocabulary.size, True)
    line = "ein Haus" if isinstance(vocabulary, SubwordVocabulary) else "ein Hau@@ s"
    (sentence,) = attend(Translator(model, vocabulary, vocabulary, HPARAMS), [line], line)
    assert sentence.source == sentence.translations[0].target == ["▁ein", "▁Hau", "s", "</s>"]
    figure = attention_figure(sentence, "memory", layer=1, head=1, style="lines")
    assert [text.get_text() for text in figure.axes[0].texts] == 2 * ["ein", "Hau", "·s", "⟨end⟩"]
