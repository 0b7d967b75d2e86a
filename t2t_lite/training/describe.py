"""The text of --describe: a recipe's values, the model by parts, epochs, hours, batches, memory and disk."""

from __future__ import annotations

import collections
import functools
import math
import os
from typing import Any

from t2t_lite import config
from t2t_lite.config import HParams
from t2t_lite.data.pipeline import make_plan
from t2t_lite.data.plan import BucketPlan, Plan
from t2t_lite.data.store import Store
from t2t_lite.distributed.devices import Devices, number_of_devices
from t2t_lite.optimizers.choices import make_optimizer, model_schedule
from t2t_lite.recipe_text import recipe
from t2t_lite.runs.run_data import prepare_run_data
from t2t_lite.runs.run_dir import RunSpec
from t2t_lite.runs.utilisation import planned_flops
from t2t_lite.training.accumulation import batch_shapes, choose_accumulate, largest_part
from t2t_lite.training.build import build_model, uses_xla
from t2t_lite.training.estimates import hours_text, memory_there
from t2t_lite.training.split import Split
from t2t_lite.training.start_lines import schedule_warning

_EXAMPLE_LENGTH = 32  # pieces per side, for figures that need no data


def describe(spec: RunSpec, output_dir: str | os.PathLike[str] | None, devices: Devices, *, again: bool = False) -> str:
    """Returns the text of --describe for a run; prepares its data if need be.

    Args:
        output_dir: the run's folder; None if only the data has one.
        devices: what it would be trained on.
        again: prepare the data again if they have changed.
    """
    _, store = prepare_run_data(spec, output_dir or ".", again=again)
    hparams, source, target = spec.hparams, store.source_vocabulary, store.target_vocabulary
    plan, steps = make_plan(store.split("train"), hparams.batch, hparams.seed), hparams.train_steps
    model = build_model(spec.model, hparams, source.size, target.size, source is target)
    planned = functools.partial(planned_flops, model.cost, store.split("train"), plan)
    xla = uses_xla(hparams, model)
    hours = hours_text(planned, steps, model.compute_dtype, output_dir, xla=xla)
    epochs = steps / plan.steps_per_epoch
    parts = [
        _model(spec.model, spec.hparams_set, model),
        recipe(hparams),
        f"{_flops(model, store)}\n  the whole training: {planned(steps):.2e} FLOP on real tokens",
        f"Training: {steps:,} updates, {epochs:,.1f} epochs\n  {hours}{_schedule(hparams, model, steps)}",
        _batches(plan),
        _memory_and_disk(hparams, model, devices, plan),
    ]
    return "\n\n".join(parts)


def describe_recipe(hparams_set: str, hparams: HParams, model_name: str, vocab_size: int, devices: Devices) -> str:
    """Returns the text of --describe for a recipe with a shared vocabulary of `vocab_size` pieces; needs no data."""
    model = build_model(model_name, hparams, vocab_size, vocab_size, shared=True)
    tokens, length = hparams.batch_tokens, hparams.max_length
    batches = f"Batches: {tokens:,} padded tokens per side and update at most; pairs of up to {length} pieces a side"
    steps, xla = hparams.train_steps, uses_xla(hparams, model)
    pieces = min(_EXAMPLE_LENGTH, length)
    flops = tokens * model.cost.training_flops(pieces, pieces) / pieces  # of an update
    training = (
        f"Training: {steps:,} updates; how many epochs that is depends on the data (give --problem and --output_dir)\n"
        f"  about {steps * flops:.2e} FLOP, were all batches full, of pairs of {pieces} + {pieces} pieces\n"
        f"  {hours_text(lambda n: n * flops, steps, model.compute_dtype, xla=xla)}{_schedule(hparams, model, steps)}"
    )
    parts = [
        _model(model_name, hparams_set, model),
        recipe(hparams),
        _flops(model),
        training,
        batches,
        _memory_and_disk(hparams, model, devices),
    ]
    return "\n\n".join(parts)


def _model(name: str, hparams_set: str, model: Any) -> str:
    counts: collections.Counter[str] = collections.Counter()
    for weight in model.weights:
        path = weight.path.split("/")[1:-1] or [weight.name]  # without the model's name and the weight's own
        counts["/".join(path[:2] if path[0] in ("encoder", "decoder") else path[:1])] += math.prod(weight.shape)
    width = max(map(len, counts))
    lines = [f"  {part:<{width}}  {count:>12,}" for part, count in counts.items()]
    return f"{name}, hparams set {hparams_set}: {sum(counts.values()):,} parameters\n" + "\n".join(lines)


def _flops(model: Any, store: Store | None = None) -> str:
    source = target = _EXAMPLE_LENGTH
    of = f"at {source} + {target} pieces"
    if store is not None:
        split = store.split("train")
        source, target = (round(float(side.lengths.mean())) for side in (split.source, split.target))
        of = f"at the average pair of {source} + {target} pieces"
    flops = model.cost.training_flops(source, target)
    return (
        f"Arithmetic {of}: {flops / target / 1e6:,.1f} MFLOP per target token in training "
        f"({flops / 3 / target / 1e6:,.1f} forward), multiply-add = 2"
    )


def _schedule(hparams: HParams, model: Any, steps: int) -> str:
    warning = schedule_warning(model_schedule(hparams, model), steps)
    return "" if warning is None else f"\n  {warning}"


def _batches(plan: Plan) -> str:
    s = plan.statistics()
    lines = [
        f"Batches: {s.steps:,} updates per epoch of {s.pairs:,} pairs ({s.left_out:,} left out as too long)",
        f"  per update: {s.source_tokens / s.steps:,.0f} source and {s.target_tokens / s.steps:,.0f} target tokens, "
        f"{s.padded_tokens / s.steps:,.0f} places on both sides, {s.waste:.1%} of them padding",
    ]
    if isinstance(plan, BucketPlan):
        shapes = ", ".join(f"{b.rows} x ({b.source_length} + {b.target_length})" for b in plan.buckets)
        lines.append(f"  {len(plan.buckets)} shapes, rows x (source + target): {shapes}")
    return "\n".join(lines)


def _memory_and_disk(hparams: HParams, model: Any, devices: Devices, plan: Plan | None = None) -> str:
    state = sum(math.prod(weight.shape) for weight in model.weights) * 4
    value_bytes = 2 if model.compute_dtype == "bfloat16" else 4
    shapes, number = batch_shapes(hparams.batch, plan), number_of_devices(devices)
    accumulate = devices.accumulate or choose_accumulate(model, shapes, number)
    activations = largest_part(model.cost, shapes, Split(number, accumulate, model.balance_groups), value_bytes)
    optimizer = make_optimizer(hparams, [])
    slots = [shape for w in model.trainable_weights for shape in optimizer.slot_shapes(list(w.shape)).values()]
    moments = sum(map(math.prod, slots)) * 4
    needed = 2 * state + moments + activations
    there, whose = memory_there()
    remat = "or set remat=true, " if "remat" in config.fields(type(hparams)) else ""
    advice = "" if needed <= there else f"\n  too little: raise --accumulate, {remat}or take a smaller recipe"
    return (
        f"Memory per device, estimated: {_size(needed)}\n"
        f"  weights {_size(state)}, {type(optimizer).__name__}'s moments {_size(moments)}, gradients {_size(state)} "
        f"(twice where they accumulate), activations {_size(activations)}: batches are computed in "
        f"{accumulate} x {number} parts (--accumulate, --devices)\n"
        f"  there: {_size(there)}, {whose}{advice}\n\n"
        f"{_disk(hparams.run.num_kept, state, moments)}"
    )


def _disk(number: int, weights: int, moments: int) -> str:
    one = weights + moments
    return (
        f"Disk: {_size((number + 1) * one + 2 * weights)}\n"
        f"  {number} checkpoints of {_size(one)} and one that is being written, "
        f"best and averaged weights {_size(weights)} each"
    )


def _size(number: float) -> str:
    return f"{number / 2**20:,.0f} MiB" if number < 2**30 else f"{number / 2**30:,.1f} GiB"
