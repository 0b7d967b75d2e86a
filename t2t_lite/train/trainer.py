"""A whole run: data, model, training, averaging, the test set. The only reader of the recipe's training fields."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras

from t2t_lite.config import HParams, to_dict
from t2t_lite.data.durable import replace_file
from t2t_lite.data.packing import PackedPlan
from t2t_lite.data.pipeline import batches, make_plan
from t2t_lite.data.plan import BucketPlan
from t2t_lite.data.store import Store, TokenSplit
from t2t_lite.decode.translate import Translator
from t2t_lite.errors import UsageError
from t2t_lite.models.flops import Sizes
from t2t_lite.train.bad_step import BadBatches, examine
from t2t_lite.train.checkpoint import AVERAGED, Checkpoints, find, list_checkpoints
from t2t_lite.train.devices import Devices, check_devices, make_strategy, on_gpus, share_processors, use_jit
from t2t_lite.train.evaluate import Evaluator, Scores
from t2t_lite.train.loop import Cadence, Evaluations, Loop
from t2t_lite.train.optimizer import Adam
from t2t_lite.train.report import SKIPPED, Report, read_metrics
from t2t_lite.train.run_dir import RunSpec
from t2t_lite.train.schedule import learning_rate
from t2t_lite.train.signals import StopSignals
from t2t_lite.train.step import TrainStep
from t2t_lite.train.updates import Batch, Updates
from t2t_lite.train.utilisation import device_flops_per_second, planned_flops
from t2t_lite.train.warm_start import warm_start
from t2t_lite.train.workers import Workers

_WHAT_IS_THERE = Devices()


class Trainer:
    """Everything that one run needs, built from its recipe.

    Args:
        output_dir: the run's folder.
        spec: what the run was started with.
        store: its prepared data.
        devices: what to train on.
    """

    def __init__(
        self, output_dir: str | os.PathLike[str], spec: RunSpec, store: Store, devices: Devices = _WHAT_IS_THERE
    ) -> None:
        self.output_dir, self.spec, self.store, self._fill = Path(output_dir), spec, store, devices.fill
        hparams = spec.hparams
        share_processors(micro_batch_shapes(hparams, None)[0][0], hparams.jit)
        self.strategy = make_strategy(devices)
        self.workers = Workers(self.strategy)
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
                every=max(hparams.save_every, 1),
                writes=self.workers.is_chief,
            )
        problem, vocabularies = spec.make_problem(), (store.source_vocabulary, store.target_vocabulary)
        translator = Translator.from_hparams(self.model, *vocabularies, hparams, trees=problem.target_kind == "tree")
        self.evaluate = Evaluator(self.model, store, translator, problem.metric)

    def begin(self, *, warm_start_from: str | None = None, reset_optimizer: bool = False) -> None:
        """Restores the newest checkpoint, or where there is none the weights of another run.

        Args:
            warm_start_from: a run, or one checkpoint of it; only its weights are taken.
            reset_optimizer: Adam's moments become zero and its bias corrections begin anew, in the newest checkpoint as
                well. Weights, step, learning-rate schedule and the order of the data go on.

        Raises:
            UsageError: nothing to reset, the other run has another vocabulary, or the workers do not agree on the run.
            DataError: a checkpoint that cannot be read.
        """
        if not self.workers.is_chief:
            self.workers.wait()  # a damaged checkpoint is set aside by the chief
        self._step = step = self.checkpoints.resume()
        if self.workers.is_chief:
            self.workers.wait()
        manifest = json.dumps(self.store.manifest, sort_keys=True)
        recipe = json.dumps({"model": self.spec.model, **to_dict(self.spec.hparams)}, sort_keys=True)
        self.workers.check_same({"the recipe": recipe, "the prepared data": manifest, "the newest checkpoint": step})
        if warm_start_from and step:
            self._say(f"{self.output_dir} has weights of its own, which count; --warm_start_from is for a new run.")
        elif warm_start_from:
            warm_start(self.checkpoints, self.store, warm_start_from, self._say)
        if reset_optimizer:
            if not step:
                raise UsageError(f"{self.output_dir} has no checkpoint whose optimizer --reset_optimizer could reset.")
            self.optimizer.reset(step)
            self.checkpoints.save(step)
            self._say(f"Adam's moments are zero from step {step:,} on.")

    def run(self, stop: StopSignals | None = None, *, skip_bad_batches: int = 0) -> None:
        """Trains to the end of the recipe, from where `begin` has put it.

        Args:
            stop: tells of signals; the step that is being made is saved before `Stopped` is raised.
            skip_bad_batches: how many batches, over the whole run, are left out where loss or gradient is not finite.
        """
        hparams, first, stop = self.spec.hparams, self._step + 1, stop or StopSignals()
        # A killed run may have scores of steps that it will make again.
        scores = {step: score for step, score in past_scores(self.output_dir).items() if step < first}
        if first > hparams.train_steps and self.workers.chiefs(self._step in scores):
            self._say(
                f"{self.output_dir} is at step {first - 1:,} of {hparams.train_steps:,}: there is nothing to train."
            )
            return
        if first > 1:
            self._say(f"Going on from step {first - 1:,} of {hparams.train_steps:,}.")
        with contextlib.ExitStack() as at_the_end:
            folder = self.output_dir
            if not self.workers.is_chief:
                folder = Path(at_the_end.enter_context(tempfile.TemporaryDirectory()))
            split = self.store.split("train")
            plan = recipe_plan(hparams, split)
            stream = batches(
                split, plan, micro_batches=hparams.micro_batches, packing=hparams.packing, first_step=first
            )
            at_the_end.callback(stream.close)
            report = self._report(folder, planned_flops(self.model.sizes, split, plan, first - 1))
            at_the_end.callback(report.close)
            step_function, cadence = self._step_function(), self._cadence()
            with stop.deferred():
                step_function.rehearse(*self._largest(plan))
                Loop(
                    self._updates(step_function, stream, report, skip_bad_batches),
                    Evaluations(self.evaluate, self.checkpoints, report, cadence, self.workers, scores),
                    self.checkpoints,
                    report,
                    cadence,
                    stop,
                    self.workers,
                ).run(first)

    def _say(self, text: str) -> None:
        if self.workers.is_chief:
            print(text, flush=True)

    def _report(self, folder: Path, flops: int) -> Report:
        return Report(
            folder,
            self._step + 1,
            self.spec.hparams.train_steps,
            sizes=self.model.sizes,
            flops=flops,
            device_flops_per_second=device_flops_per_second(self.strategy, self.model.compute_dtype),
            quiet=not self.workers.is_chief,
        )

    def _updates(self, step_function: TrainStep, stream: Iterator[Batch], report: Report, tolerated: int) -> Updates:
        hparams = self.spec.hparams
        rate = functools.partial(
            learning_rate,
            d_model=self.model.d_model,
            warmup_steps=hparams.warmup_steps,
            factor=hparams.learning_rate_factor,
        )
        bad_batches = self._bad_batches(step_function, report, tolerated)
        return Updates(step_function, stream, rate, bad_batches, report, hparams.log_every, ahead=on_gpus())

    def _cadence(self) -> Cadence:
        hparams = self.spec.hparams
        return Cadence(
            train_steps=hparams.train_steps,
            eval_every=hparams.eval_every,
            eval_lines=hparams.eval_lines,
            save_every=hparams.save_every,
            save_minutes=hparams.save_minutes,
            early_stopping=hparams.early_stopping,
        )

    def _largest(self, plan: BucketPlan | PackedPlan) -> tuple[int, int, int]:
        """The shape of micro-batches that takes the most memory."""
        shapes = micro_batch_shapes(self.spec.hparams, plan)
        return max(shapes, key=lambda shape: self.model.sizes.activation_bytes(*shape, 4))

    def _bad_batches(self, step_function: TrainStep, report: Report, tolerated: int) -> BadBatches:
        def look(step: int, batch: Batch) -> dict[str, Any]:
            # A plan of its own: the other one belongs to the thread that makes batches.
            rows = recipe_plan(self.spec.hparams, self.store.split("train")).batch(step).rows
            return examine(step_function, self.model, self.store, rows, step, batch)

        before = max((line.get(SKIPPED, 0) for line in read_metrics(self.output_dir)), default=0)
        skipped, writes = int(self.workers.chiefs(before)), self.workers.is_chief
        return BadBatches(self.output_dir, report, look, tolerated=tolerated, skipped=skipped, writes=writes)

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
            fill=self._fill,
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
        replace_file(self.output_dir / f"{split}.hyp.txt", text)
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


def check_recipe_devices(hparams: HParams, devices: Devices) -> None:
    """Raises UsageError if the recipe's micro-batches cannot be shared out among the devices."""
    check_devices(devices, hparams.micro_batches)


def batch_limits(hparams: HParams) -> tuple[int, int, int]:
    """(batch_tokens, micro_batches, max_length) of a recipe."""
    return hparams.batch_tokens, hparams.micro_batches, hparams.max_length


def number_to_average(hparams: HParams) -> int:
    """How many of the last checkpoints the recipe averages, at least 1."""
    return max(hparams.average_checkpoints, 1)


def past_scores(output_dir: str | os.PathLike[str]) -> dict[int, float]:
    """The dev scores in metrics.jsonl, by step."""
    return {
        line["step"]: value
        for line in read_metrics(output_dir)
        for name, value in line.items()
        if name.startswith(("dev_bleu", "dev_chrf", "dev_f1"))
    }
