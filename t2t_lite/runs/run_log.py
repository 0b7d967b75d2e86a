"""run.json: each start of the trainer on a run, with versions, what was asked for, machine, start, end, how it ended.

{"format", "starts": [{"request", "version", "python", "tensorflow", "keras", "host", "devices", "computed",
"first_step", "start", "end", "status"}, ...]}, oldest first. request: the values of a StartRequest that are not at
their default. computed: see training/reproducibility.py. Times are UTC. status: "running"; "done"; "stopped: ..." by a
signal; "failed: ..."; "killed": the end could not be recorded, and is null.
"""

import contextlib
import logging
import os
import platform
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from t2t_lite.errors import DamagedError, T2TError
from t2t_lite.files import StrPath, json_text, read_json, replace_file
from t2t_lite.signals import Stopped
from t2t_lite.version import local_version

RUN_FILE, FORMAT = "run.json", 1
RUNNING, DONE, KILLED = "running", "done", "killed"
TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"

_log = logging.getLogger("t2t_lite")


@contextlib.contextmanager
def record_start(
    output_dir: StrPath,
    *,
    request: Mapping[str, Any],
    devices: str,
    first_step: int,
    computed: Mapping[str, object] | None = None,
    writes: bool = True,
) -> Iterator[Callable[[Mapping[str, object]], None]]:
    """Context that records in run.json the trainer's start and how it ended; a function in it adds to `computed`.

    The caller holds the run's lock, so an older entry without an end belongs to a process that is gone.

    Args:
        request: what was asked for; see start_request.py.
        computed: how devices compute; see training/reproducibility.py.
        writes: whether to write at all; of several workers, only the chief does.
    """
    if not writes:
        yield lambda facts: None
        return
    import keras  # here: reading the file needs neither
    import tensorflow as tf

    path = Path(output_dir) / RUN_FILE
    entry: dict[str, object] = {
        "request": request,
        "version": local_version(),
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "host": socket.gethostname(),
        "devices": devices,
        "computed": computed,
        "first_step": first_step,
        "start": utc(),
        "end": None,
        "status": RUNNING,
    }
    before = [{**old, "status": KILLED} if old.get("status") == RUNNING else old for old in read_starts(output_dir)]
    if path.exists() and not before:
        os.replace(path, path.with_name(f"{RUN_FILE}.damaged"))
        _log.warning("%s is damaged; it stays as %s.damaged, and a new one is begun.", path, RUN_FILE)
    _write(path, [*before, entry])

    def note(facts: Mapping[str, object]) -> None:
        entry["computed"] = {**(computed or {}), **facts}
        _write(path, [*before, entry])

    status = DONE
    try:
        yield note
    except BaseException as error:
        status = _ending(error)
        raise
    finally:
        try:
            _write(path, [*before, {**entry, "end": utc(), "status": status}])
        except OSError as error:  # a full disk; an error before it matters more
            _log.warning("%s: the end of this start could not be noted: %s.", path, error.strerror or error)


def read_starts(output_dir: StrPath) -> list[dict[str, Any]]:
    """Returns the entries of run.json, oldest first; none where it is missing or damaged."""
    starts: list[Any] = []
    with contextlib.suppress(OSError, DamagedError):
        starts = read_json(Path(output_dir) / RUN_FILE, FORMAT, {"starts": list})["starts"]
    return starts if all(map(_is_whole, starts)) else []


def read_request(output_dir: StrPath) -> dict[str, Any]:
    """Returns what the newest start was asked for; empty where there is no run.json."""
    starts = read_starts(output_dir)
    return dict(starts[-1]["request"]) if starts else {}


def utc() -> str:
    """The time now, such as "2026-11-23T09:41:18Z"."""
    return time.strftime(TIME_FORMAT, time.gmtime())


def _is_whole(entry: Any) -> bool:
    """Whether an entry has what is read of it."""
    try:
        for moment in (entry["start"], entry["end"] or entry["start"]):
            time.strptime(moment, TIME_FORMAT)
        return isinstance(entry["request"], dict) and isinstance(entry["status"], str)
    except (KeyError, TypeError, ValueError):
        return False


def _ending(error: BaseException) -> str:
    if isinstance(error, Stopped | KeyboardInterrupt):
        return f"stopped: {str(error) or 'interrupted'}"
    text = str(error).partition("\n")[0] if isinstance(error, T2TError | OSError) else type(error).__name__
    return f"failed: {text}"


def _write(path: Path, starts: list[dict[str, Any]]) -> None:
    replace_file(path, json_text({"format": FORMAT, "starts": starts}, indent=2))
