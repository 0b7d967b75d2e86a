"""The example model, a GRU encoder-decoder without attention: its outputs, and all commands with it by --usr_dir."""

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t2t_lite import config, registry
from t2t_lite.models.base import Model, check_model
from t2t_lite.runs.run_dir import RunSpec, make_model, write_run
from tests import commands, reference
from tests.checkpoints import assert_same_bits, tensors
from tests.examples.plugins import load_plugin
from tests.model_checks import assert_cost_is_counted, assert_steps_equal_columns
from tests.searches import Searches, random_sources

pytestmark = pytest.mark.commit

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "my_model"
USR_DIR = EXAMPLE / "gru"
V, UNITS = 20, 8
SOURCE = np.array([[5, 9, 3, 17, 1], [7, 7, 1, 0, 0], [2, 1, 0, 0, 0]], "int32")
TARGET = np.array([[4, 8, 1, 0, 0, 0], [6, 5, 4, 3, 12, 1], [1, 0, 0, 0, 0, 0]], "int32")
BATCH = {"source": SOURCE, "target": TARGET}
HPARAMS = (
    "units=32,batch_tokens=1024,learning_rate_factor=1,warmup_steps=40,log_every=5,eval_every=60,eval_lines=8,"
    "average_checkpoints=2,train_steps=10,save_every=5,extra_length=2"
)


@pytest.fixture(scope="module", autouse=True)
def example() -> Iterator[None]:
    with load_plugin(USR_DIR):
        yield


@pytest.fixture(scope="module")
def model() -> Any:
    made = make_model("gru", config.replace(registry.hparams("gru_tiny"), units=UNITS), V, V, shared=True)
    reference.randomise(made, 1, 2.0)
    return made


def test_the_model_is_short_and_keeps_the_contract() -> None:
    assert (USR_DIR / "model.py").read_text("utf-8").count("\n") <= 61
    assert registry.model_of("gru_tiny") == "gru"
    check_model("gru", registry.MODELS.get("gru"))


def _states(weights: dict[str, np.ndarray], side: str, ids: np.ndarray, h: np.ndarray) -> Iterator[np.ndarray]:
    """Yields the GRU states: z, r = sigmoid(W x + U h); h' = z h + (1 - z) tanh(W x + r U h)."""
    for symbol in ids:
        x, u = weights[f"{side}_table"][symbol] @ weights[f"{side}_W"], h @ weights[f"{side}_U"]
        z, r = (1 / (1 + np.exp(-(x + u)[at : at + UNITS])) for at in (0, UNITS))
        h = z * h + (1 - z) * np.tanh(x[2 * UNITS :] + r * u[2 * UNITS :])
        yield h


def test_logits_equal_the_equations(model: Any) -> None:
    weights, logits = reference.weights_of(model), np.asarray(model(BATCH))
    for i, (source, target) in enumerate(zip(SOURCE, TARGET, strict=True)):
        *_, last = _states(weights, "source", source[source > 0], np.zeros(UNITS))
        target = target[target > 0]
        hidden = np.array(list(_states(weights, "target", np.array([0, *target[:-1]]), last)))
        reference.assert_close(logits[i, : len(target)], hidden @ weights["softmax"].T, 1e-5)


def test_steps_equal_columns_of_the_whole_call_whatever_becomes_of_hypotheses(model: Any) -> None:
    assert_steps_equal_columns(model, SOURCE, V)


@pytest.mark.parametrize("beam", [1, 4])
def test_beam_search_equals_the_slow_one(model: Any, beam: int) -> None:
    found = Searches(model).assert_equal(random_sources(V), beam, 0.6, True)
    assert len({len(hypothesis) for hypothesis in found}) > 3  # sentences leave the batch at different steps
    assert len(set(found)) > len(found) / 2


def test_the_cost_is_that_of_the_products_in_the_graph(model: Any) -> None:
    assert_cost_is_counted(model)


def _run(command: str, *flags: object, status: int = 0, input: bytes = b"") -> str:
    """Runs a command to its end; returns its output, or its error messages if a `status` other than 0 is expected."""
    done = commands.run(f"t2t_lite.cli.{command}", f"--usr_dir={USR_DIR}", *flags, input=input)
    assert done.returncode == status, done.stderr.decode()
    assert b"Traceback" not in done.stderr
    return (done.stderr if status else done.stdout).decode("utf-8")


RECIPE = ("--problem=toy_reverse", "--hparams_set=gru_tiny", f"--hparams={HPARAMS}")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gru") / "run"
    assert "model:    gru, hparams set gru_tiny: " in _run("trainer", *RECIPE, f"--output_dir={folder}")
    return folder


@pytest.mark.nightly
def test_a_run_that_is_killed_goes_on_and_ends_with_the_same_bits(trained: Path, tmp_path: Path) -> None:
    """tests/faults/sequences.py kills the run while it writes the checkpoint of the last update."""
    run = tmp_path / "run"
    flags = (f"--usr_dir={USR_DIR}", *RECIPE, f"--data_dir={trained / 'data'}", f"--output_dir={run}")
    killed = commands.run("tests.faults.sequences", int(signal.SIGKILL), "model-10", 1, "trainer", *flags)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert [path.stem for path in (run / "checkpoints").glob("*.index")] == ["model-5"]
    assert "Resuming from step 5 of 10." in _run("trainer", f"--output_dir={run}")
    assert_same_bits(tensors(run, 10), tensors(trained, 10))
    assert (run / "test.hyp.txt").read_bytes() == (trained / "test.hyp.txt").read_bytes()
    assert (run / "averaged" / "model-10.index").is_file()


@pytest.mark.nightly
def test_its_export_translates_as_it_does(trained: Path, tmp_path: Path) -> None:
    _run("exporter", f"--output_dir={trained}", f"--export_dir={tmp_path}")
    lines = b"a b c\n1 2 3 4 5 6\n\nz\n"
    ours = _run("decoder", f"--output_dir={trained}", "--json", input=lines)
    done = commands.run("t2t_lite.cli.decoder", f"--saved_model={tmp_path}", "--json", input=lines)
    exported = done.stdout.decode("utf-8")
    outputs = [[json.loads(line)["outputs"][0] for line in text.strip().split("\n")] for text in (ours, exported)]
    assert len(outputs[0]) == len(outputs[1]) == 4
    for one, other in zip(*outputs, strict=True):
        assert one["text"] == other["text"]
        assert one["score"] == pytest.approx(other["score"], rel=1e-4, abs=1e-4)


def test_it_is_described() -> None:
    text = _run("trainer", "--describe", "--hparams_set=gru_tiny", "--vocab_size=1000")
    assert text.startswith("gru, hparams set gru_tiny: 1,554,432 parameters\n")
    assert "6.3 MFLOP per target token in training" in text


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("command", "flags", "message"),
    [
        ("insights", ["--sentence=a b"], "A Gru has no attention to show."),
        ("exporter", ["--export_dir=unused", "--signatures=nbest,attention"], "A Gru has no attention to show: leave"),
        ("decoder", ["--precision=int8"], "Gru: 0% of what it multiplies with is in layers that int8 weights are made"),
        ("trainer", ["--problem=toy_reverse", "--hparams_set=gru_tiny", "--hparams=packing=true"], "A Gru reads no"),
        ("trainer", ["--problem=toy_reverse", "--hparams_set=gru_tiny", "--hparams=jit=on"], "the training of a Gru."),
    ],
)
def test_what_it_cannot_do_is_refused_in_a_sentence(
    trained: Path, tmp_path: Path, command: str, flags: list[str], message: str, request: pytest.FixtureRequest
) -> None:
    if "--precision=int8" in flags:
        request.getfixturevalue("int8_machine")
    folder = tmp_path / "other" if command == "trainer" else trained
    assert message in _run(command, f"--output_dir={folder}", *flags, status=2)
    assert (folder / "hparams.json").exists() == (command != "trainer")  # a failed start leaves no run


def test_a_run_whose_package_is_not_installed_says_what_is_missing(tmp_path: Path) -> None:
    spec = RunSpec("toy_reverse", {}, "data", None, "gru_tiny", "gru", registry.hparams("gru_tiny"))
    write_run(tmp_path, spec)
    for command in ("trainer", "decoder", "exporter", "eval"):
        done = commands.call(command, f"--output_dir={tmp_path}")
        assert done.returncode == 2
        said = f"error: {tmp_path} was trained with the hparams set 'gru_tiny', the model 'gru' and the problem "
        assert done.stderr.startswith(said)


def test_a_set_whose_model_is_not_registered_is_named(tmp_path: Path) -> None:
    (tmp_path / "sets.py").write_text((USR_DIR / "hparams.py").read_text("utf-8").replace('"gru"', '"gru_rnn"'))
    flags = ("--problem=toy_reverse", "--hparams_set=gru_tiny", f"--output_dir={tmp_path / 'run'}")
    done = commands.call("trainer", f"--usr_dir={tmp_path}", *flags)
    assert done.returncode == 2
    assert done.stderr == (
        "error: The hparams set 'gru_tiny': There is no model called 'gru_rnn'. Did you mean 'rnn'? Known: "
        "bytenet, convs2s, moe, rnn, transformer, transformer_moe. Your own are found with --usr_dir=DIR.\n"
    )


def test_the_readme_lists_what_a_model_must_have() -> None:
    readme = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|", readme, re.MULTILINE)
    assert sorted(rows) == sorted(Model.__abstractmethods__)
    assert re.search(r"It is (\d+) lines", readme)[1] == "61"  # type: ignore[index]
