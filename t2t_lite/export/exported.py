"""Translator that uses an exported model, with its vocabularies, weights and search."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from typing import Any, Self

import tensorflow as tf

from t2t_lite.data.vocabulary_files import load_pair
from t2t_lite.decoding.alignments import Alignment
from t2t_lite.decoding.given import Given
from t2t_lite.decoding.line_translator import Hypothesis, LineTranslator
from t2t_lite.decoding.prefixes import prefix_pieces
from t2t_lite.decoding.word_scores import word_scores
from t2t_lite.distributed.tensorflow_loading import quiet
from t2t_lite.errors import DataError, UsageError
from t2t_lite.export.export_folder import SIGNATURES, find_version, read_card
from t2t_lite.groups import DECODE, LATER, DecodeGroup
from t2t_lite.ids import PAD
from t2t_lite.ops.int8_product import check_machine


class ExportedTranslator(LineTranslator):
    """Translates text as the exported run does, without that run's code.

    Args:
        folder: what t2t-lite-exporter wrote: a version, or the folder of versions, whose newest is taken.
        batch_tokens: decode_batch_tokens; None: as the recipe says.

    Raises:
        DataError: no export there, or a damaged one.
        UsageError: it has int8 weights, and this machine a GPU.
    """

    def __init__(self, folder: str | os.PathLike[str], batch_tokens: int | None = None) -> None:
        import tensorflow_text  # noqa: F401  # registers the ops of SentencePiece

        self.folder = find_version(folder)
        self.card = read_card(self.folder)
        source, self._target_vocabulary = load_pair(self.folder / "assets")
        try:
            hparams = self.card["hparams"]
            given = {name: hparams[name] for name in DECODE if name in hparams or name not in LATER}
            given |= {"decode_batch_tokens": batch_tokens} if batch_tokens else {}
            super().__init__(source, DecodeGroup(**given))
            self.is_text = "trees" not in self.card
            if hparams["precision"] == "int8":
                check_machine()
            with quiet():
                self.model: Any = tf.saved_model.load(str(self.folder))
            signatures = self.model.signatures
            self._best, self._nbest = signatures["serving_default"], signatures.get("nbest")
        except UsageError:
            raise
        except (tf.errors.OpError, OSError, KeyError, TypeError, ValueError) as error:
            reason = str(error).partition("\n")[0]
            raise DataError(f"{self.folder} is a damaged export: {reason}. Export the model again.") from error

    def lacks(self, name: str) -> UsageError:
        """The error where the export has no signature `name`; a new export by its advice keeps those that are there."""
        wanted = [known for known in SIGNATURES[1:] if known == name or known in self.model.signatures]
        return UsageError(
            f"{self.folder} has no signature {name}; export the model again with --signatures={','.join(wanted)}."
        )

    def start_aligning(self) -> None:
        if "alignments" not in self.model.signatures:
            raise self.lacks("alignments")
        self.aligns = True

    def with_word_scores(self) -> Self:
        if not self.is_text:
            raise UsageError("Scores of words are of text, and this model writes trees. Leave them out.")
        if "word_scores" not in self.model.signatures:
            raise self.lacks("word_scores")
        if self.aligns:
            raise UsageError("An export gives alignments, or scores of words, not both. Translate with the run.")
        other = copy.copy(self)
        other.scores_words = True
        return other

    def _from_prefixes(self, inputs: Any, ids: Sequence[Sequence[int]], prefixes: Sequence[str]) -> dict[str, Any]:
        """What the signature prefix answers; its checks are made here first, as they say more."""
        if self.aligns or self.scores_words:
            what = "alignments" if self.aligns else "scores of words"
            raise UsageError(f"An export gives {what}, or outputs with prefixes, not both. Translate with the run.")
        if "prefix" not in self.model.signatures:
            raise self.lacks("prefix")
        for row, prefix in zip(ids, prefixes, strict=True):
            prefix_pieces(prefix, self._target_vocabulary, self.longest_output(len(row)))
        answer: dict[str, Any] = self.model.signatures["prefix"](
            inputs=inputs, prefixes=tf.constant([prefix.encode() for prefix in prefixes])
        )
        return answer

    def _align(self, lines: Sequence[str]) -> list[list[Hypothesis]]:
        """The best output of each line, with its alignment."""
        found = self.model.signatures["alignments"](inputs=tf.constant([line.encode() for line in lines]))
        answer = {name: values.numpy() for name, values in found.items()}
        rows = []
        for i, (text, score) in enumerate(zip(answer["outputs"], answer["scores"], strict=True)):
            source, target = ([p.decode() for p in answer[f"{side}_pieces"][i] if p] for side in ("source", "target"))
            alignment = Alignment(source, target, answer["alignments"][i, : len(target), : len(source)])
            rows.append([Hypothesis(text.decode(), float(score), alignment=alignment)])
        return rows

    def _score_words(self, inputs: Any) -> list[list[Hypothesis]]:
        """The best output of each text, with the scores of its words."""
        answer = {name: values.numpy() for name, values in self.model.signatures["word_scores"](inputs=inputs).items()}
        rows = []
        for text, score, ids, values in zip(
            *(answer[n] for n in ("outputs", "scores", "ids", "log_probs")), strict=True
        ):
            pieces = [i for i in ids.tolist() if i != PAD]
            words = word_scores(self._target_vocabulary, pieces, values[: len(pieces)].tolist())
            rows.append([Hypothesis(text.decode(), float(score), ids=pieces, words=words)])
        return rows

    def _decode(
        self, lines: Sequence[str], ids: Sequence[Sequence[int]], nbest: int, given: Given
    ) -> list[list[Hypothesis]]:
        if given.constraints is not None:
            raise UsageError("An export has no search with constraints. Translate with the run.")
        inputs = tf.constant([self.labelled(line).encode() for line in lines])
        if given.prefixes is not None:
            answer = self._from_prefixes(inputs, ids, given.prefixes)
        elif self.aligns or self.scores_words:
            if nbest > 1:
                flag = "alignments" if self.aligns else "word_scores"
                raise UsageError(f"--nbest={nbest} does not go with --{flag}: an export gives that of the best output.")
            return self._align(lines) if self.aligns else self._score_words(inputs)
        elif nbest > 1 and self._nbest is None:
            raise self.lacks("nbest")
        else:
            answer = (self._best if nbest == 1 else self._nbest)(inputs=inputs)
        texts, scores = (tf.reshape(answer[name], [len(lines), -1]).numpy() for name in ("outputs", "scores"))
        return [
            [Hypothesis(text.decode(), float(score)) for text, score in zip(row[:nbest], values[:nbest], strict=True)]
            for row, values in zip(texts, scores, strict=True)
        ]
