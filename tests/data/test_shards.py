"""A store elsewhere, read in shards: the same batches, a bounded cache, damage found on first use."""

import contextlib
import hashlib
import json
import os
import shutil
import time
from pathlib import Path

import fsspec
import numpy as np
import pytest

from t2t_lite.data import remote_store, shards, store, store_writer
from t2t_lite.data.encode import Side
from t2t_lite.data.pipeline import assemble, batches, make_plan
from t2t_lite.data.plan import PlannedBatch
from t2t_lite.data.remote_store import REMOTE
from t2t_lite.data.shards import RemoteIds, ShardCache, cache_bytes
from t2t_lite.data.store import Store, Tokens, TokenSplit, copy_from, open_store
from t2t_lite.data.store_writer import SequenceWriter, StoreWriter
from t2t_lite.errors import DataError, UsageError
from t2t_lite.groups import BatchGroup
from t2t_lite.remote.store import Store as Objects
from t2t_lite.remote.store import StoreError
from t2t_lite.text.vocabulary_training import train_vocabulary

PAIRS, SHARD = 300, 256
_TICK = 0.02  # seconds, longer than the resolution of a file's times
URL = "memory://bucket/data/made"
OPTIONS = {"batch_tokens": 240, "max_length": 40}


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store with weights and alignments, in shards of 256 bytes."""
    monkeypatch.setattr(store_writer, "SHARD", SHARD)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    random, vocabulary = np.random.default_rng(3), train_vocabulary(["a b c"], size=20)
    with StoreWriter(tmp_path / "made") as writer:
        lengths = {"source": random.integers(1, 45, PAIRS), "target": random.integers(1, 45, PAIRS)}
        lengths["alignment"] = np.full(PAIRS, 2)
        facts: dict[str, object] = {"pairs": PAIRS, "text": False}
        for side, counts in lengths.items():
            ids = SequenceWriter(writer, f"train.{side}", 1 << 32 if side == "alignment" else 100)
            largest = 1 if side == "alignment" else vocabulary.size
            for part in np.array_split(counts, 3):
                ids.write(Side(random.integers(0, largest, part.sum()).astype(np.uint32), part))
            facts[side] = ids.facts()
        writer.file("train.weights").write(random.random(PAIRS).astype("<f4").tobytes())
        writer.file("vocabulary.model").write(vocabulary.data)
        names = dict.fromkeys(("source", "target"), "vocabulary.model")
        writer.finish({"settings": {}, "vocabularies": names, "splits": {"train": facts}})
    _upload(tmp_path / "made")
    return open_store(tmp_path / "made")


def _upload(folder: Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    for path in folder.iterdir():
        memory.pipe_file(f"bucket/data/made/{path.name}", path.read_bytes())


def _copy() -> Path:
    folder = copy_from(URL)
    assert folder is not None
    return folder


def _size(tmp_path: Path) -> int:
    total = 0
    for path in (tmp_path / "cache" / "t2t-lite" / "shards").iterdir():
        with contextlib.suppress(FileNotFoundError):  # renamed meanwhile
            total += path.stat().st_size
    return total


def test_the_manifest_has_the_checksum_of_each_shard(local: Store) -> None:
    for side in ("source", "target", "alignment"):
        data = (local.folder / f"train.{side}.ids").read_bytes()
        parts = [data[start : start + SHARD] for start in range(0, len(data), SHARD)]
        assert len(parts) > 9
        sums = [hashlib.sha256(part).hexdigest() for part in parts]
        assert local.manifest["shards"]["files"][f"train.{side}.ids"] == sums


@pytest.mark.parametrize(("packing", "bound"), [(False, 0), (True, 3000), (False, 1 << 30)])
def test_batches_are_the_same_and_the_cache_stays_under_its_bound(
    local: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packing: bool, bound: int
) -> None:
    monkeypatch.setenv(shards.CACHE, str(bound / 2**30))
    monkeypatch.setattr(store, "_FEW", 1000)
    monkeypatch.setattr(store, "_MANY", 3000)
    elsewhere = open_store(_copy())
    assert elsewhere.checksum == local.checksum
    assert not list(elsewhere.folder.glob("*.ids"))
    split, remote = local.split("train"), elsewhere.split("train")
    assert remote.read_at_once == (1000 if bound == 1 << 30 else 3000)
    plan, again = (make_plan(each, BatchGroup(packing=packing, **OPTIONS), 1) for each in (split, remote))
    streams = [
        batches(each, planned, packing=packing, first_step=7, aligned=True)
        for each, planned in ((split, plan), (remote, again))
    ]
    for _ in range(plan.steps_per_epoch + 9):
        wanted, found = map(next, streams)
        assert wanted.keys() == found.keys()
        for name, array in wanted.items():
            np.testing.assert_array_equal(found[name], array)
        assert _size(tmp_path) <= bound
    for stream in streams:
        stream.close()
    np.testing.assert_array_equal(remote.source[5], split.source[5])
    one = plan.batch(3)
    np.testing.assert_array_equal(assemble(remote, one, packing)["target"], assemble(split, one, packing)["target"])
    elsewhere.verify()
    if bound == 1 << 30:  # from now on nothing but the manifest is read there
        files = fsspec.filesystem("memory").store
        for name in [name for name in files if not name.endswith("manifest.json")]:
            del files[name]
        open_store(_copy()).verify()


def test_a_flipped_byte_is_found_on_first_use(local: Store) -> None:
    data = bytearray((local.folder / "train.target.ids").read_bytes())
    data[3 * SHARD + 5] ^= 1
    fsspec.filesystem("memory").pipe_file("bucket/data/made/train.target.ids", bytes(data))
    split = open_store(_copy()).split("train")
    of_shard = SHARD // 2
    before = int(np.searchsorted(split.target.offsets, 3 * of_shard, "right")) - 2
    np.testing.assert_array_equal(split.target[before], local.split("train").target[before])
    with pytest.raises(
        DataError,
        match=r"^memory://bucket/data/made/train\.target\.ids is damaged: shard 4 of \d+, bytes 768 to 1,023, has the "
        r"checksum \w{12}\.\.\., and the manifest \w{12}\.\.\.\. Copy the prepared data there again\.$",
    ):
        next(batches(split, make_plan(split, BatchGroup(**OPTIONS), 1), packing=False, first_step=1))


def test_a_damaged_copy_is_read_again(local: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    wanted = local.split("train").source.data[:]
    np.testing.assert_array_equal(open_store(_copy()).split("train").source.data[:], wanted)
    copy = tmp_path / "cache" / "t2t-lite" / "shards" / local.manifest["shards"]["files"]["train.source.ids"][2]
    copy.write_bytes(bytes(SHARD))
    np.testing.assert_array_equal(open_store(_copy()).split("train").source.data[:], wanted)
    assert caplog.text.count("was damaged and is read again") == 1
    assert hashlib.sha256(copy.read_bytes()).hexdigest() == copy.name


def test_a_cache_makes_room_by_removing_what_was_not_used_since_it_was_opened(tmp_path: Path) -> None:
    contents = {hashlib.sha256(part).hexdigest(): part for part in (bytes([n]) * 100 for n in range(5))}
    a, b, c, d, e = contents
    earlier = ShardCache(tmp_path, 350)
    for name in (a, b, c):
        earlier.load(name, lambda name=name: contents[name])
        time.sleep(_TICK)
    now = ShardCache(tmp_path, 350)
    now.load(a, lambda: pytest.fail("it is there"))
    for name, kept in ((d, {a, c, d}), (e, {a, d, e}), (b, {a, d, e})):  # b is not kept: the rest was just used
        assert bytes(now.load(name, lambda name=name: contents[name])) == contents[name]
        assert {path.name for path in tmp_path.iterdir()} - {".lock"} == kept


def test_a_store_of_an_earlier_version_is_copied_whole(local: Store, tmp_path: Path) -> None:
    manifest = {name: value for name, value in local.manifest.items() if name != "shards"}
    (local.folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert len(open_store(local.folder).split("train")) == PAIRS
    _upload(local.folder)
    copy = open_store(_copy())
    copy.verify()
    assert copy.checksum == local.checksum
    assert len(list(copy.folder.glob("*.ids"))) == 3
    shutil.rmtree(tmp_path / "cache")
    fsspec.filesystem("memory").pipe_file("bucket/data/made/train.weights", bytes(4 * PAIRS))
    with pytest.raises(DataError, match=r"made/train\.weights is damaged: its checksum is .* Copy the prepared data"):
        copy_from(URL)


def test_what_is_not_there_is_named(local: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert copy_from("memory://bucket/none") is None
    split = open_store(_copy()).split("train")
    fsspec.filesystem("memory").rm_file("bucket/data/made/train.source.ids")
    with pytest.raises(StoreError, match=r"made/train\.source\.ids cannot be read: it is not there"):
        split.source[0]
    for text in ("many", "-1", "nan"):
        with pytest.raises(UsageError, match=f"{shards.CACHE}={text} must be a number of GiB"):
            cache_bytes(text)


def test_other_data_at_the_url_have_a_copy_of_their_own(local: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_store, "_MOST", 2)
    copies = [_copy()]
    assert json.loads((copies[0] / REMOTE).read_text(encoding="utf-8"))["url"] == URL
    for number in range(2):
        manifest = json.dumps({**local.manifest, "settings": {"other": number}})
        fsspec.filesystem("memory").pipe_file("bucket/data/made/manifest.json", manifest.encode())
        copies += [_copy()]
        assert _copy() == copies[-1]
    assert [copy.exists() for copy in copies] == [False, True, True]
    assert open_store(copies[1]).split("train").source[0].size


def test_a_copy_just_made_stays_where_a_clock_was_ahead(local: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_store, "_MOST", 1)
    earlier = _copy()
    os.utime(earlier.parent, (time.time() + 3600,) * 2)
    fsspec.filesystem("memory").pipe_file("bucket/data/made/manifest.json", json.dumps({**local.manifest}).encode())
    copy = _copy()
    assert copy != earlier
    assert copy.exists()
    assert not earlier.exists()


def test_ids_beyond_2_to_the_31(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sparse file of 2 ** 31 + 1000 ids, whose last sequences are not 0."""
    count, path = 2**31 + 1000, tmp_path / "train.source.ids"
    ends = np.arange(1, 5001) % 90 + 1
    with open(path, "wb") as file:
        file.truncate(2 * (count - len(ends)))
        file.seek(0, 2)
        file.write(ends.astype("<u2").tobytes())
    offsets = np.concatenate([[0, count - len(ends)], np.arange(count - len(ends) + 10, count + 1, 10)])
    data = np.memmap(path, "<u2", "r")
    number = -(-2 * count // shards.SHARD)
    sums = ["unused"] * number
    for shard in (number - 2, number - 1):
        with open(path, "rb") as file:
            file.seek(shard * shards.SHARD)
            sums[shard] = hashlib.sha256(file.read(shards.SHARD)).hexdigest()
    how = {"size": 2 * count, "shard": shards.SHARD, "checksums": sums, "cache": ShardCache(tmp_path / "cache", 0)}
    remote = RemoteIds(Objects(f"file://{tmp_path}"), path.name, dtype=np.dtype("<u2"), **how)
    assert len(remote) == count
    lengths = np.diff(offsets).clip(0, 100).astype(np.int32)
    rows = np.array([[len(offsets) - 2], [1], [300]])
    found = [
        assemble(
            TokenSplit(*(Tokens(ids, offsets, 100, path, lengths) for _ in range(2)), read_at_once=at_once),
            PlannedBatch(rows, 10, 10),
            packing=False,
        )["source"].tolist()
        for ids, at_once in ((data, None), (remote, 1))
    ]
    assert found[0] == found[1] == [ends[-10:].tolist(), ends[:10].tolist(), ends[2990:3000].tolist()]


def test_offsets_are_written_beyond_2_to_the_31(tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "store") as writer:
        ids = SequenceWriter(writer, "dev.source", 100)
        ids._end = 2**31 - 3
        ids.write(Side(np.ones(5, np.uint32), np.array([2, 2, 1], np.int32)))
        assert ids.facts()["ids"] == 2**31 + 2
        ids._offsets.close()
        written = np.fromfile(writer.aside / "dev.source.offsets", "<i8").tolist()
    assert written == [0, 2**31 - 1, 2**31 + 1, 2**31 + 2]
