"""Guard against steps whose loss or gradient is not finite: it skips them, or reports one and ends the run."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from t2t_lite.data.store import Store
from t2t_lite.errors import TrainingError
from t2t_lite.files import replace_file
from t2t_lite.ops.graph import graph
from t2t_lite.runs.checkpoint import DIVERGED_ADVICE
from t2t_lite.runs.metrics_log import Report
from t2t_lite.training.step import TrainStep

_SHOWN = 10  # variables, where all gradients are finite
_OF_FLOAT16 = (
    " In float16 a number above 65,504 is infinite; a new run with precision=bfloat16 or float32 (and "
    "--warm_start_from, for these weights) holds larger ones."
)

Batch = Mapping[str, np.ndarray]


class NonFiniteGuard:
    """Skips bad batches while they are tolerated; then writes a report and raises. The loop calls it.

    Args:
        output_dir: the report is OUTPUT_DIR/bad_step_N.json.
        diagnose: makes the report of a step from (step, batch).
        not_finite: returns the names of weights that hold numbers which are not finite.
        tolerated: how many bad batches the run may leave out.
        skipped: how many it has left out so far.
        precision: of the products.
        writes: whether this process writes the report.
    """

    def __init__(
        self,
        output_dir: str | os.PathLike[str],
        report: Report,
        diagnose: Callable[[int, Batch], dict[str, Any]],
        not_finite: Callable[[], list[str]],
        *,
        tolerated: int,
        skipped: int,
        precision: str = "float32",
        writes: bool = True,
    ) -> None:
        self._folder, self._report = Path(output_dir), report
        self._diagnose, self._not_finite = diagnose, not_finite
        self._tolerated, self._skipped, self._writes = tolerated, skipped, writes
        self._advice = DIVERGED_ADVICE + (_OF_FLOAT16 if precision == "float16" else "")

    @property
    def tolerates(self) -> bool:
        """Whether the next bad batch is left out, and the run continues."""
        return self._skipped < self._tolerated

    def __call__(self, step: int, batch: Batch, loss: float, norm: float) -> None:
        """Raises TrainingError unless a bad batch is tolerated and the weights are finite."""
        what = f"Step {step}: the loss is {loss:g} and the gradient's norm {norm:g}. The update was not applied"
        diverged = self._not_finite()  # if so, no other batch can do better
        if self.tolerates and not diverged:
            self._skipped += 1
            self._report.skip(step, self._skipped)
            self._report.console.warn(
                f"{what}; bad batch {self._skipped} of the {self._tolerated} that may be left out."
            )
            return
        facts: dict[str, Any] = {"step": step, "loss": loss, "grad_norm": norm}
        named = "names sentences, gradients and layers"
        try:
            facts |= self._diagnose(step, batch)
        except Exception as error:  # of any kind: the step's own error is what the user has to know
            facts["not_examined"] = f"{type(error).__name__}: {error}"
            named = f"has only these numbers, because the step could not be computed again ({type(error).__name__})"
        path = self._folder / f"bad_step_{step}.json"
        if self._writes:
            replace_file(path, json.dumps(_plain(facts), indent=1, ensure_ascii=False) + "\n")
        said = f"{what} and nothing was saved since the newest checkpoint, from which the run resumes. {path} {named}."
        if diverged:
            raise TrainingError(
                f"{said} {len(diverged)} weights, such as {diverged[0]}, are not finite, so no other batch can help: "
                f"the run has diverged. {self._advice}"
            )
        more = self._skipped + 1
        raise TrainingError(f"{said} {self._advice} --skip_bad_batches={more} leaves out {more} such in all.")


def diagnose(
    step_function: TrainStep, model: keras.Model, store: Store, pairs: np.ndarray, step: int, batch: Batch
) -> dict[str, Any]:
    """Computes the parts of a step again and describes those whose loss or gradients are not finite.

    Args:
        store: what the batch is made of.
        pairs: ids of training pairs in the rows of the global batch, -1 where empty.

    Returns:
        "weights_not_finite": paths of weights that were not finite before the step.
        "parts": those with numbers that are not finite. If there are none (the gradients may be finite, but not the sum
            of their squares), the one with the largest gradient. Each has "first_row" (in the global batch, from 0),
            "loss", "pairs" (id in the prepared training data, from 0, and text), "gradient_norms" by variable (those
            not finite; if there are none, the largest) and "largest_activations": the greatest absolute output of each
            layer that is called outside loops over positions, in the order of the forward pass.
    """
    paths: list[str] = []
    passes = _passes(step_function, model, step, paths)
    split = step_function.split
    n = split.part_rows(len(batch["target"]))
    arrays = {name: tf.constant(array) for name, array in split.cut(batch).items()}
    found: list[dict[str, Any]] = []
    for first in range(0, len(batch["target"]), n):
        loss, norms, outputs = passes(arrays, tf.constant(first // n))
        largest: dict[str, float] = {}
        for path, value in zip(paths, outputs, strict=True):  # a layer may be called more than once
            largest[path] = float(np.maximum(value, largest.get(path, 0.0)))
        gradients = {w.path: float(norm) for w, norm in zip(model.trainable_weights, norms, strict=True)}
        found.append(
            {
                "first_row": first,
                "loss": float(loss),
                "pairs": _texts(store, pairs[first : first + n]),
                "gradient_norms": gradients,
                "largest_activations": largest,
            }
        )
    bad = [part for part in found if not math.isfinite(part["loss"] + sum(part["gradient_norms"].values()))]
    shown = bad or [max(found, key=lambda part: max(part["gradient_norms"].values()))]
    for part in shown:
        part["gradient_norms"] = _worst(part["gradient_norms"])
    weights = [w.path for w in model.weights if not np.isfinite(w.numpy()).all()]
    return {"weights_not_finite": weights, "parts": shown}


def _passes(step_function: TrainStep, model: keras.Model, step: int, paths: list[str]) -> Callable[..., Any]:
    """A graph from (batch, part) to the loss, the norms of the gradients and the greatest absolute outputs of layers.

    Args:
        paths: receives the layers' paths, in the order of the outputs. (A dict of outputs would come back sorted.)
    """

    def on_replica(batch: Any, part: Any) -> Any:
        loss, gradients = step_function.part_gradients(batch, step, part)
        with _watch_layers(model) as outputs:
            step_function.part_logits(batch, step, part)
        paths[:] = [path for path, _ in outputs]
        return loss, [tf.norm(gradient) for gradient in gradients], [value for _, value in outputs]

    def passes(batch: Any, part: Any) -> Any:
        strategy = step_function.strategy
        results = strategy.run(on_replica, args=(batch, part))  # all replicas compute the same
        return tf.nest.map_structure(lambda value: strategy.experimental_local_results(value)[0], results)

    return graph(passes)


@contextlib.contextmanager
def _watch_layers(model: keras.Model) -> Iterator[list[tuple[str, Any]]]:
    """Context whose list receives (path, greatest absolute output) of each layer while a graph is traced.

    Layers in the body of a loop (keras.ops.scan) are left out: the graph around it cannot return their tensors.
    """
    seen: list[tuple[str, Any]] = []
    graph = tf.compat.v1.get_default_graph()

    def watched(layer: Any) -> Callable[..., Any]:
        call = layer.call

        def call_and_note(*args: Any, **kwargs: Any) -> Any:
            outputs = call(*args, **kwargs)
            for value in tf.nest.flatten(outputs) if tf.compat.v1.get_default_graph() is graph else ():
                if tf.is_tensor(value) and value.dtype.is_floating:
                    nan = tf.reduce_any(tf.math.is_nan(value))  # NaN, which a maximum may ignore
                    greatest = tf.cast(tf.reduce_max(tf.abs(value)), tf.float32)
                    seen.append((layer.path, tf.where(nan, np.float32("nan"), greatest)))
            return outputs

        return call_and_note

    layers = list(model._flatten_layers())
    try:
        for layer in layers:
            layer.call = watched(layer)
        yield seen
    finally:
        for layer in layers:
            del layer.call


def _texts(store: Store, rows: np.ndarray) -> list[dict[str, Any]]:
    split = store.split("train")
    return [
        {
            "id": int(pair),
            "source": store.source_vocabulary.decode(split.source[pair].tolist()),
            "target": store.target_vocabulary.decode(split.target[pair].tolist()),
        }
        for pair in rows[rows >= 0]
    ]


def _worst(norms: Mapping[str, float]) -> dict[str, float]:
    bad = {path: norm for path, norm in norms.items() if not math.isfinite(norm)}
    return bad or dict(sorted(norms.items(), key=lambda item: -item[1])[:_SHOWN])


def _plain(value: Any) -> Any:
    """Replaces numbers that are not finite by "nan", "inf" and "-inf", as JSON cannot hold them."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
