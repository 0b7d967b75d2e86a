"""What the model card says, and what it does not say."""

from pathlib import Path

from t2t_lite import registry
from t2t_lite.export.model_card import model_card
from tests.export.conftest import EXPORTED, Exported


def test_folders_are_named_without_their_paths(exported: Exported, tmp_path: Path) -> None:
    given = f"{tmp_path}/genuine:2,{tmp_path}/back"
    problem = registry.problem("text2text", source_dir=given, languages="en-de")
    of_run = {"model": "transformer", "hparams_set": "tiny", "checkpoint": "averaged/model-1", "step": 1}
    card = model_card(exported.translator, problem, EXPORTED, **of_run, scores=[], pairs={}, in_train={})
    assert problem.options()["source_dir"] == given
    assert card["training_data"]["options"]["source_dir"] == "genuine:2,back"
    (tmp_path / "en,de").mkdir()
    problem = registry.problem("text2text", source_dir=f"{tmp_path}/en,de", languages="en-de")
    card = model_card(exported.translator, problem, EXPORTED, **of_run, scores=[], pairs={}, in_train={})
    assert card["training_data"]["options"]["source_dir"] == "en,de"
