"""Which import a fine-tuned run comes from, over any number of runs; paths of a machine are not in it."""

import itertools
import json
from pathlib import Path

from t2t_lite.runs.run_dir import IMPORT_FILE, STARTED_FROM_FILE
from t2t_lite.runs.started_from import keep_import, read_import


def _imported(folder: Path) -> Path:
    (folder / "imported").mkdir(parents=True)
    (folder / "imported" / "LICENSE").write_text("Ask me.")
    (folder / "imported" / "decoder.yml").write_text("beam-size: 6")
    checkpoints = [{"path": "/home/ann/opus.npz", "sha256": {"opus.npz": "ab"}}]
    record = {"format": 1, "toolkit": "Marian", "checkpoints": checkpoints, "licence": {"file": "LICENSE"}}
    (folder / IMPORT_FILE).write_text(json.dumps(record))
    return folder


def test_it_is_kept_from_run_to_run(tmp_path: Path) -> None:
    runs = [_imported(tmp_path / "0"), tmp_path / "1", tmp_path / "2"]
    for before, run in itertools.pairwise(runs):
        run.mkdir()
        keep_import(run, before)
        assert read_import(run) is None
        assert read_import(run, STARTED_FROM_FILE) == {
            "toolkit": "Marian",
            "checkpoints": [{"name": "opus.npz", "sha256": {"opus.npz": "ab"}}],
            "licence": {"file": "LICENSE"},
        }
        assert [path.name for path in (run / "imported").iterdir()] == ["LICENSE"]
        assert "ann" not in (run / STARTED_FROM_FILE).read_text()


def test_a_start_from_elsewhere_forgets_it(tmp_path: Path) -> None:
    run, other = tmp_path / "run", tmp_path / "other"
    other.mkdir()
    for source in (None, other):
        run.mkdir(exist_ok=True)
        keep_import(run, _imported(tmp_path / str(source is None)))
        keep_import(run, source)
        assert read_import(run, STARTED_FROM_FILE) is None
        assert not (run / "imported" / "LICENSE").exists()
