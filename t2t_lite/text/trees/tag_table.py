"""Table of the tags that words may have, because EVALB leaves words out by their tags.

EVALB deletes words by their tags, such as those of punctuation, from the gold tree and from the model's tree before it
compares them. If the model's tag is wrong, EVALB may delete a word from one tree only. Then the sentence is in error
and drops out of the score. Mostly the word itself shows what is right: in the Wall Street Journal "," is always deleted
and "cat" never. Which words these are depends on the treebank ("-" is HYPH in one and ":" in another) and on EVALB's
parameters. So the table is learned from the training trees. It changes a model's tag only if the pair of word and tag
never occurred there.

The file tags.json of prepared data, of a run and of an export holds the counts from which the table is made, and the
model of the tags of all words (tag_model.py):

    {"version": 2, "deleted": [",", ".", ...], "words": {"-": {"HYPH": 1900, ":": 5}, ...}, "model": {...}}
"""

from __future__ import annotations

import dataclasses
import json
import logging
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from t2t_lite.errors import DataError, check_format
from t2t_lite.files import StrPath
from t2t_lite.text.codec import Learner, Pair
from t2t_lite.text.trees.tag_model import TAG as TAG
from t2t_lite.text.trees.tag_model import Counts, TagModel, TagModelCounts, check_counts
from t2t_lite.text.trees.tree import escape

TAGS_FILE = "tags.json"

FORMAT = 2
_FLUSH = 100_000  # number of different pairs to count before those that do not matter are dropped
# Words without letters and digits, and names of brackets such as -LRB- (Penn Treebank) or *LRB* (TIGER). In an exported
# graph, RE2 writes \W as [^\pL\pN]. The two differ only in characters that are new in the later of their two Unicode
# versions.
_BRACKET = r"-[LR][RCS]B-|\*[LR][RCS]B\*"
MARK = re.compile(rf"{_BRACKET}|[\W_]+")
_FIELD = re.compile(r"[^ \t\n\r\f\v]+")
MARK_RE2 = rf"{_BRACKET}|[^\pL\pN]+"

_log = logging.getLogger("t2t_lite")


@dataclasses.dataclass(frozen=True)
class TagTable:
    """Which tags are accepted for which words.

    Attributes:
        deleted: tags by which EVALB leaves a word out.
        words: each known word's own tag. It replaces a model's tag if only one of the two is in `deleted`. TAG says
            only that the word is not left out.
        pairs: (tag, word) that are accepted as they are: they occurred although only one of the tag and the word's own
            tag is in `deleted`, or the tag is TAG itself.
        open: tags in `deleted` that are mostly on words with letters or digits; they are accepted for all words that
            are not in `words`.
        learned: whether the table is from training trees. If so, an unknown word without letters and digits may have
            any tag, and TAG may be one of the treebank's own tags.
        counts: what the table was learned from.
        model: how likely words have tags.
    """

    deleted: frozenset[str]
    words: Mapping[str, str]
    pairs: frozenset[tuple[str, str]]
    open: frozenset[str] = frozenset()
    learned: bool = True
    counts: Counts = dataclasses.field(default_factory=dict, repr=False)
    model: TagModel = dataclasses.field(default_factory=TagModel, repr=False)

    @classmethod
    def of(cls, deleted: Collection[str], counts: Counts, model: TagModel) -> TagTable:
        """Makes the table from counts.

        Args:
            deleted: the tags that EVALB deletes.
            counts: for a word without letters and digits, all its tags; for any other word, only those in `deleted`.
            model: of the same trees.
        """
        tokens: Counter[str] = Counter()
        lettered: Counter[str] = Counter()
        for word, tags in counts.items():
            for tag in tags.keys() & set(deleted):
                tokens[tag] += tags[tag]
                lettered[tag] += 0 if MARK.fullmatch(word) else tags[tag]
        open_tags = frozenset(tag for tag in tokens if 2 * lettered[tag] > tokens[tag])
        words, pairs = {}, set()
        for word, tags in counts.items():
            # The other tags of a word with letters were not counted; that such a word is deleted is the exception.
            words[word] = own = _own(tags, deleted) if MARK.fullmatch(word) else TAG
            other = {tag for tag in tags if tag == TAG or (tag in deleted) != (own in deleted)}
            pairs |= {(tag, word) for tag in other}
        return cls(frozenset(deleted), words, frozenset(pairs), open_tags, counts=counts, model=model)

    def tag(self, tag: str, word: str) -> str:
        """Returns a word's tag after repair: the model's own tag, unless it cannot be right."""
        own = self.words.get(word)
        if own is None:
            believed = tag not in self.deleted or (self.learned and (tag in self.open or MARK.fullmatch(word)))
            return tag if believed else TAG
        if (tag, word) in self.pairs:
            return tag
        return own if tag == TAG or (tag in self.deleted) != (own in self.deleted) else tag

    def check_gold(self, split: str, pairs: Sequence[Pair]) -> None:
        """Warns of gold trees that are in error even if a model writes them, because their tags would be changed."""
        found = []
        for pair in pairs:
            leaves = _leaves(pair) or ()
            changed = [leaf for leaf in leaves if (self.tag(*leaf) in self.deleted) != (leaf[0] in self.deleted)]
            found += changed[:1]
        if found:
            _log.warning(
                "%s of %s %s trees have a word, such as (%s %s), that EVALB leaves out there and keeps in the training "
                "trees, or the reverse. A model's tag is changed there even if it is right: the sentence is in error.",
                f"{len(found):,}",
                f"{len(pairs):,}",
                split,
                *found[0],
            )

    def describe(self) -> str:
        if not self.learned:
            return "the Wall Street Journal's, by word"
        return f"learned from the training trees; words: {len(self.words):,}; deleted: {' '.join(sorted(self.deleted))}"

    def to_json(self) -> str:
        """Returns the text of tags.json."""
        table = {"version": FORMAT, "deleted": sorted(self.deleted), "words": self.counts}
        values = {**table, "model": self.model.to_values()}
        return json.dumps(values, indent=1, ensure_ascii=False) + "\n"


def _own(tags: Mapping[str, int], deleted: Collection[str]) -> str:
    """Returns a word's most frequent tag in `deleted` if it is mostly deleted, else outside; TAG if always kept."""
    of_side = {side: {tag: n for tag, n in tags.items() if (tag in deleted) == side} for side in (True, False)}
    if not of_side[True]:
        return TAG
    often = max((False, True), key=lambda side: sum(of_side[side].values()))
    return min(of_side[often], key=lambda tag: (-of_side[often][tag], tag))


def _leaves(pair: Pair) -> list[tuple[str, str]] | None:
    """The (tag, word) of each word; None if there are more or fewer tags than words."""
    words, symbols = (_FIELD.findall(side) for side in (escape(pair[0]), pair[1]))
    tags = [symbol for symbol in symbols if symbol[0] not in "()"]
    return list(zip(tags, words, strict=True)) if len(tags) == len(words) else None


# The Penn Treebank's tags of these words, in 10,781 of 10,791 cases in its WSJ sample; otherwise ' is a quotation mark.
PUNCTUATION = {
    ",": ",",
    **dict.fromkeys([".", "?", "!"], "."),
    **dict.fromkeys([":", ";", "--", "-", "..."], ":"),
    **dict.fromkeys(["``", "`"], "``"),
    **dict.fromkeys(["''", '"'], "''"),
    "'": "POS",
}
_WSJ_MARKS = (",", ".", ":", "``", "''")
# For data and runs that have no table of their own.
WSJ = TagTable(frozenset(_WSJ_MARKS), PUNCTUATION, frozenset((tag, "'") for tag in _WSJ_MARKS), learned=False)


class TagLearner(Learner):
    """Learns a table and a model from training pairs as they pass; the number of words in memory is bounded.

    Args:
        deleted: the tags that EVALB deletes.
    """

    def __init__(self, deleted: Collection[str]) -> None:
        self._deleted = frozenset(deleted)
        self._pairs: Counter[tuple[str, str]] = Counter()  # (tag, word)
        self._counts: dict[str, Counter[str]] = defaultdict(Counter)
        self._model = TagModelCounts()
        self._tags: set[str] = set()
        self._unequal = 0

    def watch(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """Yields (words, symbols of a tree) as they come, and counts their tags."""
        for pair in pairs:
            leaves = _leaves(pair)
            if leaves is None:
                self._unequal += 1
            else:
                self._pairs.update(leaves)
                self._model.add_symbols(_FIELD.findall(pair[1]))
            if len(self._pairs) > _FLUSH:
                self._flush()
            yield pair

    def table(self) -> TagTable | None:
        """Returns the table from the counts; None if the only tag in the trees is TAG, which says nothing."""
        self._flush()
        if self._unequal:
            _log.warning(
                "%s training pairs have more or fewer tags than words; nothing is learned from their tags.",
                f"{self._unequal:,}",
            )
        if not self._tags - {TAG}:
            return None
        counts = {word: dict(sorted(tags.items())) for word, tags in sorted(self._counts.items())}
        return TagTable.of(self._deleted, counts, self._model.model())

    def files(self, others: Mapping[str, Sequence[Pair]]) -> dict[str, str]:
        table = self.table()
        if table is None:
            return {}
        for split, pairs in others.items():
            table.check_gold(split, pairs)
        return {TAGS_FILE: table.to_json()}

    def _flush(self) -> None:
        self._model.add_pairs(self._pairs.items())
        for (tag, word), count in self._pairs.items():
            self._tags.add(tag)
            if tag in self._deleted or MARK.fullmatch(word):
                self._counts[word][tag] += count
        self._pairs.clear()


def load_table(folder: StrPath) -> TagTable:
    """Reads tags.json of a folder; if there is none, logs a warning and returns WSJ.

    Raises:
        DataError: the file is damaged.
    """
    path = Path(folder) / TAGS_FILE
    try:
        return parse_table(path.read_bytes(), path)
    except FileNotFoundError:
        _log.warning(
            "%s has no %s, as its training trees have no tags. Punctuation gets the Wall Street Journal's tags, by "
            "word.",
            folder,
            TAGS_FILE,
        )
        return WSJ


def parse_table(content: str | bytes, name: StrPath) -> TagTable:
    """Returns the table from the content of a tags.json; DataError, with `name`, if it is not a table."""
    try:
        values = json.loads(content)
        check_format(name, values.get("version"), FORMAT)
        model = TagModel.from_values(values["model"])
        table = TagTable.of(values["deleted"], check_counts(values["words"]), model)
        table.to_json().encode()  # no half surrogate pairs
    except DataError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"{name} is damaged: it holds no table of tags. Prepare the data again.") from error
    return table
