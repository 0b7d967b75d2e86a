"""text2text: a folder of your own text files, no code."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from t2t_lite.data.sources import list_names, read_pairs
from t2t_lite.errors import DataError, UsageError, did_you_mean
from t2t_lite.problem import SPLITS, Problem, check_vocab_size
from t2t_lite.registry import register_problem

_NAMES = {"train": ("train",), "dev": ("dev", "val", "valid"), "test": ("test",)}
_METRICS = ("bleu", "bleu_lc", "bleu_tok_lc", "chrf", "bleu_paper")
_VOCAB_TYPES = ("bpe", "unigram")


@register_problem
class Text2text(Problem):
    """Your own folder: train.en and train.de, dev.en and dev.de, perhaps test.en and test.de (plain or .gz).

    Files may be called SPLIT[_anything][.anything].LANGUAGE[.gz], such as test_2016_flickr.lc.tok.en.gz, with dev,
    val or valid for dev; SPLIT.LANGUAGE goes before longer names. The folder is read by `splits` and `samples` only,
    so that a trained run can be opened without it.

    Args:
        source_dir: the folder.
        languages: source and target as the files' names end, such as "en-de".
        vocab_size, vocab_type, shared_vocab, metric, clean: as in Problem; vocab_size is 8000 unless given.

    Raises:
        UsageError: an option that cannot be right.
    """

    vocab_size = 8000

    def __init__(
        self,
        source_dir: str,
        languages: str,
        vocab_size: int | None = None,
        vocab_type: str | None = None,
        shared_vocab: bool | None = None,
        metric: str | None = None,
        clean: bool = False,
    ) -> None:
        codes = re.fullmatch(r"(\w+)-(\w+)", languages)
        if not codes or codes[1] == codes[2]:
            raise UsageError(
                f"--languages={languages} is not two different language codes with a hyphen between, such as en-de."
            )
        check_vocab_size(vocab_size)
        _check_choice("vocab_type", vocab_type, _VOCAB_TYPES)
        _check_choice("metric", metric, _METRICS)
        self.source_dir = os.path.abspath(os.path.expanduser(source_dir))
        self.source_language, self.target_language = codes[1], codes[2]
        self.clean = clean
        given = {"vocab_size": vocab_size, "vocab_type": vocab_type, "shared_vocab": shared_vocab, "metric": metric}
        for name, value in given.items():
            if value is not None:
                setattr(self, name, value)

    def samples(self, split: str) -> Iterator[tuple[str, str]]:
        """Yields the pairs of a split; DataError where files are missing, ambiguous or faulty."""
        yield from read_pairs(*self.source_files(split))

    def splits(self) -> tuple[str, ...]:
        """The splits that the folder holds; DataError unless train and dev are among them."""
        found = [s for s in SPLITS if find_files(self.source_dir, s, self.source_language, self.target_language)]
        for split in ("train", "dev"):
            if split not in found:
                raise self._missing(split)
        return tuple(found)

    def source_files(self, split: str) -> list[Path]:
        """The files of a split; DataError as `samples`."""
        files = find_files(self.source_dir, split, self.source_language, self.target_language)
        if files is None:
            raise self._missing(split)
        return list(files)

    def options(self) -> dict[str, Any]:
        """The constructor's arguments, with an absolute source_dir."""
        return {
            "source_dir": self.source_dir,
            "languages": f"{self.source_language}-{self.target_language}",
            "vocab_size": self.vocab_size,
            "vocab_type": self.vocab_type,
            "shared_vocab": self.shared_vocab,
            "metric": self.metric,
            **({"clean": True} if self.clean else {}),  # so that runs of before there was cleaning go on
        }

    def settings(self) -> dict[str, Any]:
        """As in Problem, without the options: they stand there already, and metric changes no data."""
        return {**super().settings(), "options": {}}

    def _missing(self, split: str) -> DataError:
        source, target = self.source_language, self.target_language
        wanted = " or ".join(f"{name}.{source} and {name}.{target}" for name in _NAMES[split])
        found = list_names(path.name for path in Path(self.source_dir).iterdir() if path.is_file())
        return DataError(f"{self.source_dir} has no {split} files. Looked for {wanted}, plain or .gz; found {found}.")


def find_files(folder: str, split: str, source: str, target: str) -> tuple[Path, Path] | None:
    """Returns the files of the two sides of a split, or None where there is neither.

    Raises:
        DataError: no such folder, one side only, or several files that could be meant.
    """
    if split not in _NAMES:
        raise UsageError(f"There is no split {split!r}; there are {', '.join(SPLITS)}.")
    if not Path(folder).is_dir():
        raise DataError(f"{folder} is not a folder; --source_dir is the folder that holds your text files.")
    stems = _stems(folder, split, source, target)
    if not stems:
        return None
    whole = {stem: sides for stem, sides in stems.items() if len(sides) == 2}
    if not whole:
        raise _one_side_only(folder, stems, source, target)
    # The plain names, such as train.en, go before longer ones, such as train.clean.en.
    chosen = {stem: sides for stem, sides in whole.items() if stem in _NAMES[split]} or whole
    paths = [path for sides in chosen.values() for side in sides.values() for path in side]
    if len(paths) != 2:
        names = ", ".join(sorted(path.name for path in paths))
        raise DataError(
            f"{folder}: several files could be the {split} data: {names}. Keep one pair there, or call the pair that "
            f"you mean {split}.{source} and {split}.{target}."
        )
    sides = next(iter(chosen.values()))
    return sides[source][0], sides[target][0]


def _stems(folder: str, split: str, source: str, target: str) -> dict[str, dict[str, list[Path]]]:
    """Returns the files of a split by the part of their names before the language, then by language."""
    languages = "|".join(map(re.escape, (source, target)))
    pattern = re.compile(rf"((?:{'|'.join(_NAMES[split])})(?:[_.].*)?)\.({languages})(?:\.gz)?")
    stems: dict[str, dict[str, list[Path]]] = {}
    for path in sorted(Path(folder).iterdir()):
        match = pattern.fullmatch(path.name)
        if match and path.is_file():
            stems.setdefault(match[1], {}).setdefault(match[2], []).append(path)
    return stems


def _one_side_only(folder: str, stems: dict[str, dict[str, list[Path]]], source: str, target: str) -> DataError:
    stem, sides = next(iter(stems.items()))
    there = next(iter(sides.values()))[0].name
    missing = f"{stem}.{target if source in sides else source}"
    found = ", ".join(sorted(path.name for sides in stems.values() for side in sides.values() for path in side))
    return DataError(
        f"{folder} has {there} but not {missing} (nor {missing}.gz): both sides are needed, with equal names before "
        f"the language. Found: {found}."
    )


def _check_choice(name: str, value: str | None, choices: tuple[str, ...]) -> None:
    if value is not None and value not in choices:
        raise UsageError(f"--{name}={value} is not one of: {', '.join(choices)}.{did_you_mean(value, choices)}")
