"""File names of a corpus: the training, dev and test files of two languages in a folder."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from t2t_lite.data import compressed, parquet, tables
from t2t_lite.data.sources import list_names, read_lines, read_pairs
from t2t_lite.errors import DataError

SPLIT_NAMES = {"train": ("train",), "dev": ("dev", "val", "valid", "validation"), "test": ("test",)}
# Words of a corpus' name that say dev or test data; ELRC-Regional_development and latest do not.
_EVALUATION = re.compile(r"(?i:(?:news(?:discuss)?)?(?:dev|test|valid|devel|devset|testset|devtest|validation))")
_WORD_END = re.compile(r"[\W\d_]+|(?<=[a-z])(?=[A-Z])")

Languages = tuple[str, str]
OnDamaged = tables.OnDamaged
Part = tuple[Path, ...]  # one table, or two files of lines: source and target


def read_part(part: Part, languages: Languages, leave_out: OnDamaged | None = None) -> Iterator[tuple[str, str]]:
    """Yields the pairs of a table or of two files of lines; `leave_out`: as of tables.read_table."""
    return tables.read_table(part[0], languages, leave_out) if len(part) == 1 else read_pairs(*part)


def find_files(
    folder: str, split: str, languages: Languages, say: Callable[[str], None] = lambda _: None
) -> list[Part]:
    """Returns the files of a split; several parts only of Parquet in several files, or of corpora with OPUS names.

    Args:
        say: is called with a sentence on which corpora were taken by OPUS names, and which were not, and on a test set
            with one side only, which is no test set.

    Raises:
        DataError: no such folder, one side only of train or dev, several files that could be meant, or Parquet of
            which a file is missing.
    """
    if not Path(folder).is_dir():
        raise DataError(f"{folder} is not a folder; --source_dir is the folder that holds your text files.")
    name = rf"(?:{'|'.join(SPLIT_NAMES[split])})(?:[_.].*)?"
    stems = _find_stems(folder, name, languages)
    whole = {stem: parts for stem, files in stems.items() if (parts := _parts(files, languages))}
    for plain in SPLIT_NAMES[split]:
        if several := parquet.find_parts(Path(folder), plain):
            whole.setdefault(plain, []).extend(several)
    if whole:
        # Plain names, such as train.en, take precedence over longer ones, such as train.clean.en.
        chosen = {stem: parts for stem, parts in whole.items() if stem in SPLIT_NAMES[split]} or whole
        found = _only([parts for of_stem in chosen.values() for parts in of_stem], folder, split)
        return _with_targets(found, folder, split, languages, say)
    if stems and split == "test":
        there, other = _sides(stems, languages)
        say(_describe_half(folder, there, other))
        return []
    if stems:
        raise _one_side_only(folder, stems, languages)
    opus = _opus_files(folder, languages, say) if split == "train" else []
    json_files = _find_stems(folder, name, languages, (tables.JSON,))
    if opus or not (part := _json_file(folder, split, json_files, languages)):
        return opus
    return _with_targets([part], folder, split, languages, say)


def _with_targets(
    parts: list[Part], folder: str, split: str, languages: Languages, say: Callable[[str], None]
) -> list[Part]:
    """Returns the parts; none for a test set without references, as shared tasks hand them out."""
    if split != "test":
        return parts
    for part in parts:
        if tables.has_targets(part[0], languages) if len(part) == 1 else any(map(str.strip, read_lines(part[1]))):
            return parts
    say(_describe_half(folder, parts[0][0].name, "targets"))
    return []


def _describe_half(folder: str, there: str, missing: str) -> str:
    advice = f"t2t-lite-decoder --input={Path(folder, there)} translates it"
    if compressed.split_suffix(there)[0].endswith((*tables.SUFFIXES, tables.JSON)):
        advice = "copy its sources to a file of lines, which t2t-lite-decoder --input=FILE translates"
    return f"{folder}: {there} has no {missing}, so there is no test set; {advice}."


def _json_file(folder: str, split: str, stems: dict[str, dict[str, list[Path]]], languages: Languages) -> Part | None:
    """The .json file of a split, as other scripts call files with an object a line; files of settings are no data."""
    paths = {stem: path for stem, files in stems.items() for paths in files.values() for path in paths}
    plain = [path for stem, path in paths.items() if stem in SPLIT_NAMES[split]]
    found: list[Part] = [(path,) for path in plain or paths.values() if plain or tables.has_objects(path, languages)]
    return _only([[part] for part in found], folder, split)[0] if found else None


def has_language(folder: str, language: str) -> bool:
    """Whether the folder holds files of lines whose names end in a language."""
    pattern = re.compile(rf".+\.{re.escape(language)}(?:\.txt)?")
    try:
        return any(pattern.fullmatch(compressed.split_suffix(path.name)[0]) for path in Path(folder).iterdir())
    except OSError:  # no such folder, for example
        return False


def describe_missing(folder: str, split: str, languages: Languages) -> DataError:
    """The error about a folder without files of a split; it says what would work."""
    names, (source, target) = SPLIT_NAMES[split], languages
    wanted = " or ".join(f"{name}.{source} and {name}.{target}" for name in names)
    opus = f", for files with OPUS names (NAME.{'-'.join(sorted(languages))}.{source})" if split == "train" else ""
    held_out = " --dev_lines=1000 would hold 1000 pairs out of the training data instead." if split == "dev" else ""
    found = list_names(path.name + "/" * path.is_dir() for path in Path(folder).iterdir())
    return DataError(
        f"{folder} has no {split} files. Looked for {wanted} (.txt may follow), for {names[0]}.tsv, .csv, .jsonl, "
        f".json or .parquet{opus}, plain or compressed ({', '.join(compressed.SUFFIXES)}); found {found}.{held_out}"
    )


def _find_stems(
    folder: str, stem: str, languages: Languages, suffixes: Sequence[str] = tables.SUFFIXES
) -> dict[str, dict[str, list[Path]]]:
    """Returns the files by stem (the name before the language or .tsv), then by language or .tsv."""
    codes, suffix = ("|".join(map(re.escape, names)) for names in (languages, suffixes))
    pattern = re.compile(rf"({stem})(?:\.({codes})(?:\.txt)?|({suffix}))")
    stems: dict[str, dict[str, list[Path]]] = {}
    for path in sorted(Path(folder).iterdir()):
        match = pattern.fullmatch(compressed.split_suffix(path.name)[0])
        if match and path.is_file():
            stems.setdefault(match[1], {}).setdefault(match[2] or match[3], []).append(path)
    return stems


def _parts(files: dict[str, list[Path]], languages: Languages) -> list[list[Part]]:
    """Returns what the files of a stem can be read as: each table, and each source file with each target file."""
    sources, targets = (files.get(language, []) for language in languages)
    whole: list[list[Part]] = [[(path,)] for suffix in tables.SUFFIXES for path in files.get(suffix, [])]
    return whole + [[(source, target)] for source in sources for target in targets]


def _only(candidates: list[list[Part]], folder: str, split: str) -> list[Part]:
    if len(candidates) == 1:
        return candidates[0]
    names = sorted({str(path.relative_to(folder)) for parts in candidates for part in parts for path in part})
    raise DataError(
        f"{folder}: several files could be the {split} data: {', '.join(names)}. Keep one pair (or one table) there."
    )


def _opus_files(folder: str, languages: Languages, say: Callable[[str], None]) -> list[Part]:
    """The corpora with OPUS names, such as Europarl.de-en.de, except those named like dev or test data.

    Names that begin with a dot, such as macOS' ._Europarl.de-en.de, hold no text.
    """
    one, other = map(re.escape, languages)
    stems = _find_stems(folder, rf"[^.].*\.(?:{one}-{other}|{other}-{one})", languages)
    held_back = [stem for stem in stems if any(map(_EVALUATION.fullmatch, _WORD_END.split(stem)))]
    stems = {stem: files for stem, files in stems.items() if stem not in held_back}
    if stems:
        say(f"{folder}: training data by OPUS names: {list_names(stems)}.")
    if held_back:
        say(f"{folder}: no training data, as their names say dev, test or valid: {list_names(held_back)}.")
    for stem, files in stems.items():
        if not _parts(files, languages):
            raise _one_side_only(folder, {stem: files}, languages)
    return [part for files in stems.values() for part in _only(_parts(files, languages), folder, "train")]


def _sides(stems: dict[str, dict[str, list[Path]]], languages: Languages) -> tuple[str, str]:
    """Returns the name of a file that is there, and the name of its other side, which is not."""
    stem, sides = next(iter(stems.items()))
    there = next(iter(sides.values()))[0].name
    return there, f"{stem}.{languages[1] if languages[0] in sides else languages[0]}"


def _one_side_only(folder: str, stems: dict[str, dict[str, list[Path]]], languages: Languages) -> DataError:
    there, other = _sides(stems, languages)
    found = ", ".join(sorted(path.name for sides in stems.values() for side in sides.values() for path in side))
    return DataError(
        f"{folder} has {there} but not {other} (nor {other}.gz): both sides are needed, with equal names before "
        f"the language. Found: {found}."
    )
