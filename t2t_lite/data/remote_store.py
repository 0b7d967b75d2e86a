"""A store elsewhere, such as in s3://bucket/data/text2text: all but the ids in shards is copied to this machine.

The copy is a folder in the user's cache, data/KEY/NAME: the store's files, without those that its manifest has shards
of, and remote.json, which says where these are. It is opened as any store is; the ids are read by shards (shards.py).
KEY depends on the URL and the manifest, so other data at the same URL have another folder. The `_MOST` copies that were
used last are kept.
"""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from t2t_lite.errors import DamagedError, DataError
from t2t_lite.files import file_lock, json_text, read_json, sha256_of, staging_dir, users_folder
from t2t_lite.remote.store import Store as Objects

FORMAT, REMOTE = 1, "remote.json"
_MOST = 8  # copies, each of about 16 bytes a pair


def copy_store(url: str, manifest: str, origin: str, parse: Callable[[str, bytes], dict[str, Any]]) -> Path | None:
    """Returns the copy of the store at a URL, made if it is not there yet; None where there is no store.

    Args:
        manifest, origin: names of the store's own files.
        parse: returns the manifest's entries by its name and its text; raises DataError.

    Raises:
        DataError: the store cannot be reached, or a file of it is damaged.
    """
    objects = Objects(url)
    try:
        text = objects.read(manifest)
    except (FileNotFoundError, NotADirectoryError):
        return None
    facts = parse(f"{objects.url}/{manifest}", text)
    key = hashlib.sha256(objects.url.encode() + b"\n" + text).hexdigest()[:16]
    folder = users_folder(os.environ) / "data" / key / objects.url.rpartition("/")[2]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(folder):
        if not folder.exists():
            aside = staging_dir(folder)
            aside.mkdir()
            (aside / manifest).write_bytes(text)
            (aside / REMOTE).write_text(json_text({"format": FORMAT, "url": objects.url}, None), encoding="utf-8")
            with contextlib.suppress(FileNotFoundError):
                objects.download(origin, aside / origin)
            for name in facts["files"].keys() - shards_of(facts).keys():
                _copy(objects, name, aside / name, facts["files"][name]["sha256"])
            os.rename(aside, folder)
    os.utime(folder.parent)
    _remove_others(folder.parent)
    return folder


def shards_of(manifest: dict[str, Any]) -> dict[str, list[str]]:
    """The checksums of the shards of each file that has them; a store of an earlier version has none."""
    found: dict[str, list[str]] = manifest.get("shards", {}).get("files", {})
    return found


def url_of(folder: Path) -> str | None:
    """Returns where the ids of the store in a folder are; None: in the folder."""
    try:
        return str(read_json(folder / REMOTE, FORMAT, {"url": str}, f"Remove {folder}: it is copied again.")["url"])
    except (FileNotFoundError, NotADirectoryError):
        return None


def _remove_others(kept: Path) -> None:
    """Removes all copies but the last ones; `kept` stays also if a clock that was wrong has dated others later."""
    dated = []
    for copy in kept.parent.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another process has removed it
            dated.append((copy != kept, -copy.stat().st_mtime_ns, copy))
    for *_, old in sorted(dated)[_MOST:]:
        shutil.rmtree(old, ignore_errors=True)


def _copy(objects: Objects, name: str, path: Path, wanted: str) -> None:
    try:
        objects.download(name, path)
    except FileNotFoundError:
        raise DataError(f"{objects.url}/{name} is missing. Copy the prepared data there again.") from None
    if (found := sha256_of(path)) != wanted:
        raise DamagedError(
            f"{objects.url}/{name} is damaged: its checksum is {found[:12]}..., the manifest's {wanted[:12]}.... "
            "Copy the prepared data there again."
        )
