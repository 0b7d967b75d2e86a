"""What a recipe will do before it does it: the model by parts, the batches, FLOPs and memory."""

from __future__ import annotations

import collections
import math
import os
from typing import Any

from t2t_lite.config import HParams
from t2t_lite.data.packing import PackedPlan
from t2t_lite.data.plan import BucketPlan
from t2t_lite.data.store import Store
from t2t_lite.train.run_data import prepare_run_data
from t2t_lite.train.run_dir import RunSpec, make_model
from t2t_lite.train.trainer import batch_limits, micro_batch_shapes, recipe_flops, recipe_plan

_EXAMPLE_LENGTH = 32  # pieces per side, for figures that need no data


def describe(spec: RunSpec, output_dir: str | os.PathLike[str], *, again: bool = False) -> str:
    """Returns the text of --describe for a run; prepares its data if need be, and `again` if they have changed."""
    _, store = prepare_run_data(spec, output_dir, again=again)
    plan = recipe_plan(spec.hparams, store.split("train"))
    source, target = store.source_vocabulary, store.target_vocabulary
    model = spec.make_model(source.size, target.size, source is target)
    flops = recipe_flops(spec.hparams, model.sizes, store.split("train"), plan)
    parts = [
        _model(spec.hparams_set, model),
        f"{_flops(model, store)}\n  the whole training: {flops:.2e} FLOP on real tokens",
        _batches(plan),
        _memory(spec.hparams, model, plan),
    ]
    return "\n\n".join(parts)


def describe_recipe(hparams_set: str, hparams: HParams, model_name: str, vocab_size: int) -> str:
    """Returns the text of --describe for a recipe with a shared vocabulary of `vocab_size` pieces; needs no data."""
    model = make_model(model_name, hparams, vocab_size, vocab_size, shared=True)
    tokens, micro_batches, length = batch_limits(hparams)
    batches = (
        f"Batches: {tokens:,} padded tokens per side and update at most, in {micro_batches} micro-batches; pairs of up "
        f"to {length} pieces a side"
    )
    return "\n\n".join([_model(hparams_set, model), _flops(model), batches, _memory(hparams, model)])


def _model(hparams_set: str, model: Any) -> str:
    counts: collections.Counter[str] = collections.Counter()
    for weight in model.weights:
        path = weight.path.split("/")[1:-1]  # without the model's name and the weight's own
        counts["/".join(path[:2] if path[0] in ("encoder", "decoder") else path[:1])] += math.prod(weight.shape)
    width = max(map(len, counts))
    lines = [f"  {name:<{width}}  {count:>12,}" for name, count in counts.items()]
    return f"{model.name}, hparams set {hparams_set}: {sum(counts.values()):,} parameters\n" + "\n".join(lines)


def _flops(model: Any, store: Store | None = None) -> str:
    source = target = _EXAMPLE_LENGTH
    of = f"at {source} + {target} pieces"
    if store is not None:
        split = store.split("train")
        source, target = (round(float(side.lengths.mean())) for side in (split.source, split.target))
        of = f"at the average pair of {source} + {target} pieces"
    flops = model.sizes.training_flops(source, target)
    return (
        f"Arithmetic {of}: {flops / target / 1e6:,.1f} MFLOP per target token in training "
        f"({flops / 3 / target / 1e6:,.1f} forward), multiply-add = 2"
    )


def _batches(plan: BucketPlan | PackedPlan) -> str:
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


def _memory(hparams: HParams, model: Any, plan: BucketPlan | PackedPlan | None = None) -> str:
    state = sum(math.prod(weight.shape) for weight in model.weights) * 4
    value_bytes = 2 if model.compute_dtype == "bfloat16" else 4
    shapes = micro_batch_shapes(hparams, plan)
    activations = max(model.sizes.activation_bytes(*shape, value_bytes) for shape in shapes)
    return (
        f"Memory per device, estimated: {_size(4 * state + activations)}\n"
        f"  weights {_size(state)}, Adam's moments {_size(2 * state)}, gradients {_size(state)} "
        f"(twice where micro-batches accumulate), activations of the largest micro-batch {_size(activations)}"
    )


def _size(number: float) -> str:
    return f"{number / 2**20:,.0f} MiB" if number < 2**30 else f"{number / 2**30:,.1f} GiB"
