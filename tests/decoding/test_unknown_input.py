"""Unknown pieces of what is translated are counted and said once."""

from collections.abc import Sequence

import pytest

from t2t_lite.decoding.given import Given
from t2t_lite.decoding.line_translator import Hypothesis, LineTranslator
from t2t_lite.groups import DecodeGroup
from t2t_lite.text.vocabulary_training import train_vocabulary


class Copies(LineTranslator):
    """Gives each line back."""

    def _decode(
        self, lines: Sequence[str], ids: Sequence[Sequence[int]], nbest: int, given: Given
    ) -> list[list[Hypothesis]]:
        return [[Hypothesis(line, 0.0)] * nbest for line in lines]


def _translator() -> Copies:
    vocabulary = train_vocabulary(["caf\u00e9 na\u00efve e i"] * 5, size=20)
    return Copies(vocabulary, DecodeGroup(beam_size=1))


def test_once_for_all_blocks(caplog: pytest.LogCaptureFixture) -> None:
    list(_translator().translate_blocks([["caf\u00e9", "cafe\u0301"], ["nai\u0308ve", ""]]))
    [message] = caplog.messages
    assert " source pieces (" in message
    assert message.startswith("2 of ")
    assert "are unknown to the vocabulary, the most frequent characters are U+0301, U+0308 (first in 'cafe" in message
    assert "Compose all text" in message


def test_once_from_python(caplog: pytest.LogCaptureFixture) -> None:
    translator = _translator()
    translator.translate(["caf\u00e9"])
    assert caplog.messages == []
    for _ in range(3):
        translator.translate(["cafe\u0301 X"])
    assert len(caplog.messages) == 1
