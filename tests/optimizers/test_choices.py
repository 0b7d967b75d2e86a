"""Optimizer and schedule by name: what a recipe reads, what is refused, and a user's own classes."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import tensorflow as tf

from t2t_lite import config, registry
from t2t_lite.config import HParams
from t2t_lite.errors import DataError, UsageError
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.optimizers.choices import check_choices, make_optimizer, make_schedule
from t2t_lite.runs.record import make_record
from t2t_lite.runs.resume import check_checkpoint, check_settings
from t2t_lite.runs.run_dir import RunSpec
from tests import commands

OWN = '''"""An optimizer and a schedule."""

import tensorflow as tf

from t2t_lite import registry
from t2t_lite.optimizers.base import Optimizer
from t2t_lite.schedules.base import Schedule


@registry.register_optimizer
class SignDescent(Optimizer):
    """Goes the learning rate in the direction of a running mean's sign."""

    def __init__(self, variables, momentum):
        super().__init__(variables)
        self.momentum = momentum

    def slot_shapes(self, shape):
        return {"mean": shape}

    def update(self, weight, slots, gradient, rate):
        mean = self.momentum * slots["mean"] + (1 - self.momentum) * gradient
        return weight - rate * tf.sign(mean), {"mean": mean}


@registry.register_schedule
class Saw(Schedule):
    """learning_rate at each third update, half of it at the others."""

    def __init__(self, learning_rate):
        super().__init__()
        self.highest = learning_rate

    def rate(self, step):
        return self.highest if step % 3 == 0 else self.highest / 2
'''
RECIPE = (
    "optimizer=sign_descent,schedule=saw,learning_rate=0.003,momentum=0.5,num_layers=1,d_model=16,d_ff=32,num_heads=2,"
    "batch_tokens=256,train_steps=4,log_every=1,eval_every=100,eval_lines=2,beam_size=1,extra_length=1,"
    "average_checkpoints=1,warmup_steps=4000"
)


def _recipe(text: str) -> HParams:
    return config.override(TransformerHParams(), text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "optimizer=adan",
            "There is no optimizer called 'adan'. Did you mean 'adam' or 'adamw'? Known: adafactor, adam, adamw,",
        ),
        ("schedule=platau", "There is no schedule called 'platau'. Did you mean 'plateau'? Known: constant, cosine,"),
        (
            "optimizer=sgd,adam_beta2=0.9",
            "optimizer=sgd does not read adam_beta2=0.9 (it reads no field). Take the default, adam_beta2=0.98.",
        ),
        (
            "learning_rate=0.1",
            "hparams: schedule=noam does not read learning_rate=0.1 (it reads warmup_steps, learning",
        ),
        (
            "schedule=halving,learning_rate=1",
            "hparams: schedule=halving needs halve_after and halve_every, without a default; add halve_after=VALUE,"
            "halve_every=VALUE.",
        ),
        (
            "schedule=cosine,learning_rate=1,momentum=0.5,patience=3,halve_after=2",
            "hparams: optimizer=adam does not read momentum=0.5 (it reads adam_beta1, adam_beta2, adam_epsilon). "
            "Take the default, momentum=0.9. schedule=cosine does not read halve_after=2, patience=3 (it reads "
            "learning_rate, warmup_steps, train_steps, min_learning_rate). Take the default, halve_after=0,",
        ),
        ("schedule=constant", "hparams: schedule=constant needs learning_rate, without a default; add learning_rat"),
    ],
)
def test_what_is_refused_and_why(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        check_choices(_recipe(text), lambda: None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "adam_beta2=0.9,warmup_steps=9,learning_rate_factor=2",
        "optimizer=sgd,schedule=halving,learning_rate=1,halve_after=10,halve_every=5",
        "optimizer=nesterov,momentum=0.99,schedule=plateau,learning_rate=0.25,patience=2",
        "optimizer=adafactor,schedule=inverse_sqrt,learning_rate=0.01,warmup_steps=10000",
        "schedule=constant,learning_rate=0.001,warmup_steps=1",
        "schedule=cosine,learning_rate=0.001,min_learning_rate=1e-5",
        "schedule=wsd,learning_rate=0.001,decay_steps=20000",
    ],
)
def test_what_is_read_is_taken(text: str) -> None:
    hparams = _recipe(text)
    check_choices(hparams, lambda: None)
    assert make_optimizer(hparams, []).name == hparams.optimizer
    assert make_schedule(hparams, 512)(1) > 0


def test_the_default_recipe_needs_no_tensorflow_to_be_checked() -> None:
    def load() -> None:
        raise AssertionError

    check_choices(TransformerHParams(), load)


def test_each_field_of_these_groups_is_read_by_one_of_those_there_are() -> None:
    read = set()
    for table in (registry.OPTIMIZERS, registry.SCHEDULES):
        for name in table.names():
            read |= set(table.get(name).__init__.__code__.co_varnames)
    only = {name for name, field in config.fields(HParams).items() if field.meta.read_by}
    assert only
    assert read >= only


@pytest.fixture
def _registered() -> Iterator[None]:
    """Lets a test register names, and removes them afterwards."""
    tables = (registry.OPTIMIZERS, registry.SCHEDULES)
    before = [dict(table._things) for table in tables]
    yield
    for table, things in zip(tables, before, strict=True):
        table._things = things


@pytest.mark.usefixtures("_registered")
def test_an_optimizer_or_schedule_that_is_none_is_refused_by_name() -> None:
    from t2t_lite.optimizers.sgd import SGD
    from t2t_lite.schedules.base import Schedule

    class Foreign:
        """A class of another library."""

    class Bare(Schedule):
        """A schedule without a `rate` method."""

    class Asks(SGD):
        """Asks for an argument that no recipe has."""

        def __init__(self, variables: list[tf.Variable], momentun: float) -> None:
            super().__init__(variables)

    registry.OPTIMIZERS.register("foreign")(Foreign)
    registry.OPTIMIZERS.register("asks")(Asks)
    registry.SCHEDULES.register("bare")(Bare)
    for text, message in (
        ("optimizer=foreign", r"Foreign is no Optimizer; derive it from t2t_lite\.optimizers\.base\.Optimizer\."),
        ("optimizer=asks", r"Asks asks for 'momentun', which is no field of a recipe\. Did you mean 'momentum'\?"),
        ("schedule=bare", r"Bare lacks rate, which each schedule has; see t2t_lite\.schedules\.base\."),
    ):
        with pytest.raises(UsageError, match=message):
            check_choices(_recipe(text), lambda: None)


def test_what_may_change_when_a_run_goes_on() -> None:
    def spec(text: str) -> RunSpec:
        return RunSpec("toy_ende", {}, "data", None, "base", "transformer", _recipe(text))

    plateau = "schedule=plateau,learning_rate=1"
    check_settings(spec(""), spec("eval_every=7"), "run")
    with pytest.raises(UsageError, match="eval_every: 5000 -> 7"):
        check_settings(spec(plateau), spec(f"{plateau},eval_every=7"), "run")
    check_settings(spec(plateau), spec(f"{plateau},eval_every=7"), "run", reset_optimizer=True)
    with pytest.raises(UsageError, match=r"schedule: 'noam' -> 'plateau'\n.*with --reset_optimizer"):
        check_settings(spec(""), spec(plateau), "run")
    check_settings(spec(""), spec(plateau), "run", reset_optimizer=True)
    for reset in (False, True):
        with pytest.raises(UsageError, match="optimizer: 'adam' -> 'sgd'"):
            check_settings(spec(""), spec("optimizer=sgd"), "run", reset_optimizer=reset)


@pytest.mark.parametrize("schedule", ["cosine,learning_rate=0.01", "wsd,learning_rate=0.01,decay_steps=10"])
def test_what_the_schedule_reads_may_not_change_silently(schedule: str) -> None:
    """With other train_steps, the rates of the updates so far would have been others."""

    def spec(steps: int) -> RunSpec:
        recipe = _recipe(f"schedule={schedule},warmup_steps=4,train_steps={steps}")
        return RunSpec("toy_ende", {}, "data", None, "base", "transformer", recipe)

    message = (
        rf"  train_steps: 20 -> 40 \(schedule={schedule.partition(',')[0]} reads it: the learning rates so far .*\)\n"
        r"Resume with the old settings, .*--reset_optimizer .*--warm_start_from=run --with_optimizer continues"
    )
    with pytest.raises(UsageError, match=message):
        check_settings(spec(20), spec(40), "run")
    with pytest.raises(DataError, match="train_steps: 20 -> 40"):
        check_checkpoint(make_record(spec(20)), spec(40), "checkpoint", training=True)
    check_settings(spec(20), spec(40), "run", reset_optimizer=True)
    check_checkpoint(make_record(spec(20)), spec(40), "checkpoint", training=False)


@pytest.mark.nightly
def test_a_users_own_optimizer_and_schedule_train_and_go_on(tmp_path: Path) -> None:
    """From one file in --usr_dir: listed, trained with, and in the checkpoint; a misspelt name ends with status 2."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "own.py").write_text(OWN, encoding="utf-8")
    usr_dir, run = f"--usr_dir={tmp_path / 'mine'}", tmp_path / "run"
    flags = (
        usr_dir,
        "--problem=toy_reverse",
        "--hparams_set=base",
        f"--output_dir={run}",
        f"--data_dir={tmp_path}/data",
    )
    done = commands.run("t2t_lite.cli.trainer", *flags, f"--hparams={RECIPE}", "--train_steps=2")
    assert done.returncode == 0, done.stderr.decode()
    again = commands.run("t2t_lite.cli.trainer", usr_dir, f"--output_dir={run}", "--train_steps=4")
    assert again.returncode == 0, again.stderr.decode()
    rates = re.findall(r'"step": (\d), .*"learning_rate": ([\d.]+)', (run / "metrics.jsonl").read_text())
    assert [(int(step), float(rate)) for step, rate in rates] == [(1, 0.0015), (2, 0.0015), (3, 0.003), (4, 0.0015)]
    keys = tf.train.load_checkpoint(str(run / "checkpoints" / "model-4")).get_variable_to_shape_map()
    assert {key.partition("/")[0] for key in keys} >= {"sign_descent_mean", "sign_descent_start", "weights"}
    for change, message in (
        ("optimizer=sign_decent", "error: There is no optimizer called 'sign_decent'. Did you mean 'sign_descent'?"),
        ("optimizer=sgd,momentum=0.9", "  optimizer: 'sign_descent' -> 'sgd'"),
    ):
        refused = commands.run("t2t_lite.cli.trainer", usr_dir, f"--output_dir={run}", f"--hparams={change}")
        assert refused.returncode == 2
        assert message in refused.stderr.decode()
        assert "Traceback" not in refused.stderr.decode()
    listed = commands.run("t2t_lite.cli.trainer", usr_dir, "--registry_help=optimizers").stdout.decode()
    assert "  sign_descent  Goes the learning rate in the direction" in listed
    assert "  adafactor     Adafactor (Shazeer and Stern, 2018)" in listed
