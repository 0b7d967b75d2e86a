"""Files of a folder with a Marian model, as OPUS-MT releases it or as a training leaves it."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from t2t_lite.errors import DataError, UsageError
from t2t_lite.export.marian_layout import KEY
from t2t_lite.importers import marian_cleaning
from t2t_lite.importers.marian_files import Arrays, inside, read_yaml
from t2t_lite.importers.marian_vocabulary import (
    MarianVocabulary,
    check_pieces,
    load_sentencepiece,
    read_pieces,
)
from t2t_lite.text.labels import is_label

_OF_TRAINING = (".optimizer.npz", ".ema.npz")  # beside a model; not needed
_SPM = ("source.spm", "target.spm")
_LARGEST = 1 << 26  # bytes of a vocabulary or a SentencePiece model
_BPE = "source.bpe"
_ALIGNS = "transformer-align"
_FACTORED = ".fsv"
_TRUE = ("true", "yes", "on", "y")  # of YAML, in any case
# Settings of decoder.yml that are read, or that change no output.
_KNOWN = re.compile(
    r"models|vocabs|relative-paths|beam-size|normalize|word-penalty|max-length-factor|allow-unk|mini-batch.*|"
    r"maxi-batch.*|workspace|devices|num-devices|cpu-threads|data-threads|n-best|word-scores|alignment|seed|version|"
    r"log.*|quiet.*|stat-freq|input|output"
)
_NOTHING = ("", "0", "false", "~", "null")  # values with which other settings change nothing


@dataclasses.dataclass(frozen=True)
class Files:
    """What belongs to a model.

    model: the .npz file.
    vocabularies: files of source and target, the same one twice if they share it.
    sentencepiece: models of source and target.
    script: preprocess.sh, if there is one.
    search: fields of a recipe that decoder.yml gives.
    ignored: settings of decoder.yml that are not followed here.
    """

    model: Path
    vocabularies: tuple[Path, Path]
    sentencepiece: tuple[Path, Path]
    script: Path | None
    search: Mapping[str, Any]
    ignored: tuple[str, ...] = ()


def is_marian(path: str | os.PathLike[str]) -> bool:
    """Whether a path is of a Marian model, in any form, also one that is refused: a file, or a folder with one."""
    path = Path(path)
    if not path.is_dir():
        return path.suffix in (".npz", ".bin")
    return any(_models(path, ending) for ending in ("npz", "bin")) and not any(path.glob("*.index"))


def marian_models(folder: Path) -> list[Path]:
    """Returns the .npz files of a folder that are models of Marian, by the names of their arrays.

    Of a folder that holds nothing else of a model, any .npz file counts: what is wrong with it is for a message.
    """
    found = _models(folder, "npz")
    if not (folder / "config.json").is_file() or not (folder / "model.safetensors").is_file():
        return found
    return [path for path in found if _is_model(path)]


def _is_model(path: Path) -> bool:
    try:
        return not {KEY, "decoder_ff_logit_out_b", "Wemb", "decoder_Wemb"}.isdisjoint(Arrays(path))
    except DataError:
        return False


def find(path: str | os.PathLike[str], vocabularies: Sequence[str] = (), sentencepiece: Sequence[str] = ()) -> Files:
    """Finds what belongs to a model.

    Args:
        path: a folder, or a model in it.
        vocabularies: one or two files; default: those that decoder.yml names, or the one that the folder has.
        sentencepiece: one or two files; default: source.spm and target.spm.

    Raises:
        UsageError, DataError: something is missing, or there are several.
    """
    path = Path(path)
    folder = path if path.is_dir() else path.parent
    decoder = folder / "decoder.yml"
    settings = read_yaml(decoder) if decoder.is_file() else {}
    model = _model(folder, settings.get("models"), decoder) if path.is_dir() else path
    beside = model.with_name(f"{model.name}.decoder.yml")  # written by a training
    if not settings and beside.is_file():
        decoder, settings = beside, read_yaml(beside)
    if model.suffix == ".bin":
        raise UsageError(f"{model} is a model of Bergamot or Firefox in integers. Give the .npz file it was made from.")
    given = [Path(name) for name in vocabularies] or _named(folder, settings.get("vocabs"), decoder)
    given = given or sorted({*folder.glob("*.vocab.yml"), *folder.glob("vocab.yml"), *folder.glob("*vocab*.spm")})
    if not 1 <= len(given) <= 2:
        raise UsageError(
            f"{folder} has {len(given)} vocabularies ({', '.join(path.name for path in given) or 'no *.vocab.yml'}), "
            "and no decoder.yml says which the model has. Give --vocabulary=FILE, and --target_vocabulary=FILE if each "
            "side has its own."
        )
    if factored := [path for path in given if path.suffix == _FACTORED]:
        raise UsageError(f"{factored[0]} is a factored vocabulary. A model with factors cannot be expressed here.")
    models = [Path(name) for name in sentencepiece] or [folder / name for name in _SPM]
    if not sentencepiece and all(path.suffix == ".spm" for path in given):
        models = given
    if not all(path.is_file() for path in models) and not sentencepiece:
        bpe = f" {_BPE} shows that its text was cut by subword-nmt." if (folder / _BPE).is_file() else ""
        raise UsageError(
            f"{folder} has no source.spm and target.spm.{bpe} Only models of text that SentencePiece cuts can be "
            "imported. If the model has such files, give --sentencepiece=SOURCE[,TARGET]."
        )
    script = folder / "preprocess.sh"
    return Files(
        model,
        (given[0], given[-1]),
        (models[0], models[-1]),
        script if script.is_file() else None,
        _search(settings, decoder),
        tuple(
            f"{name:.60}={value!s:.40} of {decoder.name}"
            for name, value in settings.items()
            if value and value not in _NOTHING and not _KNOWN.fullmatch(name)
        ),
    )


def trained_to_align(model: Path) -> bool | None:
    """Whether a head of a model was trained to be an alignment; None: neither its files nor their names say it.

    OPUS-MT calls such models transformer-align, in the name of the model or in README.md. Marian writes all settings of
    a training beside its model.
    """
    readme, settings = model.with_name("README.md"), model.with_name(f"{model.name}.yml")
    if _ALIGNS in model.name or (readme.is_file() and _ALIGNS.encode() in read_bytes(readme)):
        return True
    said = re.search(rb"(?m)^guided-alignment: *(.*?)\r?$", read_bytes(settings)) if settings.is_file() else None
    return None if said is None else said[1].strip(b"\"'") not in (b"", b"none")


def load_vocabularies(files: Files, sizes: tuple[int, int]) -> tuple[MarianVocabulary, MarianVocabulary]:
    """Returns the vocabularies of source and target; one object if nothing in them differs.

    Args:
        sizes: how many pieces the model has.

    Raises:
        DataError: a file is missing, damaged, or of another model.
    """
    cleaning = marian_cleaning.read(files.script) if files.script else []
    pieces = [_pieces(path, size) for path, size in zip(files.vocabularies, sizes, strict=True)]
    models = [read_bytes(model) for model in files.sentencepiece]
    cutter = load_sentencepiece(models[0])  # a label that it knows is cut as other text, as in Marian
    labels = [piece for piece in find_labels(pieces[0]) if cutter.is_unknown(cutter.piece_to_id(piece))]
    return make_vocabularies(pieces, models, labels, cleaning)


def find_labels(pieces: Sequence[str]) -> list[str]:
    """Returns the pieces that have the form of a label."""
    return [piece for piece in pieces if is_label(piece)]


def make_vocabularies(
    pieces: Sequence[Sequence[str]],
    models: Sequence[bytes],
    labels: Sequence[str],
    cleaning: Sequence[tuple[str, str]] = (),
) -> tuple[MarianVocabulary, MarianVocabulary]:
    """Returns the vocabularies of source and target; one object if nothing in them differs.

    Args:
        pieces, models: of each side; see `MarianVocabulary.make`.
        labels: of the source.
    """
    source = MarianVocabulary.make(pieces[0], models[0], cleaning, labels)
    target = MarianVocabulary.make(pieces[1], models[1], cleaning)
    return (source, source) if source.data == target.data else (source, target)


def _models(folder: Path, ending: str) -> list[Path]:
    return sorted(path for path in folder.glob(f"*.{ending}") if not path.name.endswith(_OF_TRAINING))


def _model(folder: Path, named: Any, said_by: Path) -> Path:
    found = _named(folder, named, said_by) or _models(folder, "npz") or _models(folder, "bin")
    if len(found) != 1:
        raise UsageError(
            f"{folder} has {len(found)} models: {', '.join(path.name for path in found)}. Give the one to import: "
            f"--checkpoint={found[0]}."
        )
    return found[0]


def _named(folder: Path, names: Any, said_by: Path) -> list[Path]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return []
    return [inside(folder, name, said_by.name) for name in names]


def _search(settings: Mapping[str, Any], said_by: Path) -> dict[str, Any]:
    """The search of a decoder.yml: a score is the log-probability divided by length^normalize."""
    found: dict[str, Any] = {
        "length_penalty_form": "power",
        "unknown_output": str(settings.get("allow-unk")).lower() in _TRUE,
        "length_penalty": 0.0,
        "max_length_factor": 3.0,
        "extra_length": 0,
    }
    for name, field, kind in (
        ("beam-size", "beam_size", int),
        ("normalize", "length_penalty", float),
        ("max-length-factor", "max_length_factor", float),
    ):
        if name in settings:
            found[field] = _number(name, settings[name], kind, said_by)
    if _number("word-penalty", settings.get("word-penalty", "0"), float, said_by):
        raise DataError(
            f"{said_by} says word-penalty: {settings['word-penalty']}, which no search here has. To decode without it, "
            "set it to 0."
        )
    return found


def _number(name: str, value: Any, kind: Any, said_by: Path) -> Any:
    try:
        return kind(value)
    except (ValueError, TypeError):
        raise DataError(f"{said_by} says {name}: {value}, which is no number.") from None


def read_bytes(path: Path) -> bytes:
    """Returns a file's content; DataError if it cannot be read, or is longer than a vocabulary."""
    try:
        with open(path, "rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}).") from error
    if len(data) > _LARGEST:
        raise DataError(f"{path} is longer than {_LARGEST:,} bytes: it is no such file.")
    return data


def _pieces(path: Path, size: int) -> list[str]:
    data = read_bytes(path)
    if path.suffix != ".spm":
        return read_pieces(data, str(path), size)
    model = load_sentencepiece(data)
    pieces = [model.id_to_piece(i) for i in range(len(model))]
    check_pieces(pieces, str(path))
    if len(pieces) != size:
        raise DataError(f"{path} has {len(pieces):,} pieces, and the model {size:,}: it is of another model.")
    return pieces
