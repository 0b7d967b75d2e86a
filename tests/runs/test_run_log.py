"""run.json: how each start ended, what a killed one leaves, a damaged file."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from t2t_lite.errors import DataError, UsageError
from t2t_lite.runs.data_request import DataRequest
from t2t_lite.runs.run_log import RUN_FILE, read_request, read_starts, record_start
from t2t_lite.runs.start_request import StartRequest
from t2t_lite.signals import Stopped


def _start(folder: Path, error: BaseException | None = None) -> None:
    with record_start(folder, request={"output_dir": "x"}, devices="CPU", first_step=1):
        assert [entry["status"] for entry in read_starts(folder)][-1] == "running"
        if error is not None:
            raise error


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Stopped(signal.SIGTERM, "step 3 of 9 is done and saved."), "stopped: SIGTERM: step 3 of 9 is done and saved."),
        (KeyboardInterrupt(), "stopped: interrupted"),
        (DataError("The data is gone.\nMore of it."), "failed: The data is gone."),
        (ZeroDivisionError("x"), "failed: ZeroDivisionError"),
    ],
)
def test_a_start_notes_how_it_ended(tmp_path: Path, error: BaseException, status: str) -> None:
    _start(tmp_path)
    with pytest.raises(type(error)):
        _start(tmp_path, error)
    first, second = read_starts(tmp_path)
    assert (first["status"], second["status"]) == ("done", status)
    assert second["end"] >= second["start"]


def test_a_request_with_a_path_that_is_not_utf_8_comes_back(tmp_path: Path) -> None:
    request = StartRequest(output_dir=os.fsdecode(b"\xfcbung"), data=DataRequest(options={"vocab_size": 9}))
    with record_start(tmp_path, request=request.as_dict(), devices="CPU", first_step=1):
        pass
    assert StartRequest.from_dict(read_request(tmp_path)) == request


def test_only_the_last_entry_can_run_and_one_without_an_end_was_killed(tmp_path: Path) -> None:
    _start(tmp_path)
    values = json.loads((tmp_path / RUN_FILE).read_text())
    values["starts"][0].update(status="running", end=None)
    (tmp_path / RUN_FILE).write_text(json.dumps(values))
    _start(tmp_path)
    assert [(entry["status"], entry["end"] is None) for entry in read_starts(tmp_path)] == [
        ("killed", True),
        ("done", False),
    ]


@pytest.mark.parametrize(
    "text",
    [
        '{"starts": [{"comm',
        '{"format": 1, "starts": 3}',
        "\xff",
        '{"format": 1, "starts": [3]}',
        '{"format": 1, "starts": [{"request": {}, "start": "2026-11-23", "end": null, "status": "killed"}]}',
        '{"format": 1, "starts": [{"request": 0, "start": "2026-11-23T09:41:18Z", "end": null, "status": "killed"}]}',
    ],
)
def test_a_damaged_file_is_kept_and_said(tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / RUN_FILE).write_bytes(text.encode("latin-1"))
    _start(tmp_path)
    assert [entry["status"] for entry in read_starts(tmp_path)] == ["done"]
    assert (tmp_path / f"{RUN_FILE}.damaged").read_bytes() == text.encode("latin-1")
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path / RUN_FILE} is damaged; it stays as run.json.damaged, and a new one is begun."
    ]


def test_a_worker_that_is_not_the_chief_writes_nothing(tmp_path: Path) -> None:
    with record_start(tmp_path, request={}, devices="CPU", first_step=1, writes=False):
        pass
    assert list(tmp_path.iterdir()) == []


def test_an_end_that_cannot_be_written_hides_no_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "run"
    folder.mkdir()

    def lose() -> None:
        with record_start(folder, request={}, devices="CPU", first_step=1):
            folder.rename(tmp_path / "away")
            raise DataError("The disk is gone.")

    with pytest.raises(DataError, match="^The disk is gone"):
        lose()
    (record,) = caplog.records
    assert "run.json: the end of this start could not be noted: No such file or directory." in record.getMessage()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"devices": "2"}, r"devices='2' is not a whole number of at least 1\."),
        ({"devices": 0}, "devices=0 is not"),
        ({"accumulate": 1.5}, r"accumulate=1\.5 is not"),
        ({"skip_bad_batches": -1}, "skip_bad_batches=-1 is not a whole number of at least 0"),
        ({"strategy": "mirorred"}, r"strategy='mirorred' is none of auto, .*Did you mean 'mirrored'\?"),
    ],
)
def test_what_python_asks_for_is_checked(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        StartRequest(output_dir="run", **settings)
