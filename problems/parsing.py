"""Constituency parsing (section 6.3): a sentence's words in, its tree out; the Penn Treebank's, or one's own trees.

Vocabularies. The words are the treebank's own tokens, separated by spaces ("do n't", "-LRB-"). A sentence to be parsed
must come in the same form. Words are cut, with their case, into byte-pair pieces learnt from the training sentences. An
unknown word is spelt out in pieces that it shares with known words, and their endings and capitals say much about its
part of speech. The trees' symbols have a vocabulary of their own, with one piece for each symbol. So a model can write
nothing but symbols, and the length of an output counts symbols. (The paper has 16K and 32K "tokens" and gives no
details; tensor2tensor had 512 pieces for the words and 16K for the trees.)

Trees are normalised: no traces, function tags or empty phrases; unary chains stay. Each word's own part of speech is a
symbol, as in tensor2tensor; Vinyals et al. (2015) wrote XX for all.
"""

import itertools
import logging
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from t2t_lite.data.corpus_files import SPLIT_NAMES
from t2t_lite.data.sources import each_once, list_names, read_lines
from t2t_lite.errors import DataError
from t2t_lite.metrics.bracketing import Bracketing
from t2t_lite.metrics.evalb_parameters import Parameters, read_parameters
from t2t_lite.problem import SPLITS, Problem, check_vocab_size
from t2t_lite.registry import register_problem
from t2t_lite.remote.mirror import fetch_url
from t2t_lite.remote.store import make_absolute
from t2t_lite.text.codec import Learner
from t2t_lite.text.trees.codec import IN_ORDER, InOrderCodec, TreeCodec
from t2t_lite.text.trees.in_order import to_in_order
from t2t_lite.text.trees.linearize import linearize
from t2t_lite.text.trees.odd_leaves import odd_name, without
from t2t_lite.text.trees.tag_table import TagLearner
from t2t_lite.text.trees.tree import Tree, normalize, read_trees

from . import augment

# Of the Wall Street Journal, as parsers have been trained and tested on since Collins (1997).
_SECTIONS = {"train": range(2, 22), "dev": range(22, 23), "test": range(23, 24)}
# Where the LDC's discs have the sections.
_WSJ_FOLDERS = ("", "wsj", "mrg/wsj", "combined/wsj", "parsed/mrg/wsj", "package/treebank_3/parsed/mrg/wsj")

Linearization = Literal["bracketed", "in_order"]

_log = logging.getLogger("t2t_lite")


class ParsingProblem(Problem):
    """A problem whose samples are trees.

    evalb: EVALB's parameters, by which trees are scored and the tags of words learned; a class or its constructor sets
        them. None: those of COLLINS.prm, which are for the Penn Treebank's tags.
    """

    default_hparams = "parsing"
    source_language = "en"
    target_language = "tree"
    codec = TreeCodec()
    shared_vocab = False
    metric = "evalb"
    evalb: Parameters | None = None
    _said: frozenset[str] = frozenset()

    def trees(self, split: str) -> Iterator[Tree]:
        """Yields the trees of a split, as the treebank has them."""
        raise NotImplementedError(f"{type(self).__name__} must define trees(split).")

    def samples(self, split: str) -> Iterator[tuple[str, str]]:
        """Yields (words, symbols) of the trees that hold words; then says, once, what else there was."""
        without_words, first = 0, ""
        odd: Counter[str] = Counter()
        examples: dict[str, str] = {}
        for number, tree in enumerate(self.trees(split), start=1):
            normal = normalize(tree)
            if normal is None:
                without_words += 1
                first = first or f"tree {number:,}, {tree!s:.60}"
                continue
            for leaf in normal.leaves:
                if (name := odd_name(leaf)) is not None:
                    odd[name] += 1
                    examples.setdefault(name, f"({leaf.tag} {leaf.word:.60}) in tree {number:,}")
            yield _words_and_symbols(normal)
        self.left_out = {**self.left_out, split: {"without words": without_words}}
        if without_words:
            self._say(logging.INFO, f"{split}: trees without words are left out: {without_words:,}, first {first}.")
        if odd:
            listed = ", ".join(f"{name} {count:,} (first {examples[name]})" for name, count in odd.most_common())
            self._say(
                logging.WARNING,
                f"{split}: {odd.total():,} leaves look like notes or empty elements of the treebank, but are taken for "
                f"words: {listed}. {self._way_to_drop([name for name, _ in odd.most_common()])}",
            )

    def _way_to_drop(self, names: list[str]) -> str:
        return "To leave them out, take them out of the files."

    def _say(self, level: int, message: str) -> None:
        """Says something once, however often the trees are read."""
        if message not in self._said:
            self._said |= {message}
            _log.log(level, "%s", message)

    def make_learner(self) -> Learner:
        return super().make_learner() if self.evalb is None else TagLearner(self.evalb.delete_label)

    def make_metric(self) -> Bracketing:
        return Bracketing(self.evalb)

    def settings(self) -> dict[str, Any]:
        return super().settings() | self._prm()

    def _prm(self) -> dict[str, Any]:
        return {} if self.evalb is None else {"prm": self.evalb.as_dict()}


def as_pair(tree: Tree) -> tuple[str, str] | None:
    """Returns the words of a tree and its symbols, each separated by spaces; None if it holds no words but traces."""
    normal = normalize(tree)
    return None if normal is None else _words_and_symbols(normal)


def _words_and_symbols(normal: Tree) -> tuple[str, str]:
    return " ".join(normal.words), " ".join(linearize(normal))


def _read(paths: Iterable[Path]) -> Iterator[Tree]:
    return itertools.chain.from_iterable(read_trees(read_lines(path), path) for path in paths)


class FolderProblem(ParsingProblem):
    """Trees in the files of a folder.

    Args:
        source_dir: the folder.
        vocab_size: pieces of the words' vocabulary; None: the problem's own number.
        linearization: how trees are learned: "bracketed", or "in_order" (t2t_lite/text/trees/in_order.py).
    """

    def __init__(
        self, source_dir: str, vocab_size: int | None = None, linearization: Linearization = "bracketed"
    ) -> None:
        check_vocab_size(vocab_size)
        if linearization == IN_ORDER:
            self.codec = InOrderCodec()
        self.source_dir = make_absolute(source_dir)
        self.vocab_size = vocab_size or self.vocab_size

    def trees(self, split: str) -> Iterator[Tree]:
        files = self.source_files(split)
        return super().trees(split) if files is None else _read(map(Path, files))

    def bracketed(self, split: str) -> Iterator[tuple[str, str]]:
        """Yields what `samples` yields, with symbols in brackets."""
        return super().samples(split)

    def samples(self, split: str) -> Iterator[tuple[str, str]]:
        for words, symbols in self.bracketed(split):
            in_order = isinstance(self.codec, InOrderCodec)
            yield words, " ".join(to_in_order(symbols.split(" "))) if in_order else symbols

    def options(self) -> dict[str, Any]:
        changed = {"linearization": IN_ORDER} if isinstance(self.codec, InOrderCodec) else {}
        return {"source_dir": self.source_dir, "vocab_size": self.vocab_size, **changed}


@register_problem
class Treebank(FolderProblem):
    """Your own trees: a folder with train.trees, dev.trees, perhaps test.trees (or .mrg, .txt, ...; plain or .gz).

    Args:
        source_dir, vocab_size, linearization: as of FolderProblem.
        exchanges: also train on this many copies of each tree, in which words are replaced by others of the same part
            of speech. On few trees, a model learns the sentences by heart instead of looking at their words.
        phrases: also train on every phrase of more than one word, as if it were a sentence. On few trees, a model first
            learns from short ones which word comes next.
        prm: EVALB's parameters for scoring the trees: a .prm file, or its content as `options` has it; None:
            those of COLLINS.prm, which are for the Penn Treebank's tags.
        drop: what is left out of the trees, with commas between: labels of words and phrases, such as ID and CODE, and
            empty elements, such as *con* and 0, as the warning about them has it.
    """

    vocab_size = 8000

    def __init__(
        self,
        source_dir: str,
        vocab_size: int | None = None,
        exchanges: int | None = None,
        phrases: bool = False,
        prm: str | Mapping[str, Any] | None = None,
        drop: str = "",
        linearization: Linearization = "bracketed",
    ) -> None:
        super().__init__(source_dir, vocab_size, linearization)
        self.exchanges, self.phrases = exchanges or 0, phrases
        self.drop = tuple(name.strip() for name in drop.split(",") if name.strip())
        if isinstance(prm, str):
            prm = os.path.expanduser(prm)
            self.evalb = read_parameters(read_lines(prm), prm)
        elif prm is not None:
            self.evalb = Parameters.from_dict(prm)

    def trees(self, split: str) -> Iterator[Tree]:
        trees = super().trees(split)
        return (without(tree, self.drop) for tree in trees) if self.drop else trees

    def _way_to_drop(self, names: list[str]) -> str:
        return f"To leave them out: --problem_options='drop={','.join((*self.drop, *names))}'."

    def bracketed(self, split: str) -> Iterator[tuple[str, str]]:
        pairs = super().bracketed(split)
        if split == "train":
            pairs = augment.exchange_words(pairs, self.exchanges) if self.exchanges else pairs
            pairs = itertools.chain.from_iterable(map(augment.split_phrases, pairs)) if self.phrases else pairs
        return pairs

    def source_files(self, split: str) -> list[Path]:
        files = self._find_files(split)
        if not files:
            found = list_names(path.name for path in Path(fetch_url(self.source_dir)).iterdir())
            names = ", ".join(f"{name}.trees" for name in SPLIT_NAMES[split])
            raise DataError(
                f"{self.source_dir} has no {split} trees. Looked for a file called {names} (or .mrg, .txt, ...), plain "
                f"or compressed; found {found}."
            )
        return files

    def splits(self) -> tuple[str, ...]:
        """The splits that the folder holds; DataError unless train and dev are among them."""
        for split in ("train", "dev"):
            self.source_files(split)
        return SPLITS if self._find_files("test") else SPLITS[:2]

    def options(self) -> dict[str, Any]:
        # Not the file's path: it may change, or be gone when the run is opened.
        drop = {"drop": ",".join(self.drop)} if self.drop else {}
        return {**super().options(), "exchanges": self.exchanges, "phrases": self.phrases, **drop, **self._prm()}

    def _find_files(self, split: str) -> list[Path]:
        folder = Path(fetch_url(self.source_dir))
        if not folder.is_dir():
            raise DataError(f"{folder} is not a folder; --source_dir is the folder that holds your files of trees.")
        pattern = re.compile(rf"(?:{'|'.join(SPLIT_NAMES[split])})(?:\..+)?")
        found = sorted(path for path in folder.iterdir() if pattern.fullmatch(path.name) and path.is_file())
        if len(found) > 1:
            raise DataError(
                f"{folder}: several files could be the {split} trees: {list_names(path.name for path in found)}. "
                "Keep one of them there."
            )
        return found


@register_problem
class WsjParsing(FolderProblem):
    """The Penn Treebank's Wall Street Journal: sections 02-21 to train on, 22 dev, 23 test; --source_dir has them.

    The paper's WSJ-only setting (section 6.3): about 40,000 sentences, a vocabulary of 16K. The folder holds the
    sections 02 to 23, or is a copy of the LDC's disc; files *.mrg, plain or .gz.
    """

    vocab_size = 16000

    def source_files(self, split: str) -> list[Path]:
        root = self._root()
        return [path for number in _SECTIONS[split] for path in _section(root / f"{number:02}")]

    def splits(self) -> tuple[str, ...]:
        """All three; DataError where the folder of a section is missing or empty."""
        for split in SPLITS:
            self.source_files(split)
        return SPLITS

    def _root(self) -> Path:
        for folder in _WSJ_FOLDERS:
            if (root := Path(fetch_url(self.source_dir), folder)).joinpath("23").is_dir():
                return root
        raise DataError(
            f"{self.source_dir} does not hold the sections of the Wall Street Journal: there is no folder 23 in it, "
            f"nor in {', '.join(_WSJ_FOLDERS[1:])} inside it. Give the folder that holds 00 to 24 with --source_dir."
        )


def _section(folder: Path) -> list[Path]:
    files = sorted(path for path in folder.glob("*") if re.fullmatch(r"(?i)[^.].*\.mrg(\.gz)?", path.name))
    if not files:
        raise DataError(f"{folder}: there is no such folder, or it has no .mrg files.")
    return each_once(files)


@register_problem
class WsjParsingSemi(WsjParsing):
    """wsj_parsing with more trees to train on, such as another parser's: the files in --extra_dir, one after the other.

    The paper's semi-supervised setting (section 6.3): 17 million more sentences, a vocabulary of 32K. They are read as
    a stream.

    Args:
        source_dir, vocab_size, linearization: as of wsj_parsing.
        extra_dir: a folder of files of trees, plain or .gz; folders inside it are searched as well.
    """

    default_hparams = "parsing_semi"
    vocab_size = 32000

    def __init__(
        self,
        source_dir: str,
        extra_dir: str,
        vocab_size: int | None = None,
        linearization: Linearization = "bracketed",
    ) -> None:
        super().__init__(source_dir, vocab_size, linearization)
        self.extra_dir = make_absolute(extra_dir)

    def source_files(self, split: str) -> list[Path]:
        return [*super().source_files(split), *(self._extra_files() if split == "train" else [])]

    def options(self) -> dict[str, Any]:
        return {**super().options(), "extra_dir": self.extra_dir}

    def _extra_files(self) -> list[Path]:
        files = sorted(p for p in Path(fetch_url(self.extra_dir)).rglob("*") if p.is_file() and p.name[0] != ".")
        if not files:
            raise DataError(f"--extra_dir={self.extra_dir}: there is no such folder, or it has no files.")
        return each_once(files)
