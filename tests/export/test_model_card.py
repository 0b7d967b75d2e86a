"""What the model card leaves out."""

from pathlib import Path

from t2t_lite.export.model_card import without_folders


def test_folders_are_named_without_their_paths(tmp_path: Path) -> None:
    several = {"source_dir": f"{tmp_path}/genuine:2,{tmp_path}/back", "size": 8}
    assert without_folders(several) == {"source_dir": "genuine:2,back", "size": 8}
    assert without_folders({"source_dir": f",,{tmp_path}/en,de"}) == {"source_dir": "en,de"}
