"""Translator that translates each sentence of a line by itself, so that no paragraph is cut at max_source_length."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence

from t2t_lite.decoding.given import NOTHING, Given
from t2t_lite.decoding.line_translator import Hypothesis, LineTranslator
from t2t_lite.errors import UsageError
from t2t_lite.text.labels import split_label
from t2t_lite.text.sentences import break_long, join_sentences, split_sentences
from t2t_lite.text.unknown_pieces import UnknownPieces

_SHOWN = 60  # characters of a long sentence in the warning

_log = logging.getLogger("t2t_lite")


class SentenceTranslator(LineTranslator):
    """Translates lines sentence by sentence with another translator; a line of one sentence is translated as it is.

    The Nth output of a line is made of the Nth outputs of its sentences, and its score is the sum of theirs. A sentence
    of more than max_source_length pieces is broken, with a warning. A label at the start of a line goes to each
    sentence.

    Raises:
        UsageError: the outputs are trees, which cannot be joined.
    """

    def __init__(self, translator: LineTranslator) -> None:
        if not translator.is_text:
            raise UsageError("--split_sentences is for text; this model writes trees, of one sentence each.")
        super().__init__(translator.source_vocabulary, translator.decode)
        self._of_sentences = translator

    def start_aligning(self) -> None:
        raise UsageError("Sentences that are translated one by one, and joined, have no alignment of the line.")

    def warn_again(self) -> None:
        super().warn_again()
        self._of_sentences.warn_again()

    def source(self, line: str) -> str:
        return self._of_sentences.source(line)

    def split(self, line: str) -> list[str]:
        """Returns what is translated of a line, piece by piece; at least one text."""
        vocabulary, limit = self.source_vocabulary, self.decode.max_source_length
        label = "" if self._of_sentences.label else split_label(line, vocabulary.labels)[0]

        def labelled(text: str) -> str:
            return f"{label} {text}" if label else text

        def fits(text: str) -> bool:  # with the end symbol
            return len(vocabulary.encode_source([self.source(labelled(text))])[0]) < limit

        if not line[len(label) :].strip():
            return [line]
        parts = []
        for sentence in split_sentences(line[len(label) :]):
            broken = [sentence] if fits(sentence) else break_long(sentence, fits)
            if len(broken) > 1:
                self._warn_of_broken(sentence)
            parts += broken
        return [line] if len(parts) == 1 else [labelled(part) for part in parts]

    def _warn_of_broken(self, sentence: str) -> None:
        if "broken" not in self._warned_of:
            self._warned_of.add("broken")
            _log.warning(
                "A sentence of more than max_source_length=%d pieces is broken, after a comma, at a space, or else "
                "anywhere: %r... Further ones are broken without a message.",
                self.decode.max_source_length,
                sentence[:_SHOWN],
            )

    def _translate(
        self,
        lines: Sequence[str],
        nbest: int,
        progress: Callable[[int, float], None] | None,
        given: Given = NOTHING,
    ) -> tuple[list[list[Hypothesis]], int, UnknownPieces]:
        if given != NOTHING:
            what = "Constraints" if given.prefixes is None else "Prefixes"
            raise UsageError(f"{what} are of lines; with split_sentences there would be one for each sentence.")
        parts = [self.split(line) for line in lines]
        sentences = [*itertools.chain(*parts)]
        done = shown = 0

        def in_lines(number: int, weight: float) -> None:
            nonlocal done, shown
            done += number
            before, shown = shown, done * len(lines) // len(sentences)
            if progress:
                progress(shown - before, weight * len(lines) / len(sentences))

        found, cut, unknown = self._of_sentences._translate(sentences, nbest, in_lines)
        outputs = iter(found)
        return [_join([*itertools.islice(outputs, len(row))]) for row in parts], cut, unknown

    def _decode(
        self, lines: Sequence[str], ids: Sequence[Sequence[int]], nbest: int, given: Given
    ) -> list[list[Hypothesis]]:
        return self._of_sentences._decode(lines, ids, nbest, given)


def _join(outputs: Sequence[Sequence[Hypothesis]]) -> list[Hypothesis]:
    """The outputs of a line from those of its sentences."""
    if len(outputs) == 1:
        return [*outputs[0]]
    return [
        Hypothesis(join_sentences(one.text for one in row), sum(one.score for one in row))
        for row in zip(*outputs, strict=True)
    ]
