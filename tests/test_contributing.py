"""One file in a folder of one's own adds a problem, a recipe, a model, ..., as CONTRIBUTING.md says."""

from pathlib import Path

import pytest

from t2t_lite import registry

ROOT = Path(__file__).resolve().parent.parent
ONE_FILE = {
    "problem": (
        "from t2t_lite import problem, registry\n\n@registry.register_problem\nclass Mine(problem.Problem): ...\n"
    ),
    "hparams set": (
        "from t2t_lite import config, registry\n\n@registry.register_hparams\ndef mine(): return config.HParams()\n"
    ),
    "model": (
        "from t2t_lite import config, registry\nfrom t2t_lite.models.rnn import Rnn\n\n"
        "@registry.register_model\nclass Mine(Rnn): ...\n\n"
        '@registry.register_hparams(model="mine")\ndef mine_tiny(): return config.HParams()\n'
    ),
    "optimizer": (
        "from t2t_lite import registry\nfrom t2t_lite.optimizers.base import Optimizer\n\n"
        "@registry.register_optimizer\nclass Mine(Optimizer): ...\n"
    ),
    "sampler": (
        "from t2t_lite import registry\nfrom t2t_lite.samplers.base import Sampler\n\n"
        "@registry.register_sampler\nclass Mine(Sampler): ...\n"
    ),
    "schedule": (
        "from t2t_lite import registry\nfrom t2t_lite.schedules.base import Schedule\n\n"
        "@registry.register_schedule\nclass Mine(Schedule): ...\n"
    ),
    "metric": (
        "from t2t_lite import registry\nfrom t2t_lite.metrics.score import CorpusMetric\n\n"
        "@registry.register_metric\nclass Mine(CorpusMetric): ...\n"
    ),
}
TABLES = {
    "problem": registry.PROBLEMS,
    "hparams set": registry.HPARAMS,
    "model": registry.MODELS,
    "optimizer": registry.OPTIMIZERS,
    "sampler": registry.SAMPLERS,
    "schedule": registry.SCHEDULES,
    "metric": registry.METRICS,
}


@pytest.mark.parametrize("kind", ONE_FILE)
def test_one_file_of_ones_own_is_enough(kind: str, tmp_path: Path) -> None:
    file = tmp_path / f"only_{kind.replace(' ', '_')}.py"
    file.write_text(ONE_FILE[kind], encoding="utf-8")
    assert "mine" not in TABLES[kind].names()
    registry.load_plugins(str(tmp_path))
    assert "mine" in TABLES[kind].names()
    assert kind != "model" or registry.model_of("mine_tiny") == "mine"
