"""The attention of a trained model over one sentence and its translations.

Legend: L layers, H heads, S source length, T target length.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from t2t_lite.decoding.translate import Translator
from t2t_lite.errors import UsageError
from t2t_lite.ids import EOS
from t2t_lite.insights.page import KINDS
from t2t_lite.layers.functions import use
from t2t_lite.ops.graph import PLAIN

# Nobody can read a picture of more pieces, and the weights grow with the square. Longer outputs are cut.
MAX_PIECES = 120


@dataclasses.dataclass(frozen=True)
class Translation:
    """A translation, its pieces [T] with the end symbol, and the decoder's float32 weights.

    score is None for a translation that was given. decoder is [L, H, T, T] and memory [L, H, T, S], with rows and
    columns as in `attention_maps`; each is None where the model has no attention of that kind.
    """

    text: str
    score: float | None
    target: list[str]
    decoder: np.ndarray | None
    memory: np.ndarray | None


@dataclasses.dataclass(frozen=True)
class Sentence:
    """A sentence, its pieces [S] with the end symbol, the encoder's float32 weights [L, H, S, S], and its translations.

    encoder is None where the encoder has no attention.
    """

    text: str
    source: list[str]
    encoder: np.ndarray | None
    translations: list[Translation]

    def maps(self) -> dict[str, np.ndarray]:
        """Returns the available weights by kind, in the order of KINDS, for the best translation."""
        best = self.translations[0]
        every = {"memory": best.memory, "encoder": self.encoder, "decoder": best.decoder}
        return {kind: weights for kind, weights in every.items() if weights is not None}

    def to_json(self) -> dict[str, Any]:
        """Returns the data that attention.js draws, as plain lists; the available weights have three digits."""
        translations = [_plain(dataclasses.asdict(t), "decoder", "memory") for t in self.translations]
        return _plain(dataclasses.asdict(self), "encoder") | {"translations": translations}


def attend(translator: Translator, texts: Sequence[str], target: str | None = None) -> list[Sentence]:
    """Translates each text into as many outputs as the beam size; computes the attention over it and its translations.

    Args:
        translator: its model must have attention of some kind.
        target: a translation to use instead of what the model finds; of a parser: a tree, in brackets or linearised.

    Raises:
        UsageError: a model without attention; a text of too many pieces; a symbol that a parser does not have.
    """
    if not translator.model.attention_kinds:
        name = type(translator.model).__name__
        raise UsageError(f"A{'n' * (name[0] in 'AEIOU')} {name} has no attention to show.")
    return [_attend(translator, text, target) for text in texts]


def _attend(translator: Translator, text: str, target: str | None) -> Sentence:
    model, vocabulary = translator.model, translator.target_vocabulary
    most = min(MAX_PIECES, translator.decode.max_source_length)
    read = translator.source(text)
    source = _add_end("sentence", read, translator.source_vocabulary.encode_source([read])[0], most)
    found: list[tuple[str, float | None]] = [(target or "", None)]
    if target is None:
        outputs, scores = (x[0] for x in translator.run_search([text], [source], early_stop=False))
        found = [
            (translator.hypothesis(text, ids, score).text, score)
            for ids, score in zip(outputs, scores.tolist(), strict=True)
        ]
        targets = outputs[:, :MAX_PIECES]
    else:
        if unknown := translator.unknown(target):
            raise UsageError(
                f"{unknown[0]!r} is no symbol of this parser, but it is in the target {target!r:.100}. Give a tree in "
                "brackets, or a linearised one such as '(S (NP DT NN )NP )S', with labels and tags that are in the "
                "parser's training trees."
            )
        read = translator.target(target)
        targets = np.array([_add_end("target", read, vocabulary.encode(read), MAX_PIECES)], np.int32)
    with use(PLAIN):  # as in a graph, with the same bits
        maps = model.attention_maps({"source": np.array([source] * len(targets), np.int32), "target": targets})
    memory, encoder, decoder = (np.asarray(maps[kind]) if kind in maps else None for kind in KINDS)
    translations = []
    for i, (words, score) in enumerate(found):
        length = np.count_nonzero(targets[i])
        pieces = vocabulary.display_pieces(targets[i, :length])
        own = None if decoder is None else decoder[i, :, :, :length, :length]
        over_source = None if memory is None else memory[i, :, :, :length]
        translations.append(Translation(words, score, pieces, own, over_source))
    pieces = translator.source_vocabulary.display_pieces(source)
    return Sentence(text, pieces, None if encoder is None else encoder[0], translations)


def _add_end(what: str, text: str, ids: Sequence[int], limit: int) -> list[int]:
    """The ids of `text` and EOS; UsageError if they are too many."""
    ids = [*ids, EOS]
    if len(ids) > limit:
        raise UsageError(f"The {what} has {len(ids)} pieces; attention is shown for at most {limit}: {text!r:.200}")
    return ids


def _plain(values: dict[str, Any], *kinds: str) -> dict[str, Any]:
    """Returns `values` with the weights of `kinds` as rounded lists; leaves out weights that are None."""
    weights = {kind: _round(values[kind]) for kind in kinds if values[kind] is not None}
    return {name: value for name, value in values.items() if name not in kinds} | weights


def _round(weights: np.ndarray) -> list[Any]:
    """Returns nested lists of weights with three digits; most are zero and become 0 without a point."""
    if weights.ndim > 1:
        return [_round(part) for part in weights]
    return [weight or 0 for weight in np.round(weights.astype(np.float64), 3).tolist()]
