"""Trees inside a graph: text/trees/codec.py in core TensorFlow ops.

A tree over given words is a set of nested spans, each from the number of words before its phrase to that at its end.
One loop finds where phrases end: it takes one bracket at a time, in all sentences at once. Everything else is computed
for all brackets at once.

Legend: B sentences, T symbols of the longest, S its brackets and one slot on either side; P phrases and W words of all
sentences together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from t2t_lite.export.alignment_ops import GraphAlignment
from t2t_lite.export.lookup_ops import GraphLookup
from t2t_lite.export.text_ops import BLANK, utf_8
from t2t_lite.ids import EOS, UNK
from t2t_lite.text.trees.linearize import ROOT, SYMBOL
from t2t_lite.text.trees.tag_table import MARK_RE2, TAG, WSJ, TagTable

_NO_SYMBOL = 0  # the code of PAD, EOS, UNK and everything that linearize does not write
_LEAF = 1  # the code of a tag
_ROOT = 2  # the code of the label ROOT; those of other labels are larger


class GraphTrees(tf.Module):
    """The symbols of a model's trees as part of an exported model.

    Args:
        symbols: by id; those of PAD, EOS and UNK are ignored.
        table: the tags that words may have.
    """

    def __init__(self, symbols: Sequence[str], table: TagTable = WSJ) -> None:
        super().__init__()
        self._labels = ["", "", ROOT]  # by code
        self._tags = [TAG] * len(symbols)  # by id
        self._codes = [_NO_SYMBOL] * len(symbols)  # by id; negative where a phrase closes
        codes = {ROOT: len(self._labels) - 1}
        for i, symbol in enumerate(symbols):
            match = SYMBOL.fullmatch(symbol)
            if i <= UNK or match is None:
                continue
            bracket, name = match.groups()
            if not bracket:
                self._tags[i], self._codes[i] = name, _LEAF
                continue
            if name not in codes:
                codes[name] = len(self._labels)
                self._labels.append(name)
            self._codes[i] = codes[name] if bracket == "(" else -codes[name]
        self._alignment = GraphAlignment(self._tags, table.model)
        # After the symbols' tags come those of the model, which words without a tag get.
        own = [*table.model.tags, TAG]
        self._first_best = len(symbols)
        self._stands_first = [tag in table.model.first for tag in own]
        self._graph_tags = _GraphTags([*self._tags, *own], table)

    @staticmethod
    def source(texts: Any) -> Any:
        """string [B] -> string [B]: as `linearize.sentence`; bytes that are no UTF-8 become U+FFFD."""
        texts = utf_8(texts)
        for pattern, written in ((r"\(", "-LRB-"), (r"\)", "-RRB-"), (r"[ \t\n\r\f\v]+", " ")):
            texts = tf.strings.regex_replace(texts, pattern, written)
        return tf.strings.strip(texts)

    @staticmethod
    def sizes(sentences: Any) -> Any:
        """string [B], as `source` gives them -> int32 [B]: the numbers of words."""
        return tf.cast(_words(sentences).row_lengths(), tf.int32)

    def output(self, ids: Any, sentences: Any) -> Any:
        """int32 [B, T], string [B] -> string [B]: the trees that `TreeText.output` makes; "" of blank sentences.

        Args:
            ids: of the symbols. What follows EOS is not read. PAD, UNK and what is no symbol are left out.
            sentences: as `source` gives them.
        """
        # On the CPU: the steps are so small that a GPU would wait for each.
        with tf.device("CPU:0"):
            words = _words(sentences)
            stops_B1 = tf.cumsum(tf.cast(words.row_lengths(), tf.int32))[:, None]
            starts_B1 = tf.pad(stops_B1, [[1, 0], [0, 0]])[:-1]
            ended = tf.cumsum(tf.cast(tf.equal(ids, EOS), tf.int32), axis=1) > 0
            codes_BT = tf.where(ended, _NO_SYMBOL, tf.gather(self._codes, ids))
            rows = words.with_flat_values(self._alignment.rows(words.flat_values))
            word_BT = self._words_of_tags(ids, codes_BT, rows, starts_B1)
            best_W = self._alignment.best(rows.flat_values)
            tag_ids_W = tf.tensor_scatter_nd_update(
                self._first_best + best_W,
                tf.boolean_mask(word_BT, word_BT >= 0)[:, None],
                tf.boolean_mask(ids, word_BT >= 0),
            )
            brackets = _brackets(codes_BT, word_BT, starts_B1, stops_B1, tf.gather(self._stands_first, best_W))
            phrases = _phrases(*brackets, starts_B1, stops_B1, len(self._labels))
            texts_W = self._join(words.flat_values, tag_ids_W, *phrases)
            return tf.strings.unsorted_segment_join(
                texts_W, words.value_rowids(), num_segments=words.nrows(), separator=" "
            )

    def _words_of_tags(self, ids: Any, codes_BT: Any, rows: Any, starts_B1: Any) -> Any:
        """-> int32 [B, T]: the word of each tag, counted over all sentences; -1 for all other symbols."""
        is_tag = codes_BT == _LEAF
        words_BM = self._alignment(tf.ragged.boolean_mask(ids, is_tag), rows)
        word_BT = tf.gather(words_BM, tf.cumsum(tf.cast(is_tag, tf.int32), axis=1, exclusive=True), batch_dims=1)
        return tf.where(is_tag & (word_BT >= 0), starts_B1 + word_BT, -1)

    def _join(self, words_W: Any, tag_ids_W: Any, labels_P: Any, first_P: Any, last_P: Any) -> Any:
        """-> string [W]: the leaf of each word, between the phrases that open before it and the brackets that close."""
        number = tf.size(words_W)
        labels = tf.gather([f"({label} " for label in self._labels], labels_P)
        opening_W = tf.strings.unsorted_segment_join(labels, first_P, num_segments=number)
        closing_W = tf.strings.unsorted_segment_join(tf.fill(tf.shape(last_P), ")"), last_P, num_segments=number)
        tags_W = self._graph_tags(tag_ids_W, words_W)
        return tf.strings.join([opening_W, "(", tags_W, " ", words_W, ")", closing_W])


def _words(sentences: Any) -> Any:
    """string [B] -> ragged string [B, W]; no words for a blank sentence."""
    words = tf.strings.split(tf.where(tf.strings.regex_full_match(sentences, BLANK), "", sentences), " ")
    return tf.ragged.boolean_mask(words, words != "")  # `split` makes one empty word of an empty sentence


class _GraphTags:
    """`TagTable.tag` in a graph.

    Args:
        tags: by id.
    """

    def __init__(self, tags: Sequence[str], table: TagTable) -> None:
        self._tags = tags
        self._is_tag = [tag == TAG for tag in tags]
        self._deleted = [tag in table.deleted for tag in tags]
        self._open = [tag in table.open for tag in tags]
        self._learned = table.learned
        self._words = GraphLookup(list(table.words))
        self._own = [*table.words.values()] or [TAG]
        self._own_deleted = [tag in table.deleted for tag in self._own]
        self._pairs = GraphLookup([" ".join(pair) for pair in sorted(table.pairs)])

    def __call__(self, ids_W: Any, words_W: Any) -> Any:
        """int32 [W], string [W] -> string [W]."""
        tags_W, deleted_W = tf.gather(self._tags, ids_W), tf.gather(self._deleted, ids_W)
        at_W, is_known_W = self._words(words_W)
        _, is_pair_W = self._pairs(tf.strings.join([tags_W, words_W], " "))
        wrong_W = tf.not_equal(deleted_W, tf.gather(self._own_deleted, at_W)) | tf.gather(self._is_tag, ids_W)
        known_W = tf.where(wrong_W & ~is_pair_W, tf.gather(self._own, at_W), tags_W)
        believed_W = ~deleted_W
        if self._learned:
            believed_W |= tf.gather(self._open, ids_W) | tf.strings.regex_full_match(words_W, MARK_RE2)
        return tf.where(is_known_W, known_W, tf.where(believed_W, tags_W, TAG))


def _brackets(codes_BT: Any, word_BT: Any, starts_B1: Any, stops_B1: Any, stands_first_W: Any) -> tuple[Any, Any, Any]:
    """Finds how many words stand before each bracket, counted over all sentences.

    Brackets between two words that have tags, and the words without tags there, are a gap. `linearize.repair` says
    where in its gap a word without a tag stands.

    Args:
        codes_BT: int32, of the symbols.
        word_BT: int32, the word of each tag; -1 for other symbols.
        starts_B1, stops_B1: int32, how many words there are before each sentence and up to its end.
        stands_first_W: bool, whether a word would stand before the next tag.

    Returns:
        int32 [B, S] codes; int32 [B, S] words; int32 [B, 1]: the words that have passed at the last bracket or tag.
    """
    is_bracket = tf.abs(codes_BT) > _LEAF
    codes_BS = _slots(codes_BT, is_bracket)
    gap_BS = _slots(tf.cumsum(tf.cast(word_BT >= 0, tf.int32), axis=1), is_bracket)
    tagged = tf.ragged.boolean_mask(word_BT, word_BT >= 0)
    gaps_B1 = tf.cast(tagged.row_lengths(), tf.int32)[:, None]  # before the last one
    tagged = tagged.to_tensor(default_value=-1)
    before_BS = tf.gather(tf.concat([starts_B1, tagged + 1], 1), gap_BS, batch_dims=1)
    after_BS = tf.gather(tf.pad(tagged, [[0, 0], [0, 1]], constant_values=-1), gap_BS, batch_dims=1)
    after_BS = tf.where(gap_BS == gaps_B1, stops_B1, after_BS)

    # The first phrase of each gap that opens and closes with nothing between.
    rows, columns = tf.unstack(tf.shape(codes_BS))
    slot = tf.range(columns)
    closed = (codes_BS[:, 1:] == -codes_BS[:, :-1]) & (gap_BS[:, 1:] == gap_BS[:, :-1]) & (codes_BS[:, :-1] > 0)
    empty_BS = tf.where(tf.pad(closed, [[0, 0], [0, 1]]), slot, columns)
    number_of_gaps = columns + tf.shape(tagged)[1] + 1
    ids_BS = tf.range(rows)[:, None] * number_of_gaps + gap_BS
    first_empty = tf.math.unsorted_segment_min(empty_BS, ids_BS, rows * number_of_gaps)
    empty_BS = tf.gather(first_empty, ids_BS)

    first_missing = tf.gather(tf.concat([stands_first_W, [False]], 0), before_BS)
    before_brackets = (gap_BS > 0) & (gap_BS < gaps_B1) & ~first_missing
    moved = tf.where(empty_BS < columns, slot > empty_BS, before_brackets)
    words_BS = tf.where(moved, after_BS, before_BS)
    # The slots on either side are no brackets. A phrase that is open at the end closes after the last word.
    words_BS = tf.where(slot == 0, starts_B1, words_BS)
    passed_B1 = tf.reduce_max(tf.concat([starts_B1, tagged + 1, words_BS[:, :-1]], 1), axis=1, keepdims=True)
    return codes_BS, tf.where(slot == columns - 1, stops_B1, words_BS), passed_B1


def _phrases(
    codes_BS: Any, words_BS: Any, passed_B1: Any, starts_B1: Any, stops_B1: Any, num_codes: int
) -> tuple[Any, Any, Any]:
    """Finds the phrases that hold words, in the order in which they open.

    Args:
        codes_BS, words_BS, passed_B1: as `_brackets` gives them.
        starts_B1, stops_B1: as there.

    Returns:
        int32 [P]: the code of the label, the first word and the last one.
    """
    slot = tf.range(tf.shape(codes_BS)[1])
    ends_BS, open_B = _ends(codes_BS, num_codes)
    first_BS, end_BS = words_BS, tf.gather(tf.reshape(words_BS, [-1]), ends_BS)
    held_BS = (codes_BS > 0) & (first_BS < end_BS)

    # Words after the last tag go into the phrase that holds all others, even if it is closed, unless a phrase is open.
    whole = (end_BS == stops_B1) | ((end_BS == passed_B1) & ~open_B[:, None])
    root = held_BS & (tf.cumsum(tf.cast(held_BS, tf.int32), axis=1) == 1) & (first_BS == starts_B1) & whole
    # Where there is no such phrase, slot 0 becomes one.
    added = (slot == 0) & ~tf.reduce_any(root, axis=1, keepdims=True) & (starts_B1 < stops_B1)
    codes_BS = tf.where(added, _ROOT, codes_BS)
    last_BS = tf.where(root | added, stops_B1, end_BS) - 1
    return tuple(tf.boolean_mask(values, held_BS | added) for values in (codes_BS, first_BS, last_BS))


def _slots(values_BT: Any, is_bracket: Any) -> Any:
    """[B, T] -> [B, S]: the values of the brackets, with 0 before and after."""
    return tf.pad(tf.ragged.boolean_mask(values_BT, is_bracket).to_tensor(), [[0, 0], [1, 1]])


def _ends(codes_BS: Any, num_codes: int) -> tuple[Any, Any]:
    """int32 [B, S] -> for each opening bracket the slot in which its phrase ends, and bool [B]: is one left open?

    Slots are counted over all sentences. A closing bracket that closes nothing is skipped. One that also closes phrases
    inside its own takes a step for each of them, so the sentences may be at different places. A phrase that nothing
    closes ends in the last slot.
    """
    rows, columns = tf.unstack(tf.shape(codes_BS))
    codes = tf.reshape(codes_BS, [-1])
    bottom_B = tf.range(rows) * columns
    labels_B = tf.range(rows) * num_codes  # where a sentence's labels start in `opened`

    def step(code_B: Any, at_B: Any, top_B: Any, links: Any, opened: Any) -> tuple[Any, ...]:
        opens = code_B > 0
        label = labels_B + tf.abs(code_B)
        closes = (code_B < 0) & (tf.gather(opened, label) > 0)
        top_code, around = tf.gather(codes, top_B), links.gather(top_B)
        with tf.control_dependencies([around]):  # `links` has been read and can be changed in place
            links = links.scatter(tf.where(closes, top_B, at_B), tf.where(closes, at_B, top_B))
        changed = tf.where(closes, labels_B + top_code, label)[:, None]
        opened = tf.tensor_scatter_nd_add(opened, changed, tf.cast(opens, tf.int32) - tf.cast(closes, tf.int32))
        top_B = tf.where(opens, at_B, tf.where(closes, around, top_B))
        at_B += tf.cast((code_B != 0) & (~closes | (top_code == -code_B)), tf.int32)
        return tf.gather(codes, at_B), at_B, top_B, links, opened

    start = (
        tf.gather(codes, bottom_B + 1),
        bottom_B + 1,  # the slot that is read
        bottom_B,  # the slot of the innermost open phrase
        # For each phrase: the one around it while it is open, then the slot in which it ends.
        tf.TensorArray(tf.int32, size=rows * columns, clear_after_read=False, element_shape=[]),
        tf.zeros([rows * num_codes], tf.int32),  # how many phrases of each label are open
    )
    _, _, top_B, links, _ = tf.while_loop(lambda code_B, *_: tf.reduce_any(code_B != 0), step, start)
    links_BS = tf.reshape(links.stack(), [rows, columns])
    slots_BS = tf.reshape(tf.range(rows * columns), [rows, columns])
    return tf.where(links_BS > slots_BS, links_BS, slots_BS[:, -1:]), top_B != bottom_B
