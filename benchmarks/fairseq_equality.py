"""Our Transformer beside fairseq's: one batch's logits, loss and gradients, then the losses of some hundred updates.

    pyenv exec python3.8 -m venv fairseq
    fairseq/bin/pip install torch==2.4.1 "numpy<1.25" omegaconf==2.0.6 hydra-core==1.0.7 bitarray sacrebleu regex tqdm
    fairseq/bin/pip install --no-deps fairseq==0.12.2
    t2t-lite-datagen --problem=text2text --source_dir=multi30k/tok --languages=en-de --data_dir=store
    python benchmarks/fairseq_equality.py --store=store/text2text --fairseq_python=fairseq/bin/python

fairseq runs in its own environment (`fairseq_side.py`) on the same batches. --as_ours names the parts in which fairseq
is changed to work as ours; it keeps its own ways in the others. By default all are changed, and only rounding should
be left:

    positions     sine and cosine in turns, rates to 10000^-((d - 2) / d); fairseq: in halves, to 10000^-1, from place 1
    start         the zero vector starts the decoder; fairseq: the vector of the end symbol
    norm_epsilon  1e-6 in layer normalisation; fairseq: 1e-5
    biases        attention has none; fairseq: q, k, v and output, the first three drawn from U(-d^-0.5, d^-0.5)
    schedule      update t has the learning rate of t; fairseq: of t - 1

--initial says whose initial weights are used: "fairseq" (by both), or "own" (each side's; ours drawn with --seed).
With dropout the masks differ, so only mean losses can be compared then.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from t2t_lite import config, registry
from t2t_lite.data.pipeline import assemble, make_plan
from t2t_lite.data.store import open_store

AS_OURS = ("positions", "start", "norm_epsilon", "biases", "schedule")
SIDES = ("source", "target")
PARTS = (  # names of our weights, and of fairseq's
    (r"transformer/target_embedding/table", "encoder.embed_tokens.weight"),
    (r"transformer/(\w+)/layer_(\d+)/around_\w+/self_attention/(\w+)", r"\1.layers.\2.self_attn.\3.weight"),
    (r"transformer/(\w+)/layer_(\d+)/around_\w+/memory_attention/(\w+)", r"\1.layers.\2.encoder_attn.\3.weight"),
    (r"transformer/(\w+)/layer_(\d+)/around_\w+/feed_forward/kernel_(\d)", r"\1.layers.\2.fc\3.weight"),
    (r"transformer/(\w+)/layer_(\d+)/around_\w+/feed_forward/bias_(\d)", r"\1.layers.\2.fc\3.bias"),
    (r"transformer/(\w+)/layer_(\d+)/around_feed_forward/layer_norm/(\w+)", r"\1.layers.\2.final_layer_norm.\3"),
    (r"transformer/(\w+)/layer_(\d+)/around_memory/layer_norm/(\w+)", r"\1.layers.\2.encoder_attn_layer_norm.\3"),
    (r"transformer/(\w+)/layer_(\d+)/around_\w+/layer_norm/(\w+)", r"\1.layers.\2.self_attn_layer_norm.\3"),
)
WORDS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj", "gamma": "weight", "beta": "bias"}


def main() -> None:
    """Runs the comparison."""
    args = _parser().parse_args()
    hparams = config.override(registry.hparams(args.hparams_set), args.hparams)
    hparams = config.replace(hparams, label_smoothing_over="others", seed=args.seed)
    registry.MODELS.get("transformer")  # before the long work
    with tempfile.TemporaryDirectory() as made:
        folder = Path(args.folder or made)
        folder.mkdir(exist_ok=True, parents=True)
        batches, vocab_size = write_batches(folder, args.store, hparams, args.updates)
        side = Side(folder, args, hparams, vocab_size)
        side.run("weights")
        weights = dict(np.load(folder / "weights.npz"))
        if args.updates_only is False and args.dropout == 0 and args.initial == "fairseq":
            side.run("gradients")
            compare_gradients(model_of(hparams, vocab_size, weights), batches[0], hparams, folder)
        kinds = ("float32", "float64") if args.float64 else ("float32",)
        for kind in kinds:
            side.run("train", kind)
        ours = train(hparams, vocab_size, weights if args.initial == "fairseq" else None, batches, args.dropout)
        np.save(folder / "our_losses.npy", ours)
        compare_losses(ours, *(np.load(folder / f"{kind}.npy") for kind in kinds))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Compares our Transformer's arithmetic with fairseq's.")
    parser.add_argument("--store", required=True, help="a prepared data set")
    parser.add_argument("--fairseq_python", required=True, help="the Python of fairseq's environment")
    parser.add_argument("--hparams_set", default="multi30k")
    parser.add_argument("--hparams", default="batch_tokens=1024")
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--updates_only", action="store_true", help="leave out the gradients of one batch")
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--initial", choices=("fairseq", "own"), default="fairseq")
    parser.add_argument("--as_ours", default=",".join(AS_OURS), help="what fairseq does our way")
    parser.add_argument("--float64", action="store_true", help="the losses in fairseq's float64 as well")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--folder", help="keep what the two sides exchange here")
    return parser


def write_batches(folder: Path, store: str, hparams: config.HParams, number: int) -> tuple[list[Any], int]:
    """Returns the first batches of the recipe's plan, also written to batches.npz, and the size of the vocabulary."""
    opened = open_store(store)
    split = opened.split("train")
    plan = make_plan(split, hparams.batch, hparams.seed)
    batches = [_full_rows(assemble(split, plan.batch(step), packing=False)) for step in range(1, number + 1)]
    arrays = {f"{side}_{i}": batch[side] for i, batch in enumerate(batches) for side in SIDES}
    np.savez(folder / "batches.npz", **arrays)
    return batches, opened.target_vocabulary.size


def _full_rows(batch: Any) -> Any:
    """The batch without empty rows, for which fairseq gives NaN (a softmax over nothing)."""
    full = batch["target"][:, 0] > 0
    return {side: ids[full] for side, ids in batch.items()}


class Side:
    """fairseq's side, a process for each job."""

    def __init__(self, folder: Path, args: argparse.Namespace, hparams: config.HParams, vocab_size: int) -> None:
        from t2t_lite.layers.positions import sinusoids

        as_ours = [name for name in args.as_ours.split(",") if name]
        if unknown := set(as_ours) - set(AS_OURS):
            raise SystemExit(f"--as_ours takes {', '.join(AS_OURS)}; not {', '.join(unknown)}.")
        np.save(folder / "positions.npy", np.asarray(sinusoids(np.arange(1024), hparams.d_model)))
        self._folder, self._python = folder, args.fairseq_python
        self._job = {
            **dataclasses.asdict(hparams),
            "folder": str(folder),
            "vocab_size": vocab_size,
            "as_ours": as_ours,
            "dropout": args.dropout,
            "seed": args.seed,
            "threads": args.threads,
            "load": args.initial == "fairseq",
            "rates": [rate(hparams, step) for step in range(1, args.updates + 1)],
            "peak": rate(hparams, hparams.warmup_steps),
        }

    def run(self, what: str, kind: str = "float32") -> None:
        """Has fairseq do `what`."""
        (self._folder / "job.json").write_text(json.dumps({**self._job, "what": what, "kind": kind}))
        command = [self._python, Path(__file__).with_name("fairseq_side.py"), self._folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"fairseq's side failed:\n{done.stderr[-3000:]}")


def rate(hparams: config.HParams, step: int) -> float:
    """Our learning rate."""
    from t2t_lite.optimizers.choices import make_schedule

    return make_schedule(hparams, hparams.d_model)(step)


def their_name(path: str) -> str:
    """The name of one of our weights in fairseq."""
    for ours, theirs in PARTS:
        if match := re.fullmatch(ours, path):
            for number, group in enumerate(match.groups(), 1):
                theirs = theirs.replace(f"\\{number}", WORDS.get(group, group))
            return theirs
    raise KeyError(path)


def as_ours(path: str, array: np.ndarray) -> np.ndarray:
    """A weight of fairseq in our layout; fairseq's matrices are [output, input]."""
    return array.T if array.ndim == 2 and "table" not in path else array


def model_of(hparams: config.HParams, vocab_size: int, weights: dict[str, np.ndarray] | None) -> Any:
    """Our model, with fairseq's weights if any are given."""
    import keras

    keras.utils.set_random_seed(hparams.seed)
    transformer: Any = registry.MODELS.get("transformer")
    model = transformer.from_hparams(hparams, vocab_size, vocab_size, True)
    for weight in model.trainable_weights if weights else ():
        weight.assign(as_ours(weight.path, weights[their_name(weight.path)]))
    return model


def compare_gradients(model: Any, batch: Any, hparams: config.HParams, folder: Path) -> None:
    """Prints how far our numbers and fairseq's in float32 differ at most from fairseq's in float64."""
    from t2t_lite.training.gradients import loss_and_gradients

    found = np.load(folder / "gradients.npz")
    real = batch["target"] > 0
    smoothing = (hparams.label_smoothing, "others")
    loss, ours = loss_and_gradients(
        model, batch, None, np.float32(real.sum()), smoothing, groups=0, shards=1, jit=False
    )
    names = {weight.path: their_name(weight.path) for weight in model.trainable_weights}
    theirs = {kind: {p: as_ours(p, found[f"{kind}:{n}"]) for p, n in names.items()} for kind in ("float32", "float64")}
    mine = {weight.path: np.asarray(g) for weight, g in zip(model.trainable_weights, ours, strict=True)}
    arrays = {
        "loss": [np.asarray(loss), found["float32:loss"], found["float64:loss"]],
        "logits": [np.asarray(model(batch))[real], found["float32:logits"][real], found["float64:logits"][real]],
        **{path: [mine[path], theirs["float32"][path], theirs["float64"][path]] for path in names},
    }
    print("| | largest absolute value | ours from float64 | fairseq's float32 from float64 | ours, of the norm |")
    print("|---|---|---|---|---|")
    rows = [(name, *_differences(*values)) for name, values in arrays.items()]
    worst = max(rows[2:], key=lambda row: row[4])
    for name, largest, of_ours, of_theirs, relative in [*rows[:3], worst]:
        print(f"| {name} | {largest:.4g} | {of_ours:.1e} | {of_theirs:.1e} | {relative:.1e} |")
    print(f"{len(rows) - 2} gradients; the last row is the one that differs most.", flush=True)


def _differences(ours: np.ndarray, theirs: np.ndarray, exact: np.ndarray) -> tuple[float, float, float, float]:
    of_ours = ours - exact
    relative = float(np.linalg.norm(of_ours) / np.linalg.norm(exact))
    return float(np.abs(exact).max()), float(np.abs(of_ours).max()), float(np.abs(theirs - exact).max()), relative


def train(
    hparams: config.HParams, vocab_size: int, weights: dict[str, np.ndarray] | None, batches: list[Any], dropout: float
) -> np.ndarray:
    """The loss of each of our updates, by the trainer's own step."""
    from t2t_lite.distributed.devices import Devices, make_strategy
    from t2t_lite.optimizers.choices import make_optimizer
    from t2t_lite.training.build import uses_xla
    from t2t_lite.training.step import TrainStep

    hparams = config.replace(hparams, dropout=dropout)
    strategy = make_strategy(Devices())
    with strategy.scope():
        model = model_of(hparams, vocab_size, weights)
        optimizer = make_optimizer(hparams, [w.value for w in model.trainable_weights])
    how = {"seed": hparams.seed, "jit": uses_xla(hparams, model), "packed": hparams.packing}
    step = TrainStep(model, optimizer, strategy, hparams.optimization, accumulate=1, **how)
    losses = []
    for number, batch in enumerate(batches, 1):
        step(batch, number, rate(hparams, number))
        losses.append(step.outcome().loss)
    return np.array(losses)


def compare_losses(ours: np.ndarray, theirs: np.ndarray, exact: np.ndarray | None = None) -> None:
    """Prints the curves, and how far single losses differ: from fairseq's float64 losses, if they are given."""
    print("| updates | our mean loss | fairseq's | largest relative difference of an update | fairseq's own rounding |")
    print("|---|---|---|---|---|")
    reference = theirs if exact is None else exact
    ours_from, theirs_from = (np.abs(losses - reference) / reference for losses in (ours, theirs))
    edges = np.unique(np.linspace(0, len(ours), 11).astype(int))
    for first, last in itertools.pairwise(edges):
        span = slice(first, last)
        rounding = "" if exact is None else f"{theirs_from[span].max():.1e}"
        means = f"{ours[span].mean():.4f} | {theirs[span].mean():.4f}"
        print(f"| {first + 1} to {last} | {means} | {ours_from[span].max():.1e} | {rounding} |")
    print(f"All: {ours.mean():.4f} and {theirs.mean():.4f}.")


if __name__ == "__main__":
    main()
