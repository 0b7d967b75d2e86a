"""With XLA, as on GPUs: the updates are those of the plain graph, one program serves each shape, nothing is waited for.

How fast that is cannot be seen without a GPU; see benchmarks/host.py.
"""

import os
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

from t2t_lite import config
from t2t_lite.distributed import devices
from t2t_lite.errors import UsageError
from t2t_lite.models.rnn import Rnn
from t2t_lite.models.rnn_hparams import RnnHParams
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.training.build import build_model, uses_xla
from tests import commands
from tests.training.xla_worker import OTHER_RATE, PARTS, SHAPES, STEPS

pytestmark = pytest.mark.commit

CLIP_NORM = {1: 0.0, 2: 0.05}  # by the number of devices
LOSS, WEIGHTS = 1e-5, 1e-5  # relative; absolute: for rounding, 2e-7 and 1.2e-7 were seen


@pytest.fixture(scope="module", params=CLIP_NORM)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the worker wrote, the number of "devices", and the text of the "programs" that it compiled, by name."""
    devices, folder = request.param, tmp_path_factory.mktemp("xla")
    dump = f"--xla_dump_to={folder / 'dump'} --xla_dump_hlo_as_text"
    environment = {**os.environ, "XLA_FLAGS": dump}
    arguments = (folder / "out.npz", devices, CLIP_NORM[devices])
    done = commands.run("tests.training.xla_worker", *arguments, env=environment)
    assert done.returncode == 0, done.stderr.decode()
    texts = (folder / "dump").glob("*.cpu_after_optimizations.txt")
    programs = {path.name: path.read_text(encoding="utf-8") for path in texts}
    with np.load(folder / "out.npz", allow_pickle=False) as arrays:
        return {"devices": devices, "programs": programs, **arrays}


@pytest.mark.nightly
def test_updates_are_those_without(run: dict[str, Any]) -> None:
    np.testing.assert_allclose(run["xla/losses"], run["graph/losses"], rtol=LOSS)
    np.testing.assert_allclose(run["xla/norms"], run["graph/norms"], rtol=LOSS)
    names = [name for name in run if name.startswith("graph/variables/")]
    assert len(names) > 90
    for name in names:
        np.testing.assert_allclose(run[name.replace("graph", "xla")], run[name], rtol=0, atol=WEIGHTS)
    assert run["xla/losses"][0] != pytest.approx(run["xla/losses"][1], rel=1000 * LOSS)  # the updates differ


@pytest.mark.nightly
def test_an_update_that_was_announced_has_its_inputs_on_the_device(run: dict[str, Any]) -> None:
    """But not if something about it has changed since. Without this, an H200 waited 4 of 38 ms."""
    announced = [1 < number != OTHER_RATE for number in range(1, STEPS + 1)]
    assert [not waited for waited in run["xla/waited_for"]] == announced


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["graph", "xla"])
def test_an_update_that_is_not_finite_changes_nothing_on_any_device(run: dict[str, Any], name: str) -> None:
    assert run[f"{name}/applied"].tolist() == [1] * STEPS + [0]
    assert np.isnan(run[f"{name}/bad_loss"])
    assert run[f"{name}/bad_kept"]
    assert run[f"{name}/copies_equal"]


@pytest.mark.nightly
def test_each_shape_has_one_program_and_several_devices_have_one_more_for_the_update(run: dict[str, Any]) -> None:
    devices = run["devices"]
    compiled = Counter(re.sub(r".*inference__|_\d+__.*", "", name) for name in run["programs"])
    if devices == 1:
        assert compiled == {"sum_and_apply": len(SHAPES)}
    else:
        assert compiled == {"sum_of_parts": devices * len(SHAPES), "clip_and_apply": devices}


@pytest.mark.nightly
def test_no_program_makes_its_way_depend_on_what_it_computes(run: dict[str, Any]) -> None:
    """On a GPU, a program that branches, or loops until a condition holds, waits for the host."""
    for name, text in run["programs"].items():
        assert " conditional(" not in text
        whiles = text.count(" while(")
        assert whiles == ("clip_and_apply" not in name)
        parts = PARTS // run["devices"]
        assert text.count(f'"known_trip_count":{{"n":"{parts}"}}') == whiles


def test_a_model_that_xla_cannot_compile_has_plain_graphs_on_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "on_gpus", lambda: True)
    sizes: dict[str, Any] = {"num_layers": 1, "d_model": 8}
    for model_class, hparams in ((Rnn, RnnHParams(**sizes)), (Transformer, TransformerHParams(**sizes, d_ff=8))):
        model = model_class.from_hparams(hparams, 9, 9, True)
        assert uses_xla(hparams, model) == (model_class is Transformer)
        assert not uses_xla(config.replace(hparams, jit="off"), model)
    asked = RnnHParams(**sizes, jit="on")
    with pytest.raises(UsageError, match=r"XLA cannot compile the training of a Rnn\. Leave jit at auto"):
        build_model("rnn", asked, 9, 9, True)
    build_model("transformer", TransformerHParams(**sizes, d_ff=8, jit="on"), 9, 9, True)
