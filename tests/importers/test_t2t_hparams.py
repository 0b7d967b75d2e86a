"""Settings that the shapes of a tensor2tensor checkpoint do not show: asked for, named as assumed, or refused."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t2t_lite import config
from t2t_lite.errors import DataError, UsageError
from t2t_lite.importers import import_report, run_folder, t2t_slots, t2t_training, tensor2tensor, vocabulary_kinds
from t2t_lite.optimizers.choices import make_schedule
from tests.importers import t2t_golden
from tests.importers.made_up import HPARAMS, save, variables

_SPACE = "transformer/body/target_space_embedding/kernel"
_STEP = t2t_golden.FOLDER / "tensor2tensor_step.npz"


def _relative(folder: Path, flags: str | None = None) -> str:
    """A checkpoint with relative positions and no hparams.json beside it."""
    prefix = save(folder / "model.ckpt-2", t2t_golden.arrays(t2t_golden.read(_STEP, "relative"), "before"), None)
    if flags:
        (folder / "flags.txt").write_text(flags)
    return prefix


def test_whether_relative_positions_stand_beside_sinusoids_has_to_be_said(tmp_path: Path) -> None:
    prefix = _relative(tmp_path)

    def positions(**given: str) -> str:
        return tensor2tensor.read([prefix], target_space_id=5, **given).description.positions

    with pytest.raises(DataError, match=r"whether sinusoids are added, too\. Give --hparams=pos=None"):
        positions()
    assert positions(hparams="pos=timing") == "tensor2tensor"
    assert (
        positions(hparams="pos=None") == positions(hparams_set="transformer_relative", hparams="num_heads=2") == "none"
    )
    own = "self_attention_type=dot_product_relative,num_heads=2"
    assert positions(hparams_set="transformer_base", hparams=own) == "tensor2tensor"
    with pytest.raises(DataError, match="they say, and it has, self_attention_type dot_product and dot_product_rel"):
        positions(hparams_set="transformer_base", hparams="num_heads=2")
    _relative(tmp_path, f"--hparams_set=transformer_base\n--hparams={own}\n")
    assert positions() == "tensor2tensor"


def _said(folder: Path, **given: str) -> dict[str, str]:
    imported = tensor2tensor.read([folder], **given)
    text = vocabulary_kinds.load("bytes")
    found = run_folder.Import(imported, run_folder.recipe(imported, {}), (text, text), ("bytes",), {}, {})
    return dict(import_report.lines(found, 1))


def test_what_nothing_says_is_named(tmp_path: Path) -> None:
    save(tmp_path / "model.ckpt-1", variables(), None)
    said = _said(tmp_path, hparams="num_heads=2,pos=timing")["assumed"]
    assert "unidirectional_encoder=False, " in said
    assert "multiply_embedding_mode=sqrt_depth, " in said
    assert "norm_epsilon=1e-06 (nothing beside the checkpoint says them; " in said
    assert "pos=" not in said
    (tmp_path / "flags.txt").write_text("--hparams_set=my_own\n--hparams=num_heads=2,norm_epsilon=0.1\n")
    said = _said(tmp_path)["assumed"]
    assert "(my_own, the set in flags.txt, is not known; " in said
    assert "norm_epsilon" not in said
    assert "assumed" not in _said(tmp_path, hparams_set="transformer_test")
    with pytest.raises(UsageError, match=r"transformer_base has num_heads=8, and .*flags.txt says num_heads=2\. Leave"):
        _said(tmp_path, hparams_set="transformer_base")
    save(tmp_path / "model.ckpt-1", variables())
    assert "assumed" not in _said(tmp_path)


def test_settings_of_a_training_that_nothing_says_are_named(tmp_path: Path) -> None:
    """They are the paper's: the report and import.json name them, but for those that are given."""
    save(tmp_path / "model.ckpt-1", variables(), None)
    said = _said(tmp_path, hparams="num_heads=2,relu_dropout=0.3")
    wanted = "layer_prepostprocess_dropout=0.1, attention_dropout=0.0, label_smoothing=0.1, optimizer_adam_beta1=0.9, "
    wanted += "optimizer_adam_beta2=0.98, optimizer_adam_epsilon=1e-09, clip_grad_norm=0.0, optimizer=adam (assumed; "
    assert said["training"].startswith(wanted)
    assert said["schedule"].startswith("the paper's (nothing says tensor2tensor's; ")
    said = _said(tmp_path, hparams="num_heads=2,learning_rate_schedule=rsqrt_decay,optimizer=Adafactor")
    assert said["schedule"].startswith("the paper's (nothing says tensor2tensor's learning_rate_warmup_steps; ")
    assert "adam" not in said["training"]
    save(tmp_path / "model.ckpt-1", variables(), HPARAMS | dict.fromkeys(t2t_training.FIELDS, 0.0))
    assert "training" not in _said(tmp_path)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("transformer_base", (0.1, 0.1, 0.1, 0.997, 8000, 2.0)),
        ("transformer_big", (0.3, 0.1, 0.1, 0.997, 8000, 2.0)),
        ("transformer_base_v1", (0.1, 0.0, 0.0, 0.98, 4000, 1.0)),
    ],
)
def test_settings_of_a_training_are_those_of_the_set(tmp_path: Path, name: str, wanted: tuple[float, ...]) -> None:
    """Given by the user or by flags.txt; what either changes in the set wins."""
    names = ("dropout", "attention_dropout", "relu_dropout", "adam_beta2", "warmup_steps", "learning_rate_factor")

    def found(**given: str) -> tuple[float, ...]:
        values = config.to_dict(run_folder.recipe(tensor2tensor.read([tmp_path], **given), {}))
        return tuple(values[name] for name in names)

    save(tmp_path / "model.ckpt-1", variables(), None)
    assert found(hparams_set=name, hparams="num_heads=2") == wanted
    assert found(hparams_set=name, hparams="num_heads=2,relu_dropout=0.4")[2:] == (0.4, *wanted[3:])
    (tmp_path / "flags.txt").write_text(f"--hparams_set={name}\n--hparams=num_heads=2,attention_dropout=0.4\n")
    assert found() == (wanted[0], 0.4, *wanted[2:])
    said = _said(tmp_path)
    assert said["training"].startswith(f"of {name}, as tensor2tensor 1.15.7 has it (assumed; ")
    assert "schedule" not in said
    save(tmp_path / "model.ckpt-1", variables(), HPARAMS | {"relu_dropout": 0.2})  # which says all that there was
    assert found(hparams_set=name, hparams="num_heads=2")[2:] == (0.2, 0.997, 4000, 1.0)


def test_a_training_that_nothing_says_cannot_go_on(tmp_path: Path) -> None:
    prefix = _with_slots(tmp_path, "Adam", "Adam_1", moved=[5])
    (tmp_path / "hparams.json").unlink()
    given = (
        "num_heads=2,optimizer=adam,optimizer_adam_beta1=0.9,optimizer_adam_epsilon=1e-9,learning_rate_warmup_steps=8"
    )
    said = r"nothing says its optimizer_adam_beta2, learning_rate_schedule, learning_rate_constant\. Copy its hparams\."
    with pytest.raises(UsageError, match=rf"{said}.*--hparams=optimizer_adam_beta2=VALUE,.*constant=VALUE\.$"):
        t2t_slots.read(tensor2tensor.read([prefix], hparams=given))
    given += ",optimizer_adam_beta2=0.98,learning_rate_schedule=rsqrt_decay"
    for settings in ({"hparams": given}, {"hparams_set": "transformer_base", "hparams": "num_heads=2"}):
        assert t2t_slots.read(tensor2tensor.read([prefix], **settings)).optimizer == "adam"


def test_an_optimizer_that_is_not_taken_over_is_named(tmp_path: Path) -> None:
    save(tmp_path / "model.ckpt-1", variables(), HPARAMS | {"optimizer": "sgd"})
    assert _said(tmp_path)["optimizer"].startswith("adam (tensor2tensor's, sgd, is not taken over; only continued ")
    save(tmp_path / "model.ckpt-1", variables(), HPARAMS | {"optimizer": "TrueAdam"})
    assert "optimizer" not in _said(tmp_path)


def test_names_that_nothing_asks_for_are_refused(tmp_path: Path) -> None:
    save(tmp_path / "model.ckpt-1", variables(), {**HPARAMS, "my_own": 3})
    with pytest.raises(UsageError, match="num_head is no hparam of tensor2tensor .* Did you mean 'num_heads'"):
        tensor2tensor.read([tmp_path], hparams="num_head=8")
    assert tensor2tensor.read([tmp_path], hparams="my_own=4,weight_decay=0.1").hparams["my_own"] == 4


def test_a_set_that_hparams_json_contradicts_is_refused(tmp_path: Path) -> None:
    save(tmp_path / "model.ckpt-1", variables(), {**HPARAMS, "pos": "none"})
    assert tensor2tensor.read([tmp_path], hparams_set=None).description.positions == "none"
    with pytest.raises(UsageError, match=r"transformer_test has pos=timing, and .*hparams.json says pos=none\. Leave"):
        tensor2tensor.read([tmp_path], hparams_set="transformer_test")
    found = tensor2tensor.read([tmp_path], hparams_set="transformer_test", hparams="pos=none")
    assert found.description.positions == "none"


@pytest.mark.parametrize(
    "hparams",
    [
        {"learning_rate_schedule": "rsqrt_decay", "learning_rate_warmup_steps": "8k"},
        {"learning_rate_schedule": "constant*linear_warmup*rsqrt_decay", "learning_rate_constant": None},
    ],
)
def test_rates_that_are_no_numbers_are_named(hparams: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=r"hparams: learning_rate\w*=.* is no number of at least 0\."):
        t2t_training.schedule({"learning_rate_warmup_steps": 8, "learning_rate_constant": 1.0, **hparams})


def test_files_in_another_encoding_or_nested_too_deeply(tmp_path: Path) -> None:
    save(tmp_path / "model.ckpt-1", variables(), None)
    (tmp_path / "flags.txt").write_bytes(b"--data_dir=/d\xe9p\xf4t\n--hparams_set=transformer_test\n")
    assert tensor2tensor.read([tmp_path]).description.num_heads == 2
    (tmp_path / "hparams.json").write_text("[" * 100_000)
    with pytest.raises(DataError, match=r"hparams\.json is not JSON"):
        tensor2tensor.read([tmp_path])


@pytest.mark.parametrize(
    ("schedule", "rate"),
    [
        ("constant*linear_warmup*rsqrt_decay*rsqrt_hidden_size", lambda t: 2 * min(1, t / 80) * max(t, 80) ** -0.5 / 8),
        ("linear_warmup * constant * rsqrt_decay", lambda t: 2 * min(1, t / 80) * max(t, 80) ** -0.5),
        ("constant*linear_warmup*rsqrt_normalized_decay", lambda t: 2 * min(1, t / 80) * (80 / max(t, 80)) ** 0.5),
    ],
)
def test_schedules_as_products_of_factors(schedule: str, rate: Any) -> None:
    """Schedules as in tensor2tensor's utils/learning_rate.py, learning_rate_factor; hidden_size is 64."""
    hparams = {"learning_rate_schedule": schedule, "learning_rate_warmup_steps": 80, "learning_rate_constant": 2.0}
    recipe = run_folder.TransformerHParams(d_model=64, **t2t_training.recipe(hparams))
    ours = make_schedule(recipe, 64)
    for step in (1, 40, 80, 81, 2000):
        assert math.isclose(ours(step), rate(step), rel_tol=1e-6), step
    assert t2t_training.describe_schedule(hparams) is None


@pytest.mark.parametrize("schedule", [{"learning_rate_schedule": "legacy"}, {}], ids=["legacy", "oldest"])
@pytest.mark.parametrize(("optimizer", "factor"), [("adam", 2), ("Adam", 2), ("TrueAdam", 2), ("Adafactor", 1000)])
def test_the_factor_of_older_schedules(schedule: dict[str, str], optimizer: str, factor: float) -> None:
    """5000 x 0.002 x learning_rate for each kind of Adam, in names of any release; others have no 0.002."""
    hparams = schedule | {"learning_rate_decay_scheme": "noam", "learning_rate_warmup_steps": 80, "learning_rate": 0.2}
    found = t2t_training.recipe(hparams | {"optimizer": optimizer})
    assert (found["warmup_steps"], found["learning_rate_factor"]) == (80, pytest.approx(factor))
    other = hparams | {"optimizer": optimizer, "learning_rate_decay_scheme": "sqrt"}
    with pytest.raises(DataError, match="learning_rate_schedule=legacy"):
        t2t_training.check_resumable(other)
    assert str(t2t_training.describe_schedule(other)).startswith(
        "the paper's (tensor2tensor's, legacy, has no counterpart;"
    )


def test_schedules_and_optimizers_that_cannot_go_on() -> None:
    hparams = {"learning_rate_schedule": "constant*cosdecay", "learning_rate_warmup_steps": 80, "weight_decay": 1e-6}
    assert "schedule" not in t2t_training.recipe(hparams)
    assert t2t_training.describe_schedule(hparams) == (
        "the paper's (tensor2tensor's, constant*cosdecay, has no counterpart; only continued training has it)"
    )
    assert str(t2t_training.describe_schedule({})).startswith("the paper's (nothing says tensor2tensor's;")
    of_adafactor = {"optimizer_adafactor_decay_type": "adam"}
    with pytest.raises(DataError, match=r"weight_decay=1e-06 \(only 0.0\); learning_rate_schedule=constant\*cosdecay"):
        t2t_training.check_resumable(hparams | of_adafactor)
    with pytest.raises(DataError, match=r"optimizer_adafactor_decay_type=adam \(only pow\)"):
        t2t_training.check_resumable({"optimizer": "Adafactor", **of_adafactor})
    t2t_training.check_resumable({"optimizer": "adam", "weight_decay": 0.0, **of_adafactor})


def _with_slots(folder: Path, *ends: str, moved: list[int], initial: float = 0.0) -> str:
    """A checkpoint with slots that show which rows of the target space were `moved`."""
    arrays = variables()
    slots = {f"training/{name}/{end}": 0 * array for name, array in arrays.items() if array.ndim for end in ends}
    for end in ends:
        slot = np.full_like(arrays[_SPACE], initial)
        slot[moved] += 0.5
        slots[f"training/{_SPACE}/{end}"] = slot
    return save(folder / "model.ckpt-1", arrays | slots)


@pytest.mark.parametrize(("end", "initial"), [("Adagrad", 0.1), ("Momentum", 0.0)])
def test_the_target_space_is_read_off_slots_of_any_name(tmp_path: Path, end: str, initial: float) -> None:
    prefix = _with_slots(tmp_path, end, moved=[21], initial=initial)
    space = tensor2tensor.read([prefix]).target_space
    assert space is not None
    assert (space.row, space.why) == (21, "training moved row 21")


def test_a_training_that_moved_all_target_spaces(tmp_path: Path) -> None:
    prefix = _with_slots(tmp_path, "Adam", "Adam_1", moved=[3, 9])
    with pytest.raises(DataError, match="knows several target spaces: training moved row 3, row 9"):
        tensor2tensor.read([prefix])
    arrays = variables()
    slot = np.random.default_rng(1).normal(size=arrays[_SPACE].shape).astype(np.float32)
    prefix = save(tmp_path / "all" / "model.ckpt-1", arrays | {f"training/{_SPACE}/Adam": slot})
    with pytest.raises(DataError, match=r"moved all 32 rows of the target spaces, as weight_decay does.* Give --"):
        tensor2tensor.read([prefix])
    assert tensor2tensor.read([prefix], target_space_id=3).target_space is not None


def test_adafactor_with_momentum_cannot_go_on(tmp_path: Path) -> None:
    imported = tensor2tensor.read([_with_slots(tmp_path, "Adafactor", "Adafactor_1", "Adafactor_2", moved=[5])])
    with pytest.raises(DataError, match=r"Adafactor with momentum \(optimizer_adafactor_beta1\) cannot be taken over"):
        t2t_slots.read(imported)


def test_the_record_has_what_was_assumed(tmp_path: Path) -> None:
    prefix = save(tmp_path / "model.ckpt-1", variables(), None)
    imported = tensor2tensor.read([prefix], hparams="num_heads=2")
    text = vocabulary_kinds.load("bytes")
    found = run_folder.Import(imported, run_folder.recipe(imported, {}), (text, text), ("bytes",), {}, {})
    record = json.loads(json.dumps(run_folder._record(found)))
    assert record["assumed"]["pos"] == "timing"
    assert record["assumed"]["optimizer_adam_beta2"] == 0.98
