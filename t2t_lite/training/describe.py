"""What is said of a run before its first update: the text of --describe, and the lines and warnings of a start."""

from __future__ import annotations

import collections
import dataclasses
import functools
import math
import os
from typing import Any, NamedTuple

import tensorflow as tf

from t2t_lite import config
from t2t_lite.config import HParams
from t2t_lite.cpus import available_cpus, instruction_sets
from t2t_lite.data.pipeline import make_plan
from t2t_lite.data.plan import BucketPlan, Plan
from t2t_lite.data.sampled_split import training_split
from t2t_lite.data.store import Store
from t2t_lite.distributed.devices import BFLOAT16_SETS, Devices, gpu_without_bfloat16, number_of_devices, on_gpus
from t2t_lite.ops import threads
from t2t_lite.optimizers.choices import make_optimizer, model_schedule
from t2t_lite.recipe_text import recipe
from t2t_lite.runs.metrics_log import BOARD_FOLDER, METRICS_FILE
from t2t_lite.runs.run_data import prepare_run_data
from t2t_lite.runs.run_dir import RunSpec
from t2t_lite.runs.utilisation import planned_flops
from t2t_lite.schedules.base import Schedule
from t2t_lite.training.build import build_model, training_cost, uses_xla
from t2t_lite.training.estimates import Hours, expect_hours, memory_there
from t2t_lite.training.split import Split, batch_shapes, choose_accumulate, largest_part

_EXAMPLE_LENGTH = 32  # pieces per side, for figures that need no data
_MANY_EPOCHS = 200  # parsing_small, which is made for few trees, has about 140
_USUAL_EPOCHS = 50  # multi30k on its data has up to 130, small on 100,000 pairs some 65, base on WMT 2014 about 20


class Description(NamedTuple):
    """What --describe prints: text, or the same facts for JSON, sizes in bytes."""

    text: str
    facts: dict[str, Any]


def describe(
    spec: RunSpec, output_dir: str | os.PathLike[str] | None, devices: Devices, *, again: bool = False
) -> Description:
    """Describes a run; prepares its data if need be.

    Args:
        output_dir: the run's folder; None if only the data has one.
        devices: what it would be trained on.
        again: prepare the data again if they have changed.
    """
    _, store = prepare_run_data(spec, output_dir or ".", again=again)
    hparams, source, target = spec.hparams, store.source_vocabulary, store.target_vocabulary
    split, steps = training_split(store, hparams.batch, hparams.seed), hparams.train_steps
    plan = make_plan(split, hparams.batch, hparams.seed)
    model = build_model(spec.model, hparams, source.size, target.size, source is target)
    planned = functools.partial(planned_flops, training_cost(model, hparams), split, plan)
    xla = uses_xla(hparams, model)
    hours = expect_hours(planned, steps, model.compute_dtype, output_dir, xla=xla)
    memory = _memory(hparams, model, devices, plan)
    epochs = steps / plan.steps_per_epoch
    parts = [
        _model(spec.model, spec.hparams_set, model),
        recipe(hparams),
        f"{_flops(hparams, model, store)}\n  the whole training: {planned(steps):.2e} FLOP on real tokens",
        f"Training: {steps:,} updates, {epochs:,.1f} epochs\n  {hours.text}{_schedule(hparams, model, steps)}",
        _batches(plan) + (f"\n  {split.remark}" if split.remark else ""),
        _memory_text(memory, hparams),
    ]
    facts = _facts((spec.model, spec.hparams_set), hparams, model, planned(steps), hours, memory)
    of_data = {"epochs": epochs, "batches": {**dataclasses.asdict(plan.statistics())}}
    return Description("\n\n".join(parts), facts | of_data)


def describe_recipe(
    hparams_set: str, hparams: HParams, model_name: str, vocab_size: int, devices: Devices
) -> Description:
    """Describes a recipe with a shared vocabulary of `vocab_size` pieces; needs no data."""
    model = build_model(model_name, hparams, vocab_size, vocab_size, shared=True)
    tokens, length = hparams.batch_tokens, hparams.max_length
    batches = f"Batches: {tokens:,} padded tokens per side and update at most; pairs of up to {length} pieces a side"
    steps, xla = hparams.train_steps, uses_xla(hparams, model)
    pieces = min(_EXAMPLE_LENGTH, length)
    flops = tokens * training_cost(model, hparams).training_flops(pieces, pieces) / pieces  # of an update
    hours = expect_hours(lambda n: n * flops, steps, model.compute_dtype, xla=xla)
    memory = _memory(hparams, model, devices)
    training = (
        f"Training: {steps:,} updates; how many epochs that is depends on the data (give --problem and --output_dir)\n"
        f"  about {steps * flops:.2e} FLOP, were all batches full, of pairs of {pieces} + {pieces} pieces\n"
        f"  {hours.text}{_schedule(hparams, model, steps)}"
    )
    parts = [
        _model(model_name, hparams_set, model),
        recipe(hparams),
        _flops(hparams, model),
        training,
        batches,
        _memory_text(memory, hparams),
    ]
    facts = _facts((model_name, hparams_set), hparams, model, steps * flops, hours, memory)
    return Description("\n\n".join(parts), facts)


def _facts(
    names: tuple[str, str], hparams: HParams, model: Any, flops: float, hours: Hours, memory: dict[str, Any]
) -> dict[str, Any]:
    return {
        "model": names[0],
        "hparams_set": names[1],
        "parameters": int(model.count_params()),
        "hparams": config.to_dict(hparams),
        "train_steps": hparams.train_steps,
        "train_flops": flops,
        "hours": [hours.least, hours.most],
        "memory": memory,
    }


def _model(name: str, hparams_set: str, model: Any) -> str:
    counts: collections.Counter[str] = collections.Counter()
    for weight in model.weights:
        path = weight.path.split("/")[1:-1] or [weight.name]  # without the model's name and the weight's own
        counts["/".join(path[:2] if path[0] in ("encoder", "decoder") else path[:1])] += math.prod(weight.shape)
    width = max(map(len, counts))
    lines = [f"  {part:<{width}}  {count:>12,}" for part, count in counts.items()]
    return f"{name}, hparams set {hparams_set}: {sum(counts.values()):,} parameters\n" + "\n".join(lines)


def _flops(hparams: HParams, model: Any, store: Store | None = None) -> str:
    source = target = _EXAMPLE_LENGTH
    of = f"at {source} + {target} pieces"
    if store is not None:
        split = store.split("train")
        source, target = (round(float(side.lengths.mean())) for side in (split.source, split.target))
        of = f"at the average pair of {source} + {target} pieces"
    flops = training_cost(model, hparams).training_flops(source, target)
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


def _memory(hparams: HParams, model: Any, devices: Devices, plan: Plan | None = None) -> dict[str, Any]:
    """Bytes of memory on each device and of disk, and into how many parts the devices cut a batch."""
    state = sum(math.prod(weight.shape) for weight in model.weights) * 4
    value_bytes = 4 if model.compute_dtype == "float32" else 2
    shapes, number = batch_shapes(hparams.batch, plan), number_of_devices(devices)
    accumulate = devices.accumulate or choose_accumulate(model, hparams, shapes, number)
    cost = training_cost(model, hparams)
    activations = largest_part(cost, shapes, Split(number, accumulate, model.balance_groups), value_bytes)
    optimizer = make_optimizer(hparams, [])
    slots = [shape for w in model.trainable_weights for shape in optimizer.slot_shapes(list(w.shape)).values()]
    moments = sum(map(math.prod, slots)) * 4
    average = state if hparams.ema else 0
    needed = 2 * state + moments + average + activations
    there, whose = memory_there()
    checkpoint = state + moments + average
    return {
        "needed": needed,
        "weights": state,
        "optimizer": type(optimizer).__name__,
        "moments": moments,
        "ema": average,
        "activations": int(activations),
        "accumulate": accumulate,
        "devices": number,
        "there": there,
        "whose": whose,
        "checkpoint": checkpoint,
        "disk": (hparams.run.num_kept + 1) * checkpoint + 2 * state + average,
    }


def _memory_text(memory: dict[str, Any], hparams: HParams) -> str:
    needed, there = memory["needed"], memory["there"]
    state, moments, activations = (_size(memory[name]) for name in ("weights", "moments", "activations"))
    remat = "or set remat=true, " if "remat" in config.fields(type(hparams)) else ""
    average = f"moving average {_size(memory['ema'])}, " if memory["ema"] else ""
    advice = "" if needed <= there else f"\n  too little: raise --accumulate, {remat}or take a smaller recipe"
    return (
        f"Memory per device, estimated: {_size(needed)}\n"
        f"  weights {state}, {memory['optimizer']}'s moments {moments}, {average}gradients {state} "
        f"(twice where they accumulate), activations {activations}: batches are computed in "
        f"{memory['accumulate']} x {memory['devices']} parts (--accumulate, --devices)\n"
        f"  there: {_size(there)}, {memory['whose']}{advice}\n\n"
        f"Disk: {_size(memory['disk'])}\n"
        f"  {hparams.run.num_kept} checkpoints of {_size(memory['checkpoint'])} and one that is being written, best "
        f"and averaged weights {state} each"
    )


def _size(number: float) -> str:
    return f"{number / 2**20:,.0f} MiB" if number < 2**30 else f"{number / 2**30:,.1f} GiB"


def start_lines(
    output_dir: str | os.PathLike[str], spec: RunSpec, model: Any, store: Store, plan: Plan, steps: int, devices: str
) -> list[str]:
    """Returns five lines: the recipe of a run in figures.

    Args:
        steps: of the whole training.
        devices: what they are, and how they share a batch.
    """
    parameters = sum(math.prod(weight.shape) for weight in model.weights)
    source, target = store.source_vocabulary, store.target_vocabulary
    pieces = f"{source.size:,}" if source is target else f"{source.size:,} and {target.size:,}"
    pairs = store.manifest["splits"]["train"]["pairs"]
    folder = os.fspath(output_dir)
    return [
        f"model:    {spec.model}, hparams set {spec.hparams_set}: {parameters:,} parameters",
        f"devices:  {devices}",
        f"data:     {spec.problem}: {pairs:,} pairs, vocabulary of {pieces} pieces; {plan.steps_per_epoch:,} steps per "
        f"epoch, {steps:,} steps are {_number(steps / plan.steps_per_epoch)} epochs",
        "time:     measured over the first updates; a line then says it",
        f"metrics:  {os.path.join(folder, METRICS_FILE)}; tensorboard --logdir={os.path.join(folder, BOARD_FOLDER)}",
    ]


def start_warnings(spec: RunSpec, store: Store, plan: Plan, schedule: Schedule, steps: int) -> list[str]:
    """Returns what is unusual about a training of `steps` updates in all."""
    pairs, epochs = store.manifest["splits"]["train"]["pairs"], steps / plan.steps_per_epoch
    found = [*spec.make_problem().metric_warnings(store.text("dev")[1])]
    if plan.left_out:
        found.append(
            f"warning: {plan.left_out:,} of {pairs:,} training pairs ({plan.left_out / pairs:.2%}) have a side longer "
            f"than max_length={plan.max_length} pieces, and are left out. If they matter, raise max_length."
        )
    if epochs > _MANY_EPOCHS:
        found.append(
            f"warning: {steps:,} steps of hparams set {spec.hparams_set} are {epochs:,.0f} epochs of {pairs:,} pairs; "
            "most models learn such data by heart long before. Sets: tiny for toys, multi30k for some 30,000 pairs, "
            "small for some 100,000, base for millions, parsing_small for a few thousand trees; or "
            f"--train_steps={_USUAL_EPOCHS * plan.steps_per_epoch} makes it {_USUAL_EPOCHS} epochs."
        )
    if "alignment" in store.manifest["splits"]["train"] and not getattr(spec.hparams, "guided_alignment", 0.0):
        found.append(
            "warning: the data have alignments, of which nothing is learned without --hparams=guided_alignment=0.1."
        )
    warnings = schedule_warning(schedule, steps), precision_warning(spec.hparams.precision)
    return [*found, *filter(None, warnings)]


def precision_warning(precision: str) -> str | None:
    """Returns a warning if the devices are slow in the precision of a run, else None."""
    if precision == "bfloat16" and (gpu := gpu_without_bfloat16()):
        return f"warning: {gpu} has no units for bfloat16, and is slow in it. New runs: --hparams=precision=float16."
    sets = set(instruction_sets())  # empty where the system does not say
    if precision == "bfloat16" and not on_gpus() and sets and sets.isdisjoint({*BFLOAT16_SETS, "bf16"}):
        return (
            "warning: this CPU has no instructions for bfloat16 (AVX512-BF16, AMX), and is no faster in it. New runs: "
            "--hparams=precision=auto, which is float32 here."
        )
    if precision == "float16" and not on_gpus():
        return "warning: float16 is for GPUs; CPUs are faster in float32. New runs: --hparams=precision=auto."
    return None


def schedule_warning(schedule: Schedule, steps: int) -> str | None:
    """Returns a warning if the learning rate rises from the last but one of `steps` updates to the last, else None."""
    if steps < 2 or schedule(steps) <= schedule(steps - 1):
        return None
    return (
        f"warning: the learning rate still rises at the last update, step {steps:,}. Most of what a model learns comes "
        "after that: give more train_steps, or fewer warmup_steps."
    )


def device_text(strategy: tf.distribute.Strategy, workers: int) -> str:
    """Returns the name of the devices, such as "2 x NVIDIA H100" or "CPU, 8 processors" or "CPU, 2 of 8 processors".

    Args:
        workers: the number of processes.
    """
    number = strategy.num_replicas_in_sync
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        name = tf.config.experimental.get_device_details(gpus[0]).get("device_name", "GPU")
        text = f"{number} x {name}"
    else:
        available, used = available_cpus(), threads.processors()
        count = f"{used} of {available}" if used < available else f"{available}"
        text = f"CPU, {count} processor{'' if available == 1 else 's'}"
        text += f" as {number} logical devices" if number > 1 else ""
    return text + (f", in {workers} workers" if workers > 1 else "")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"
