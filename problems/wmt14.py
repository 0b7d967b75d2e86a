"""wmt14_ende and wmt14_enfr: the paper's data (section 5.1), from TensorFlow Datasets or from files of one's own.

--raw_dir=DIR reads the files from the archives of WMT 2014 (docs/data.md lists their names). They may be in DIR or in
one folder inside it (training/, dev/, test-full/, ...); DIR itself comes first. Both sides of a pair must be in one
folder, plain or .gz. TensorFlow Datasets shuffles when it prepares data, so the lines of its test set are not in WMT's
order.
"""

import itertools
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from t2t_lite.data.sources import list_names, read_pairs
from t2t_lite.data.tfds import read_tfds
from t2t_lite.errors import DataError
from t2t_lite.problem import (
    SPLITS,
    VOCAB_TYPES,
    LineFiles,
    Problem,
    check_choice,
    check_cleaning,
    check_vocab_size,
    read_clean,
)
from t2t_lite.registry import register_problem
from t2t_lite.remote.mirror import fetch_url
from t2t_lite.remote.store import make_absolute

_TFDS_SPLITS = {"train": "train", "dev": "validation", "test": "test"}

# The paper's. WMT's archive test-filtered.tgz has a test set of 2,737 pairs under the same names, in the folder test.
_PAIRS = {"dev": 3000, "test": 3003}

_log = logging.getLogger("t2t_lite")

Names = tuple[str, str]  # of the files of the two sides, without .gz


class Wmt14(Problem):
    """What wmt14_ende and wmt14_enfr have in common.

    Args:
        raw_dir: a folder of the files; None: TensorFlow Datasets.
        vocab_size: another size than the paper's.
        vocab_type: as in Problem.
        clean, clean_max_words, clean_max_ratio: as in Problem.
    """

    source_language = "en"
    corpora: ClassVar[tuple[str, ...]]  # for training: the names of their files, up to the language

    def __init__(
        self,
        raw_dir: str | None = None,
        vocab_size: int | None = None,
        clean: bool | str | Sequence[str] = False,
        clean_max_words: int | None = None,
        clean_max_ratio: float | None = None,
        vocab_type: str | None = None,
    ) -> None:
        check_vocab_size(vocab_size)
        check_choice("vocab_type", vocab_type, VOCAB_TYPES)
        self.clean = read_clean(clean)
        check_cleaning(self.cleaning, clean_max_words, clean_max_ratio)
        given = {"clean_max_words": clean_max_words, "clean_max_ratio": clean_max_ratio, "vocab_type": vocab_type}
        self._added = {name: value for name, value in given.items() if value is not None}
        for name, value in self._added.items():
            setattr(self, name, value)
        self.raw_dir = None if raw_dir is None else make_absolute(raw_dir)
        self.vocab_size = vocab_size or self.vocab_size

    def samples(self, split: str) -> Iterator[tuple[str, str]]:
        """Yields the pairs of a split; DataError if they are not available."""
        if self.raw_dir is not None:
            pairs = itertools.chain.from_iterable(read_pairs(*files) for files in self._files(split).values())
            return self._count(pairs, split) if split in _PAIRS else pairs
        name = f"wmt14_translate/{self.target_language}-{self.source_language}"
        return read_tfds(name, _TFDS_SPLITS[split], self.source_language, self.target_language)

    def line_files(self) -> list[LineFiles] | None:
        """The training files in raw_dir."""
        if self.raw_dir is None:
            return None
        return [LineFiles(files, self.pair_languages()) for files in self._files("train").values()]

    def splits(self) -> tuple[str, ...]:
        """All three. With raw_dir, DataError unless all have files, and a warning if training corpora are missing."""
        if self.raw_dir is not None:
            train, *_ = [self._files(split) for split in SPLITS]
            missing = [corpus for corpus in self.corpora if self._names(corpus) not in train]
            if missing and self._names("train") not in train:
                _log.warning("%s is prepared without %s: not in %s.", self.name, ", ".join(missing), self.raw_dir)
        return SPLITS

    def source_files(self, split: str) -> list[Path]:
        """The files in raw_dir; none for TensorFlow Datasets, whose data sets have versions."""
        if self.raw_dir is None:
            return []
        return list(itertools.chain.from_iterable(self._files(split).values()))

    def options(self) -> dict[str, Any]:
        """The constructor's arguments, with an absolute raw_dir."""
        return {"raw_dir": self.raw_dir, "vocab_size": self.vocab_size, "clean": self.clean, **self._added}

    def settings(self) -> dict[str, Any]:
        """As in Problem, but without the options, as they are among the other settings."""
        return {**super().settings(), "options": {}}

    def _count(self, pairs: Iterator[tuple[str, str]], split: str) -> Iterator[tuple[str, str]]:
        """Yields the pairs, and warns after the last if they are not as many as the paper's."""
        count = 0
        for pair in pairs:
            count += 1
            yield pair
        if count != _PAIRS[split]:
            _log.warning(
                "%s: the %s set, %s, has %s pairs, but the paper's has %s, so scores do not compare with its scores.",
                self.name,
                split,
                self.source_files(split)[0],
                f"{count:,}",
                f"{_PAIRS[split]:,}",
            )

    def _files(self, split: str) -> dict[Names, tuple[Path, Path]]:
        """The files of a split: those of all training corpora found, otherwise those of the first names found."""
        root = Path(fetch_url(self.raw_dir or ""))
        if not root.is_dir():
            raise DataError(f"{root} is not a folder; --raw_dir is the folder that holds the files of WMT 2014.")
        folders = [root, *sorted(path for path in root.iterdir() if path.is_dir())]
        found = {}
        for names in self._candidates(split):
            if files := _find(folders, names):
                found[names] = files
                if split != "train" or names == self._names("train"):
                    break  # only the corpora are read one after another
        if not found:
            raise self._missing(split, folders)
        return found

    def _candidates(self, split: str) -> list[Names]:
        """The names that a split may have, preferred ones first."""
        if split == "train":
            return [self._names(stem) for stem in ("train", *self.corpora)]
        if split == "dev":
            return [self._names("newstest2013"), self._sgm_names("newstest2013")]
        pair = f"{self.target_language}{self.source_language}"
        plain = [self._names(stem) for stem in ("newstest2014", f"newstest2014.{pair}")]
        return [*plain, self._sgm_names(f"newstest2014-{pair}")]

    def _names(self, stem: str) -> Names:
        return f"{stem}.{self.source_language}", f"{stem}.{self.target_language}"

    def _sgm_names(self, stem: str) -> Names:
        return f"{stem}-src.{self.source_language}.sgm", f"{stem}-ref.{self.target_language}.sgm"

    def _missing(self, split: str, folders: list[Path]) -> DataError:
        wanted = ", or ".join(" and ".join(names) for names in self._candidates(split))
        found = list_names(path.name for folder in folders for path in folder.iterdir() if path.is_file())
        return DataError(
            f"{self.raw_dir} has no {split} files for {self.name}. Looked there, and in the folders in it, for "
            f"{wanted}; plain or .gz, both in one folder. Found {found}."
        )


def _find(folders: list[Path], names: Names) -> tuple[Path, Path] | None:
    """The files of the two sides in the one folder that has them, or in the first of `folders`, which comes before all.

    Raises:
        DataError: several other folders have both sides, or a folder has one side only.
    """
    found: list[tuple[Path, Path]] = []
    for folder in folders:
        there = [[path for path in (folder / name, folder / f"{name}.gz") if path.is_file()] for name in names]
        if there[0] and there[1]:
            found.append((there[0][0], there[1][0]))
            if folder == folders[0]:
                break
        for one, missing in zip(there, reversed(names), strict=True):
            if one and not found:
                raise DataError(
                    f"{folder} has {one[0].name} but not {missing} (nor {missing}.gz): both sides are needed."
                )
    if len(found) > 1:
        several = ", ".join(source.parent.name for source, _ in found)
        hint = " The paper's newstest2014 is in test-full of WMT's archives." if "newstest2014" in names[0] else ""
        raise DataError(
            f"{folders[0]} has {' and '.join(names)} in several folders, which may differ: {several}.{hint} Move all "
            f"but one away, or put the two files to use into {folders[0]} itself, which comes first."
        )
    return found[0] if found else None


@register_problem
class Wmt14Ende(Wmt14):
    """WMT 2014 English to German: 4.5M pairs, 37,000 shared pieces, newstest2013 and newstest2014 (section 5.1)."""

    target_language = "de"
    vocab_size = 37000
    corpora = ("europarl-v7.de-en", "commoncrawl.de-en", "news-commentary-v9.de-en")


@register_problem
class Wmt14Enfr(Wmt14):
    """WMT 2014 English to French: 36M pairs, 32,000 shared pieces, newstest2013 and newstest2014 (section 5.1)."""

    target_language = "fr"
    vocab_size = 32000
    corpora = (
        "europarl-v7.fr-en",
        "commoncrawl.fr-en",
        "news-commentary-v9.fr-en",
        "undoc.2000.fr-en",
        "giga-fren.release2.fixed",
    )
