"""The example model, a GRU encoder-decoder without attention: its numbers, and all commands with it from --usr_dir."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import config, registry
from t2t_lite.models.base import Model, check_model
from t2t_lite.train.run_dir import make_model
from tests import commands, reference

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "my_model"
V, UNITS = 20, 8
SOURCE = np.array([[5, 9, 3, 17, 1], [7, 7, 1, 0, 0], [2, 1, 0, 0, 0]], "int32")
TARGET = np.array([[4, 8, 1, 0, 0, 0], [6, 5, 4, 3, 12, 1], [1, 0, 0, 0, 0, 0]], "int32")
BATCH = {"source": SOURCE, "target": TARGET}
HPARAMS = (
    "units=32,batch_tokens=1024,learning_rate_factor=1,warmup_steps=40,log_every=5,eval_every=60,eval_lines=8,"
    "average_checkpoints=2,save_every=5,extra_length=2"
)


@pytest.fixture(scope="module", autouse=True)
def example() -> Iterator[None]:
    """The plug-in, found as --usr_dir finds it; this module's tests only see its names."""
    with pytest.MonkeyPatch.context() as patch:
        for table in (registry.HPARAMS, registry.MODELS):
            table.load()
            for names in ("_things", "_lazy"):
                patch.setattr(table, names, dict(getattr(table, names)))
        patch.setattr(sys, "path", list(sys.path))
        registry.load_plugins(str(EXAMPLE / "gru"))
        yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "gru"]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def model() -> Any:
    made = make_model("gru", config.replace(registry.hparams("gru_tiny"), units=UNITS), V, V, shared=True)
    reference.randomise(made, 1, 2.0)
    return made


def test_the_model_is_short_and_keeps_the_contract() -> None:
    assert (EXAMPLE / "gru" / "model.py").read_text("utf-8").count("\n") <= 60
    assert registry.model_of("gru_tiny") == "gru"
    check_model("gru", registry.MODELS.get("gru"))


def _states(weights: dict[str, np.ndarray], side: str, ids: np.ndarray, h: np.ndarray) -> Iterator[np.ndarray]:
    """z, r = sigmoid(W x + U h); h' = z h + (1 - z) tanh(W x + r U h)."""
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
    beam, steps, rng = 4, 6, np.random.default_rng(3)
    fixed, state, step = model.start(model.encode({"source": SOURCE}), beam, steps)
    ids = np.zeros((3, beam, 0), "int32")
    for at in range(steps):
        logits, state = step(ids[:, :, -1] if at else np.zeros((3, beam), "int32"), at, fixed, state)
        for k in range(beam):
            target = np.concatenate([ids[:, k], np.full((3, 1), 2, "int32")], 1)
            wanted = np.asarray(model({"source": SOURCE, "target": target}))[:, at]
            np.testing.assert_allclose(np.asarray(logits)[:, k], wanted, rtol=0, atol=1e-5)
        parents = rng.integers(0, beam, (3, beam)).astype("int32")
        state = model.reorder(state, parents)
        symbols = rng.integers(1, V, (3, beam, 1)).astype("int32")
        ids = np.concatenate([np.take_along_axis(ids, parents[:, :, None], 1), symbols], 2)


def _products(graph: Any, times: int = 1) -> int:
    """FLOPs of all matrix products in a graph of fixed shapes; the bodies of loops run `times` times."""
    total = 0
    for operation in graph.get_operations():
        if operation.type in ("MatMul", "BatchMatMulV2"):
            transposed = operation.get_attr("transpose_a" if operation.type == "MatMul" else "adj_x")
            inner = operation.inputs[0].shape[-2 if transposed else -1]
            total += 2 * inner * int(np.prod(operation.outputs[0].shape))
        elif operation.type in ("While", "StatelessWhile"):
            total += times * _products(graph._get_function(operation.get_attr("body").name).graph)
    return total


def test_the_cost_is_that_of_the_products_in_the_graph(model: Any) -> None:
    length = 6  # of both sides, so that loops over either have the same number of rounds
    batch = {side: tf.ones([3, length], tf.int32) for side in BATCH}

    def training() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(batch))
        return tape.gradient(loss, [w.value for w in model.trainable_weights])

    functions = (lambda: model(batch), training)
    graphs = [tf.function(f, autograph=False).get_concrete_function().graph for f in functions]
    counted = [_products(graph, length) for graph in graphs]
    cost = model.cost
    assert counted == [3 * cost.forward_flops(length, length), 3 * cost.training_flops(length, length)]
    lengths = np.array([[7, 30, 0], [9, 4, 0]], np.int32)
    assert cost.forward_flops(*lengths) == sum(cost.forward_flops(s, t) for s, t in lengths.T.tolist())
    assert cost.activation_bytes(2, 5, 9, 4) == 2 * cost.activation_bytes(1, 5, 9, 4) > 0


def _run(command: str, *flags: object, status: int = 0, input: bytes = b"") -> str:
    """Runs a command to its end; its output, or what it says where it fails."""
    done = commands.run(f"t2t_lite.bin.{command}", f"--usr_dir={EXAMPLE / 'gru'}", *flags, input=input)
    assert done.returncode == status, done.stderr.decode()
    assert b"Traceback" not in done.stderr
    return (done.stderr if status else done.stdout).decode("utf-8")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gru") / "run"
    flags = ("--problem=toy_reverse", "--hparams_set=gru_tiny", f"--hparams={HPARAMS}", f"--output_dir={folder}")
    assert "model:    gru, hparams set gru_tiny: " in _run("trainer", *flags, "--train_steps=10")
    return folder


def test_it_trains_averages_and_goes_on(trained: Path) -> None:
    assert (trained / "averaged" / "model-10.index").is_file()
    assert "Going on from step 10 of 12." in _run("trainer", f"--output_dir={trained}", "--train_steps=12")


def test_its_export_translates_as_it_does(trained: Path, tmp_path: Path) -> None:
    _run("exporter", f"--output_dir={trained}", f"--export_dir={tmp_path}")
    lines = b"a b c\n1 2 3 4 5 6\n\nz\n"
    ours = _run("decoder", f"--output_dir={trained}", "--json", input=lines)
    done = commands.run("t2t_lite.bin.decoder", f"--saved_model={tmp_path}", "--json", input=lines)
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


@pytest.mark.parametrize(
    ("command", "flags", "message"),
    [
        ("insights", ["--sentence=a b"], "A Gru has no attention to show."),
        ("exporter", ["--export_dir=unused", "--signatures=nbest,attention"], "A Gru has no attention to show: leave"),
        ("decoder", ["--precision=int8"], "Gru: 0% of what it multiplies with is in layers that int8 weights are made"),
        ("trainer", ["--problem=toy_reverse", "--hparams_set=gru_tiny", "--hparams=packing=true"], "A Gru reads no"),
    ],
)
def test_what_it_cannot_do_is_refused_in_a_sentence(
    trained: Path, tmp_path: Path, command: str, flags: list[str], message: str
) -> None:
    folder = tmp_path / "other" if command == "trainer" else trained
    assert message in _run(command, f"--output_dir={folder}", *flags, status=2)


def test_the_readme_lists_what_a_model_must_have() -> None:
    readme = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|", readme, re.MULTILINE)
    assert sorted(rows) == sorted(Model.__abstractmethods__)
    assert re.search(r"It is (\d+) lines", readme)[1] == "60"  # type: ignore[index]
