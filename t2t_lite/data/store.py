"""The token store: one folder per problem, with the ids of every split as flat, memory-mapped arrays.

manifest.json               format, settings, counts, sizes and checksums of all other files but origin.json, and the
                            checksums of shards of 64 MiB of train's ids (shards.py)
origin.json                 when the store was prepared, from which files and code (identity.py)
vocabulary.model            or source.model and target.model; other endings: data/vocabulary_files.py
train.source.ids            uint16 (uint32 above 65,536 pieces), little-endian: sequences end to end, each with EOS
train.source.offsets        int64 [n + 1]: sequence i is ids[offsets[i]:offsets[i + 1]]
train.alignment.ids         uint32, aligned data only: links between pieces, source and target of each; offsets as above
train.weights               float32, weighted data only: of each pair
dev.source.txt              dev and test only: the text itself, for BLEU; as JSON strings where it keeps line breaks
remote.json                 a copy of a store elsewhere only: where the ids of train are (remote_store.py)
tags.json                   trees only: the tags that words may have (text/trees/tag_table.py)
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from t2t_lite.data import vocabulary_files
from t2t_lite.data.plan import PlannedBatch
from t2t_lite.data.remote_store import copy_store, shards_of, url_of
from t2t_lite.data.shards import CACHE, RemoteIds, ShardCache, cache_bytes, never
from t2t_lite.errors import DataError
from t2t_lite.files import StrPath, odd_file, parse_json, read_json, sha256_of, users_folder
from t2t_lite.remote.store import Store as Objects
from t2t_lite.text.any_vocabulary import AnyVocabulary
from t2t_lite.text.codec import Codec, Outputs
from t2t_lite.text.codecs import codec_of

FORMAT = 1
MANIFEST, ORIGIN = "manifest.json", "origin.json"
SIDES = ("source", "target")
ALIGNMENT, MOST_PLACES = "alignment", 1 << 32
WEIGHTS = "train.weights"
_CHUNK = 1 << 20  # offsets at once
_FEW, _MANY = 1 << 22, 1 << 27  # ids: of 84 and 2,684 updates of 25,000 tokens on each side


class Tokens:
    """The sequences of one side of one split; `tokens[i]` is an array of ids that ends with EOS.

    Attributes:
        data: memory-mapped ids, uint16 or uint32, [number of ids]; or, of a store elsewhere, slices of which are read.
        offsets: memory-mapped int64 [n + 1].
        lengths: int32 [n], EOS included.
        size: number of pieces in the vocabulary; all ids are below it, unless the file is damaged.
        path: of the file of ids, for messages.
        lengths: if they are known.
    """

    def __init__(
        self,
        data: np.ndarray | RemoteIds,
        offsets: np.ndarray,
        size: int,
        path: Path,
        lengths: np.ndarray | None = None,
    ) -> None:
        if lengths is not None:
            self.lengths = lengths
        self.data = data
        self.offsets = offsets
        self.size, self.path = size, path

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        if not 0 <= index < len(self):
            raise IndexError(f"Sequence {index} of {len(self)}.")
        return self.data[self.offsets[index] : self.offsets[index + 1]]

    @functools.cached_property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets).astype(np.int32)

    def subset(self, pairs: np.ndarray, stopped: Callable[[], bool] = never) -> Tokens:
        """Returns some sequences, in memory; those of a store elsewhere.

        Args:
            pairs: int64 [n], ascending.
            stopped: as `RemoteIds.read`.
        """
        data, (starts, stops) = cast(RemoteIds, self.data), (self.offsets[pairs], self.offsets[pairs + 1])
        offsets = np.concatenate([[0], np.cumsum(stops - starts)])
        return Tokens(data.read(starts, stops, stopped), offsets, self.size, self.path, self.lengths[pairs])

    def take(self, pairs: np.ndarray) -> np.ndarray:
        """Returns the ids of some sequences on this machine, int [n], one sequence after the other."""
        lengths, data = self.lengths[pairs].astype(np.int64), cast(np.ndarray, self.data)
        ends = np.cumsum(lengths)
        return data[np.arange(lengths.sum()) + np.repeat(self.offsets[pairs] - ends + lengths, lengths)]

    def check(self, ids: np.ndarray) -> None:
        """Raises DataError if one of `ids`, read from here, belongs to no piece; a GPU would compute with zeros."""
        largest = int(ids.max(initial=0))
        if largest >= self.size:
            raise DataError(
                f"{self.path} is damaged: it holds the id {largest:,}, and the vocabulary has {self.size:,} pieces. "
                f"{_remedy(self.path.parent)}"
            )


@dataclasses.dataclass(frozen=True)
class TokenSplit:
    """One split: `source` and `target` Tokens of the same number of sequences.

    alignment: the links of each pair, as in `Side`; None: the data are not aligned.
    weights: float32 [n], of each pair; None: all count the same.
    read_at_once: how many ids on both sides are read at once from a store elsewhere; None: they are on this machine.
    times: int64 [n], how often an epoch has each pair; None: once.
    """

    source: Tokens
    target: Tokens
    alignment: Tokens | None = None
    weights: np.ndarray | None = None
    read_at_once: int | None = None
    times: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.source)

    @property
    def lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """Pieces of source and target for which a batch has room, int32 [n]."""
        return self.source.lengths, self.target.lengths

    @property
    def fill(self) -> tuple[float, float]:
        """Share of that room that tokens fill on average, of source and target."""
        return 1.0, 1.0

    @property
    def remark(self) -> str:
        """What a run says of the pieces before it begins; "" for nothing."""
        return ""

    def expected_lengths(self, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Pieces of source and target of some pairs, on average over the epochs, int32 [pairs]."""
        return self.source.lengths[pairs], self.target.lengths[pairs]

    def cut(self, planned: PlannedBatch) -> tuple[TokenSplit, PlannedBatch]:
        """Returns a split that has the tokens of a batch, and the batch with the numbers of its pairs there."""
        return self, planned


class Store:
    """A prepared data set that is open for reading; made by `open_store`."""

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder = folder
        self.manifest = manifest
        self._splits: dict[str, TokenSplit] = {}
        self._texts: dict[str, tuple[list[str], list[str]]] = {}
        url = url_of(folder)
        self._elsewhere = None if url is None else Objects(url)

    @functools.cached_property
    def source_vocabulary(self) -> AnyVocabulary:
        return self._vocabulary("source")

    @functools.cached_property
    def target_vocabulary(self) -> AnyVocabulary:
        """The same object as `source_vocabulary` where the two sides share one."""
        names = self.manifest["vocabularies"]
        return self.source_vocabulary if names["source"] == names["target"] else self._vocabulary("target")

    @property
    def checksum(self) -> str:
        """SHA-256 of all that is prepared, equal for equal text, settings and vocabularies."""
        return hashlib.sha256(json.dumps(self.manifest["files"], sort_keys=True).encode()).hexdigest()

    @property
    def codec(self) -> Codec:
        return codec_of(self.manifest["settings"])

    @functools.cached_property
    def outputs(self) -> Outputs:
        """How to read the outputs of a model of these data."""
        for name in self.codec.file_names:
            if name in self.manifest["files"]:
                self._verify(name)
        return self.codec.outputs(self.folder, self.target_vocabulary)

    def splits(self) -> tuple[str, ...]:
        """The splits in this store, such as ("train", "dev")."""
        return tuple(self.manifest["splits"])

    def split(self, name: str) -> TokenSplit:
        """Returns the ids of a split; DataError where there is no such split.

        Its files are opened once: what is mapped stays as it is when a new store takes the place of this one.
        """
        if name not in self._splits:
            facts = self._facts(name)
            files = [self._tokens(name, side, facts) for side in (*SIDES, ALIGNMENT) if side in facts]
            weighted = name == "train" and WEIGHTS in self.manifest["files"]
            weights = np.memmap(self.folder / WEIGHTS, dtype="<f4", mode="r") if weighted else None
            source, target, *links = files
            at_once = self._read_at_once(files)
            self._splits[name] = TokenSplit(source, target, links[0] if links else None, weights, at_once)
        return self._splits[name]

    def text(self, name: str) -> tuple[list[str], list[str]]:
        """Returns (sources, targets) of dev or test as the problem gave them; read once, as the ids."""
        if name not in self._texts:
            if not self._facts(name)["text"]:
                raise DataError(f"{self.folder} holds the text of dev and test only, not of {name}.")
            sources, targets = (self._text(name, side) for side in SIDES)
            self._texts[name] = sources, targets
        return self._texts[name]

    def in_train(self, name: str) -> dict[str, int] | None:
        """How many pairs and sources of dev or test are also in train (overlap.py); None for train itself."""
        return cast(dict[str, int] | None, self._facts(name).get("in_train"))

    def verify(self) -> None:
        """Reads every file and compares its SHA-256 with the manifest's; DataError names the first that differs."""
        for name in self.manifest["files"]:
            self._verify(name)

    def _verify(self, name: str) -> Path:
        """Returns the path of a file after comparing its checksum; small files are read whole anyway."""
        path, wanted = self.folder / name, self.manifest["files"][name]["sha256"]
        if self._is_elsewhere(name):
            self._remote_ids(name, np.dtype("u1")).verify()
            return path
        found = sha256_of(path)
        if found != wanted:
            raise DataError(
                f"{path} is damaged: its checksum is {found[:12]}..., the manifest's {wanted[:12]}.... "
                f"{_remedy(self.folder)}"
            )
        return path

    def _vocabulary(self, side: str) -> AnyVocabulary:
        return vocabulary_files.load(self._verify(self.manifest["vocabularies"][side]))

    def _facts(self, name: str) -> dict[str, Any]:
        if name not in self.manifest["splits"]:
            raise DataError(
                f"{self.folder} has no split {name!r}; it has {', '.join(self.splits())}. Other text is translated by "
                "t2t-lite-decoder --input=FILE --output=OUT, and scored by t2t-lite-eval --hypotheses=OUT "
                "--references=FILE."
            )
        return cast(dict[str, Any], self.manifest["splits"][name])

    def _tokens(self, name: str, side: str, facts: dict[str, Any]) -> Tokens:
        dtype = np.dtype(facts[side]["dtype"])
        path = self.folder / f"{name}.{side}.ids"
        elsewhere = self._is_elsewhere(path.name)
        data = self._remote_ids(path.name, dtype) if elsewhere else np.memmap(path, dtype=dtype, mode="r")
        with open(self.folder / f"{name}.{side}.offsets", "rb") as file:
            offsets = np.memmap(file, dtype="<i8", mode="r")
            lengths = _read_lengths(file, len(offsets) - 1)
        if (len(offsets) - 1, len(data)) != (facts["pairs"], facts[side]["ids"]):  # open_store has compared the sizes
            raise DataError(
                f"{self.folder} was prepared again after this command had begun to use it. Start the command again."
            )
        if (int(offsets[0]), int(offsets[-1])) != (0, len(data)) or np.any(lengths <= 0):
            raise DataError(f"{self.folder}: the offsets of {name}.{side} do not fit its ids. {_remedy(self.folder)}")
        vocabulary = self.source_vocabulary if side == "source" else self.target_vocabulary
        size = MOST_PLACES if side == ALIGNMENT else vocabulary.size
        return Tokens(data, offsets, size, path, lengths)

    def _is_elsewhere(self, name: str) -> bool:
        return self._elsewhere is not None and name in shards_of(self.manifest)

    def _remote_ids(self, name: str, dtype: np.dtype) -> RemoteIds:
        shards, size = self.manifest["shards"], self.manifest["files"][name]["bytes"]
        objects = cast(Objects, self._elsewhere)
        how: dict[str, Any] = {"size": size, "shard": shards["bytes"], "checksums": shards["files"][name]}
        return RemoteIds(objects, name, dtype=dtype, cache=self._cache, **how)

    @functools.cached_property
    def _cache(self) -> ShardCache:
        return ShardCache(users_folder(os.environ) / "shards", cache_bytes(os.environ.get(CACHE)))

    def _read_at_once(self, files: list[Tokens]) -> int | None:
        """Few ids where the cache holds all; otherwise very many, as each reading then sweeps over all shards."""
        remote = [file.data for file in files if isinstance(file.data, RemoteIds)]
        if not remote:
            return None
        fits = sum(len(data) * data.dtype.itemsize for data in remote) <= self._cache.bound
        return _FEW if fits else min(_MANY, sum(map(len, remote)))

    def _text(self, name: str, side: str) -> list[str]:
        lines = self._verify(f"{name}.{side}.txt").read_bytes().decode("utf-8").split("\n")[:-1]
        return [json.loads(line) for line in lines] if "line_breaks" in self.manifest["settings"] else lines


def open_store(folder: StrPath) -> Store:
    """Opens a prepared data set; quick, as only the sizes of the files are looked at.

    Raises:
        DataError: no store, one of another format, or a file that is missing or has the wrong size.
    """
    folder = Path(folder)
    if folder.is_dir() and (odd := odd_file(folder)):
        raise DataError(f"{odd} is not a regular file; no prepared data have such. {_remedy(folder)}")
    try:
        manifest = read_json(folder / MANIFEST, FORMAT, _check_form, _remedy(folder))
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(
            f"{folder} holds no prepared data (no {MANIFEST}). Make it with t2t-lite-datagen, or look at --data_dir."
        ) from None
    store = Store(folder, manifest)
    for name, facts in manifest["files"].items():
        path = folder / name
        if store._is_elsewhere(name):
            continue
        if not path.is_file():
            raise DataError(f"{path} is missing. {_remedy(folder)}")
        if path.stat().st_size != facts["bytes"]:
            raise DataError(
                f"{path} has {path.stat().st_size:,} bytes instead of {facts['bytes']:,}. {_remedy(folder)}"
            )
    return store


def copy_from(url: str) -> Path | None:
    """Returns a folder of this machine that stands for the store at a URL, s3://bucket/data/text2text; None: none."""
    return copy_store(url, MANIFEST, ORIGIN, lambda name, text: parse_json(name, text, FORMAT, _check_form))


def _read_lengths(offsets: IO[bytes], number: int) -> np.ndarray:
    """Lengths, int32 [number], of a file of offsets, 0 where none can be; a map of all would stay in memory."""
    lengths, done, last = np.zeros(number, np.int32), 0, np.zeros(0, "<i8")
    offsets.seek(0)
    while len(part := np.fromfile(offsets, "<i8", _CHUNK)):
        found = np.diff(part, prepend=last)
        lengths[done : done + len(found)] = found.clip(0, 2**31 - 1)
        done, last = done + len(found), part[-1:]
    return lengths


def _check_form(manifest: dict[str, Any]) -> None:
    """Raises ValueError, KeyError, TypeError or AttributeError unless the entries of a manifest fit each other."""
    sizes = {name: facts["bytes"] for name, facts in manifest["files"].items()}
    if any(os.path.basename(name) != name or not facts["sha256"] for name, facts in manifest["files"].items()):
        raise ValueError("it names a file outside of the folder, or one without a checksum")
    wanted = {manifest["vocabularies"][side]: None for side in SIDES}
    for name, facts in manifest["splits"].items():
        for side in (*SIDES, *([ALIGNMENT] if ALIGNMENT in facts else [])):
            width = {"<u2": 2, "<u4": 4}[facts[side]["dtype"]]
            wanted[f"{name}.{side}.ids"] = facts[side]["ids"] * width
            wanted[f"{name}.{side}.offsets"] = (facts["pairs"] + 1) * 8
            if facts["text"] and side in SIDES:
                wanted[f"{name}.{side}.txt"] = None
    if (runs := manifest["splits"].get("train", {}).get("languages")) and manifest["splits"]["train"]["pairs"] != sum(
        count for _, _, count in runs
    ):
        raise ValueError("the languages of its pairs are those of more or fewer")
    if WEIGHTS in sizes:
        wanted[WEIGHTS] = manifest["splits"]["train"]["pairs"] * 4
    for name, checksums in shards_of(manifest).items():
        if len(checksums) * (shard := manifest["shards"]["bytes"]) not in range(sizes[name], sizes[name] + shard):
            raise ValueError(f"its shards do not fit the size of {name}")
    if any(size not in (None, sizes[name]) for name, size in wanted.items()):
        raise ValueError("its counts do not fit the sizes of its files")


def _remedy(folder: Path) -> str:
    return f"Delete {folder} and prepare the data again."
