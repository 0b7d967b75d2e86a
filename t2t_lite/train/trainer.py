"""A whole run: data, model, training, averaging, the test set. The only reader of the recipe's training fields."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras

from t2t_lite.config import HParams
from t2t_lite.data.packing import PackedPlan
from t2t_lite.data.pipeline import batches, make_plan
from t2t_lite.data.plan import BucketPlan
from t2t_lite.data.store import Store, TokenSplit
from t2t_lite.decode.translate import Translator
from t2t_lite.models.flops import Sizes
from t2t_lite.train.checkpoint import AVERAGED, Checkpoints, find, list_checkpoints
from t2t_lite.train.devices import make_strategy, use_jit
from t2t_lite.train.evaluate import Evaluator, Scores
from t2t_lite.train.loop import Cadence, train
from t2t_lite.train.optimizer import Adam
from t2t_lite.train.report import METRICS_FILE, Report
from t2t_lite.train.run_dir import RunSpec
from t2t_lite.train.schedule import learning_rate
from t2t_lite.train.step import TrainStep, turns
from t2t_lite.train.utilisation import device_flops_per_second, planned_flops


class Trainer:
    """Everything that one run needs, built from its recipe.

    Args:
        output_dir: the run's folder.
        spec: what the run was started with.
        store: its prepared data.
        devices: see `make_strategy`.
    """

    def __init__(
        self, output_dir: str | os.PathLike[str], spec: RunSpec, store: Store, devices: int | None = None
    ) -> None:
        self.output_dir, self.spec, self.store = Path(output_dir), spec, store
        hparams = spec.hparams
        self.strategy = make_strategy(devices)
        keras.utils.set_random_seed(hparams.seed % 2**32)
        with self.strategy.scope():
            self.model = build_model(spec, store)
            self.optimizer = Adam(
                [w.value for w in self.model.trainable_weights],
                hparams.adam_beta1,
                hparams.adam_beta2,
                hparams.adam_epsilon,
            )
            self.checkpoints = Checkpoints(
                output_dir,
                self.model,
                self.optimizer,
                keep=max(hparams.keep_checkpoints, number_to_average(hparams)),
            )
        problem, vocabularies = spec.make_problem(), (store.source_vocabulary, store.target_vocabulary)
        translator = Translator.from_hparams(self.model, *vocabularies, hparams, trees=problem.target_kind == "tree")
        self.evaluate = Evaluator(self.model, store, translator, problem.metric)

    def warm_start(self, source: str) -> int:
        """Takes the weights of another run, or of one checkpoint of it; returns their step."""
        path = source if os.path.exists(source + ".index") else find(source)
        return self.checkpoints.load_weights(path)

    def run(self) -> None:
        """Trains to the end of the recipe, from the newest checkpoint if there is one."""
        hparams = self.spec.hparams
        first = self.checkpoints.resume() + 1
        if first > hparams.train_steps:
            print(f"{self.output_dir} is at step {first - 1:,} of {hparams.train_steps:,}: there is nothing to train.")
            return
        if first > 1:
            print(f"Going on from step {first - 1:,} of {hparams.train_steps:,}.")
        split = self.store.split("train")
        plan = recipe_plan(hparams, split)
        stream = batches(split, plan, micro_batches=hparams.micro_batches, packing=hparams.packing, first_step=first)
        report = Report(
            self.output_dir,
            first,
            hparams.train_steps,
            sizes=self.model.sizes,
            flops=planned_flops(self.model.sizes, split, plan, first - 1),
            device_flops_per_second=device_flops_per_second(self.strategy, self.model.compute_dtype),
        )
        cadence = Cadence(
            train_steps=hparams.train_steps,
            log_every=hparams.log_every,
            eval_every=hparams.eval_every,
            eval_lines=hparams.eval_lines,
            save_every=hparams.save_every,
            save_minutes=hparams.save_minutes,
            early_stopping=hparams.early_stopping,
        )
        rate = functools.partial(
            learning_rate,
            d_model=self.model.d_model,
            warmup_steps=hparams.warmup_steps,
            factor=hparams.learning_rate_factor,
        )
        try:
            train(
                self._step_function(),
                stream,
                rate,
                self.evaluate,
                self.checkpoints,
                report,
                cadence,
                first_step=first,
                scores=past_scores(self.output_dir),
            )
        finally:
            stream.close()
            report.close()

    def _step_function(self) -> TrainStep:
        hparams = self.spec.hparams
        return TrainStep(
            self.model,
            self.optimizer,
            self.strategy,
            micro_batches=hparams.micro_batches,
            label_smoothing=hparams.label_smoothing,
            label_smoothing_over=hparams.label_smoothing_over,
            clip_norm=hparams.clip_norm,
            seed=hparams.seed,
            jit=use_jit(hparams.jit),
            packed=hparams.packing,
        )

    def finish(self, progress: Callable[[int], None] | None = None) -> tuple[str, str, Scores]:
        """Averages the last checkpoints and scores the test set (or dev, where there is no test set).

        Where the recipe averages none, the best one by dev score is taken.

        Returns:
            (path of the checkpoint used, split, scores); the translations are in OUTPUT_DIR/SPLIT.hyp.txt.
        """
        paths = list_checkpoints(self.output_dir)[-number_to_average(self.spec.hparams) :]
        if len(paths) > 1:
            self.checkpoints.average(paths)
            path = self.checkpoints.save_weights(AVERAGED, int(paths[-1].rpartition("-")[2]))
        else:
            path = find(self.output_dir, "best")
        self.checkpoints.load_weights(path)
        split = "test" if "test" in self.store.splits() else "dev"
        scores = self.evaluate(split, progress)
        text = "".join(line + "\n" for line in scores.hypotheses)
        (self.output_dir / f"{split}.hyp.txt").write_text(text, encoding="utf-8", newline="\n")
        return path, split, scores


def build_model(spec: RunSpec, store: Store) -> Any:
    """The run's model with fresh weights, sized by the data's vocabularies."""
    source, target = store.source_vocabulary, store.target_vocabulary
    return spec.make_model(source.size, target.size, source is target)


def recipe_plan(hparams: HParams, split: TokenSplit) -> BucketPlan | PackedPlan:
    """The batches of a recipe over `split`."""
    return make_plan(
        split,
        batch_tokens=hparams.batch_tokens,
        micro_batches=hparams.micro_batches,
        max_length=hparams.max_length,
        packing=hparams.packing,
        seed=hparams.seed,
    )


def recipe_flops(hparams: HParams, sizes: Sizes, split: TokenSplit, plan: BucketPlan | PackedPlan) -> int:
    """Model FLOPs of the whole training."""
    return planned_flops(sizes, split, plan, hparams.train_steps)


def micro_batch_shapes(hparams: HParams, plan: BucketPlan | PackedPlan | None) -> list[tuple[int, int, int]]:
    """(rows, source length, target length) of the micro-batches of `plan`; without one, of the longest rows."""
    if isinstance(plan, BucketPlan):
        return [(b.rows // hparams.micro_batches, b.source_length, b.target_length) for b in plan.buckets]
    rows = max(hparams.batch_tokens // hparams.max_length // hparams.micro_batches, 1)
    return [(rows, hparams.max_length, hparams.max_length)]


def check_devices(hparams: HParams, devices: int) -> None:
    """Raises UsageError unless the recipe's micro-batches can be shared out equally."""
    turns(hparams.micro_batches, devices)


def batch_limits(hparams: HParams) -> tuple[int, int, int]:
    """(batch_tokens, micro_batches, max_length) of a recipe."""
    return hparams.batch_tokens, hparams.micro_batches, hparams.max_length


def number_to_average(hparams: HParams) -> int:
    """How many of the last checkpoints the recipe averages, at least 1."""
    return max(hparams.average_checkpoints, 1)


def past_scores(output_dir: str | os.PathLike[str]) -> list[float]:
    """The dev scores in metrics.jsonl, in order."""
    path = Path(output_dir) / METRICS_FILE
    lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
    kinds = ("dev_bleu", "dev_chrf", "dev_f1")
    return [v for line in lines for name, v in json.loads(line).items() if name.startswith(kinds)]
