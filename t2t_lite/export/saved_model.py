"""The exported model: a translator's vocabularies, beam search and weights behind signatures that take text.

Legend: B sentences, R those of them that are not blank, K beam size, N pieces, S source length, T target length.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from t2t_lite.decoding.alignments import align, check_aligns
from t2t_lite.decoding.piece_scores import log_probs, piece_log_probs
from t2t_lite.decoding.translate import PREFIX_SIGNATURE, Translator
from t2t_lite.errors import UsageError
from t2t_lite.export.export_folder import DEFAULT_SIGNATURES
from t2t_lite.export.text_ops import GraphText
from t2t_lite.export.tree_ops import GraphTrees
from t2t_lite.ids import EOS, PAD
from t2t_lite.ops.graph import graph
from t2t_lite.ops.int8 import int8_matrices
from t2t_lite.ops.int8_expanded import ExpandedMatrices
from t2t_lite.ops.stored import stored_weights
from t2t_lite.text.any_vocabulary import AnyVocabulary
from t2t_lite.text.codec import Outputs
from t2t_lite.text.trees.codec import TreeText

# Attention has layers x heads x queries x keys numbers for a text of a few bytes.
ATTENTION_ROWS, ATTENTION_PIECES = 4, 64

_INPUTS, _TARGETS, _PREFIXES = (tf.TensorSpec([None], tf.string, name) for name in ("inputs", "targets", "prefixes"))
_IDS = tf.TensorSpec([None, None], tf.int32, "ids")


class ServedModel(tf.Module):
    """The module that is saved. A sentence's outputs do not depend on others in its batch, except for rounding.

    Rounding: the last digits of floating-point sums depend on how many rows are computed together. In float32 that
    changes scores in the 6th digit; bfloat16 and int8 round between the layers, which changes more.

    A blank text (empty, or white space of any kind) is not decoded: its outputs are empty and its scores 0. A batch
    may be empty.

    Each weight is stored once, as `stored_weights` has it. A quantized model computes in float32 where the products
    of its int8 matrices would not be exact (`ExpandedMatrices`).

    Args:
        translator: the model, its vocabularies, and how it decodes.
        names: which of `export_folder.SIGNATURES` it has.

    Raises:
        UsageError: `names` has a signature for what the model does not have, such as attention.
    """

    def __init__(self, translator: Translator, names: Sequence[str] = DEFAULT_SIGNATURES) -> None:
        super().__init__()
        if "attention" in names and not translator.model.attention_kinds:
            name = type(translator.model).__name__
            raise UsageError(
                f"A{'n' * (name[0] in 'AEIOU')} {name} has no attention to show: leave the signature attention out."
            )
        if "alignments" in names:
            check_aligns(translator.model)
        if "prefix" in names and not translator.is_text:
            raise UsageError("A parser writes trees, which have no prefixes: leave the signature prefix out.")
        if "word_scores" in names:
            translator.with_word_scores()
        self._translator, self._names = translator, names
        self._max_source_length = translator.decode.max_source_length  # and the width of the signature `tokens`
        source, target = self.vocabularies
        self._source = GraphText(source)
        self._target = self._source if target is source else GraphText(target)
        outputs = translator.outputs
        self._text = GraphTrees(outputs.words, outputs.table) if isinstance(outputs, TreeText) else self._target
        self._constrained = outputs.grammar() is not None
        model = translator.model
        self._weights = {
            f"{prefix}{path}": weight
            for prefix, member in model.members().items()
            for path, weight in stored_weights(member).items()
        }
        self._int8 = {path: [kernel.values, kernel.scales] for path, kernel in int8_matrices(model).items()}
        self._expanded = ExpandedMatrices() if self._int8 else None
        # Several signatures call these functions, which are saved once.
        self._search = self._graph(self._find, translator.search_signature)
        self._outputs = self._graph(self._write, [_IDS, _INPUTS])
        if "prefix" in names:
            self._search_from_prefix = self._graph(self._find_from_prefix, PREFIX_SIGNATURE)

    @property
    def vocabularies(self) -> tuple[AnyVocabulary, AnyVocabulary]:
        """Source and target; one object where they are shared."""
        return self._translator.source_vocabulary, self._translator.target_vocabulary

    @property
    def outputs(self) -> Outputs:
        """How the model's outputs are read."""
        return self._translator.outputs

    @functools.cached_property
    def signatures(self) -> dict[str, Any]:
        """What `tf.saved_model.save` takes; docs/serving.md describes them."""
        inputs = {
            "score": [_INPUTS, _TARGETS],
            "prefix": [_INPUTS, _PREFIXES],
            "tokens": [tf.TensorSpec([None, self._max_source_length], tf.int32, "ids")],
        }
        return {name: self._graph(getattr(self, f"_{name}"), inputs.get(name, [_INPUTS])) for name in self._names}

    def _graph(self, function: Callable[..., Any], signature: Any) -> Any:
        """A tf.function that reads the stored weights."""

        @functools.wraps(function)
        def with_stored_weights(*args: Any) -> Any:
            scope = keras.StatelessScope()
            for prefix, member in self._translator.model.members().items():
                for weight in member.weights:
                    value = self._weights[f"{prefix}{weight.path}"]
                    value = value if value.dtype == weight.dtype else tf.cast(value, weight.dtype)
                    scope.add_update((weight, value))
            with scope:
                return function(*args)

        return graph(with_stored_weights, input_signature=signature)

    def _compute(self, function: Callable[[], Any]) -> Any:
        """What a function computes with the model."""
        return self._expanded.compute_anywhere(function) if self._expanded else function()

    def _find(self, *inputs: Any) -> tuple[Any, Any]:
        return self._compute(lambda: self._translator.search(*inputs))

    def _find_from_prefix(self, *inputs: Any) -> tuple[Any, Any]:
        return self._compute(lambda: self._translator.search_from_prefix(*inputs))

    def _serving_default(self, inputs: Any) -> dict[str, Any]:
        """`inputs` string [B] -> the best, `outputs` string [B], and its `scores` float32 [B]."""
        inputs = self._read(inputs)
        ids, scores = self._run_search(self._encode(inputs), inputs, early_stop=True)
        return {"outputs": self._outputs(ids[:, 0], inputs), "scores": scores[:, 0]}

    def _nbest(self, inputs: Any) -> dict[str, Any]:
        """`inputs` string [B] -> the K best, best first: `outputs` string [B, K], `scores` float32 [B, K]."""
        inputs = self._read(inputs)
        return self._write_all(*self._run_search(self._encode(inputs), inputs, early_stop=False), inputs)

    def _write_all(self, ids: Any, scores: Any, inputs: Any) -> dict[str, Any]:
        """int32 [B, K, T], float32 [B, K], string [B] as read -> what `_nbest` gives."""
        shape, beam_size = tf.shape(ids), self._translator.decode.beam_size
        ids = tf.reshape(ids, [shape[0] * shape[1], shape[2]])
        outputs = self._outputs(ids, tf.repeat(inputs, beam_size))
        return {"outputs": tf.reshape(outputs, [-1, beam_size]), "scores": scores}

    def _prefix(self, inputs: Any, prefixes: Any) -> dict[str, Any]:
        """`inputs`, `prefixes` string [B] -> as `nbest`, of outputs that begin with the pieces of `prefixes`.

        An empty prefix allows any beginning. One with a symbol that the target vocabulary lacks, or without room for an
        end symbol, is an error; that of a blank input counts for nothing.
        """
        inputs = self._read(inputs)
        source = self._encode(inputs)
        # One piece more than there may be shows that a prefix is too long.
        prefix = self._target.encode(tf.ensure_shape(prefixes, [None]), self._max_target_length + 1)
        same = tf.debugging.assert_equal(source.nrows(), prefix.nrows(), "inputs and prefixes must be equally many")
        with tf.control_dependencies([same]):
            there = source.row_lengths() > 0
        source, prefix = _dense(source, there), _dense(prefix, there)
        prefix = tf.where(tf.equal(prefix, EOS), PAD, prefix)
        longest = self._translator.longest_outputs(tf.math.count_nonzero(source, axis=1, dtype=tf.int32))
        lengths = tf.math.count_nonzero(prefix, axis=1, dtype=tf.int32)
        unknown = self.vocabularies[1].unknown
        checks = [
            tf.debugging.assert_less(lengths, longest, "a prefix has more pieces than an output of its input may have"),
            tf.debugging.assert_none_equal(
                prefix, -1 if unknown is None else unknown, message="a prefix has symbols that the model cannot write"
            ),
        ]
        with tf.control_dependencies(checks):
            ids, scores = self._search_from_prefix(source, False, prefix)
        return self._write_all(*self._all_rows(ids, scores, there), inputs)

    def _tokens(self, ids: Any) -> dict[str, Any]:
        """`ids` int32 [B, max_source_length] -> the best as `ids`, as wide as any can be, and its `scores` [B]."""
        ids = tf.ensure_shape(ids, [None, self._max_source_length])
        pieces = self._source.clean(ids, self._max_source_length)
        ids, scores = self._run_search(pieces, None, early_stop=True)
        return {"ids": _widen(ids[:, 0], self._max_target_length), "scores": scores[:, 0]}

    def _score(self, inputs: Any, targets: Any) -> dict[str, Any]:
        """`inputs`, `targets` string [B] -> `log_probs` [B] of the targets, sums over `tokens` [B] pieces.

        A longer target than `_max_target_length` is cut to that many, the last one EOS. A blank target counts as its
        end symbol; a blank input gives 0 for both.
        """
        source = self._encode(self._read(inputs))
        target = self._target.encode(tf.ensure_shape(targets, [None]), self._max_target_length)
        same = tf.debugging.assert_equal(source.nrows(), target.nrows(), "inputs and targets must be equally many")
        with tf.control_dependencies([same]):  # else another operation might report the error first
            there = source.row_lengths() > 0
        source, target = _dense(source, there), _end(_dense(target, there))
        values, tokens = self._compute(lambda: log_probs(self._translator.model, source, target))
        return {"log_probs": _scatter(values, there), "tokens": _scatter(tokens, there)}

    def _attention(self, inputs: Any) -> dict[str, Any]:
        """`inputs` string [B] -> the best, `outputs` string [B], and the weights of all attention.

        `source_pieces` string [B, S], `target_pieces` string [B, T]; of the kinds that the model has, `encoder`
        float32 [B, layers, heads, S, S], `decoder` [B, layers, heads, T, T], `memory` [B, layers, heads, T, S].
        """
        inputs = self._read(inputs)
        pieces = self._encode(inputs)
        limits = (ATTENTION_ROWS, ATTENTION_PIECES)
        words = f"attention is given for at most {ATTENTION_ROWS} texts of at most {ATTENTION_PIECES} pieces"
        small = tf.debugging.assert_less_equal(pieces.bounding_shape(), tf.constant(limits, tf.int64), words)
        with tf.control_dependencies([small]):
            there = pieces.row_lengths() > 0
        source = _dense(pieces, there)
        target = _trim(self._search(source, True, *self._sizes(pieces, inputs, there))[0][:, 0])
        batch = {"source": source, "target": target}
        maps = self._compute(lambda: self._translator.model.attention_maps(batch))
        source, target = _scatter(source, there), _scatter(target, there)
        return {
            "outputs": self._outputs(target, inputs),
            "source_pieces": self._source.pieces(source),
            "target_pieces": self._target.pieces(target),
            **{name: _scatter(weights, there) for name, weights in maps.items()},
        }

    def _alignments(self, inputs: Any) -> dict[str, Any]:
        """`inputs` string [B] -> the best, `outputs` string [B], its `scores` float32 [B], and its alignment.

        `source_pieces` string [B, S], `target_pieces` string [B, T], `alignments` float32 [B, T, S], zeros at padding.
        """
        inputs = self._read(inputs)
        source, target, scores, there = self._best(inputs)
        weights = self._compute(lambda: align(self._translator.model, source, target))
        source, target = _scatter(source, there), _scatter(target, there)
        return {
            "outputs": self._outputs(target, inputs),
            "scores": scores,
            "source_pieces": self._source.pieces(source),
            "target_pieces": self._target.pieces(target),
            "alignments": _scatter(weights, there),
        }

    def _word_scores(self, inputs: Any) -> dict[str, Any]:
        """`inputs` string [B] -> the best, `outputs` string [B], its `scores` float32 [B], and those of its pieces.

        `ids` int32 [B, T] and `target_pieces` string [B, T], the end symbol included; `log_probs` float32 [B, T] are
        the model's own, whatever a repetition penalty made of them, and zeros at padding.
        """
        inputs = self._read(inputs)
        source, target, scores, there = self._best(inputs)
        values = self._compute(lambda: piece_log_probs(self._translator.model, source, target))
        target = _scatter(target, there)
        return {
            "outputs": self._outputs(target, inputs),
            "scores": scores,
            "ids": target,
            "target_pieces": self._target.pieces(target),
            "log_probs": _scatter(values, there),
        }

    def _best(self, inputs: Any) -> tuple[Any, Any, Any, Any]:
        """string [B] as read -> source int32 [R, S], best output int32 [R, T], scores float32 [B], there bool [B]."""
        pieces = self._encode(inputs)
        there = pieces.row_lengths() > 0
        source = _dense(pieces, there)
        target, scores = self._search(source, True, *self._sizes(pieces, inputs, there))
        return source, _trim(target[:, 0]), _scatter(scores[:, 0], there), there

    def _read(self, inputs: Any) -> Any:
        """string [B] -> string [B]: the texts as the model reads them."""
        # The server checks no shapes: a single string would run, and give odd answers.
        inputs = tf.ensure_shape(inputs, [None])
        return self._text.source(inputs)

    def _encode(self, inputs: Any) -> Any:
        return self._source.encode_source(inputs, self._max_source_length)

    def _write(self, ids: Any, inputs: Any) -> Any:
        """int32 [B, T], string [B] as read -> string [B]."""
        return self._text.output(ids, inputs)

    @property
    def _max_target_length(self) -> int:
        return self._translator.longest_output(self._max_source_length)

    def _run_search(self, source: Any, inputs: Any, early_stop: bool) -> tuple[Any, Any]:
        """Ragged int32 [B, S] and string [B] as read (None: of the pieces) -> int32 [B, K, T] and float32 [B, K]."""
        there = source.row_lengths() > 0
        ids, scores = self._search(_dense(source, there), early_stop, *self._sizes(source, inputs, there))
        return self._all_rows(ids, scores, there)

    def _all_rows(self, ids: Any, scores: Any, there: Any) -> tuple[Any, Any]:
        """int32 [R, K, T], float32 [R, K], bool [B] -> int32 [B, K, T], float32 [B, K]."""
        beam_size = self._translator.decode.beam_size
        return (
            tf.ensure_shape(_scatter(ids, there), [None, beam_size, None]),
            tf.ensure_shape(_scatter(scores, there), [None, beam_size]),
        )

    def _sizes(self, source: Any, inputs: Any, there_B: Any) -> list[Any]:
        """The third input of the search, int32 [R], as `Translator.run_search` has it; nothing if it takes only two."""
        if not self._constrained:
            return []
        seen = self._text.source(self._source.decode(source.to_tensor()))
        sizes = of_seen = self._text.sizes(seen)
        if inputs is not None:
            sizes = self._text.sizes(inputs)
            cut = source.row_lengths() >= self._max_source_length
            sizes = tf.where(cut, tf.minimum(sizes, of_seen), sizes)
        return [tf.boolean_mask(sizes, there_B)]


def _dense(ids: Any, there_B: Any) -> Any:
    """Ragged [B, N] -> [R, N], padded, with at least one column, which the model needs."""
    rows = tf.ragged.boolean_mask(ids, there_B)
    return rows.to_tensor(shape=tf.maximum(rows.bounding_shape(), [0, 1]))


def _scatter(values_R: Any, there_B: Any) -> Any:
    """[R, ...] -> [B, ...]: row after row where `there_B` (bool) holds, zeros elsewhere."""
    shape = tf.concat([tf.shape(there_B), tf.shape(values_R)[1:]], 0)
    return tf.scatter_nd(tf.where(there_B), values_R, tf.cast(shape, tf.int64))


def _end(ids_RN: Any) -> Any:
    """Puts an end symbol into the rows that hold only padding."""
    first = tf.where(tf.equal(ids_RN[:, :1], PAD), EOS, ids_RN[:, :1])
    return tf.concat([first, ids_RN[:, 1:]], 1)


def _widen(ids_BT: Any, width: int) -> Any:
    """Pads to `width` columns, which the search cannot exceed."""
    ids_BT = tf.pad(ids_BT, [[0, 0], [0, width - tf.shape(ids_BT)[1]]])
    return tf.ensure_shape(ids_BT, [None, width])


def _trim(ids_BT: Any) -> Any:
    """Removes the columns that hold only padding, except the first."""
    lengths = tf.math.count_nonzero(ids_BT, axis=1, dtype=tf.int32)
    return ids_BT[:, : tf.reduce_max(tf.concat([lengths, [1]], 0))]
