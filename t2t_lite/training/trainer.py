"""Trainer of a whole run: data, model, training, averaging and the score of the test set."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras

from t2t_lite.config import to_dict
from t2t_lite.data.pipeline import batches, make_plan
from t2t_lite.data.plan import Plan
from t2t_lite.data.sampled_split import training_split
from t2t_lite.data.store import Store, TokenSplit
from t2t_lite.decoding.graph_store import model_facts, open_store
from t2t_lite.decoding.translate import Translator
from t2t_lite.distributed.devices import Devices, make_strategy, on_gpus, share_processors
from t2t_lite.distributed.workers import Workers
from t2t_lite.errors import TrainingError, UsageError
from t2t_lite.files import replace_file
from t2t_lite.metrics.metric import comparable_signature
from t2t_lite.optimizers.choices import make_optimizer, model_schedule
from t2t_lite.remote.mirror import follow, name_urls, push
from t2t_lite.runs.callbacks import Callbacks
from t2t_lite.runs.checkpoint import Checkpoints, list_checkpoints
from t2t_lite.runs.metrics_log import SKIPPED, Report, flops_before, read_metrics
from t2t_lite.runs.ranking import past_scores
from t2t_lite.runs.record import METRIC, make_record, read_record
from t2t_lite.runs.resume import check_checkpoint
from t2t_lite.runs.run_dir import RunSpec, has_checkpoint
from t2t_lite.runs.scores_file import describe_weights, read_scores, summary, write_scores
from t2t_lite.runs.started_from import keep_import
from t2t_lite.runs.utilisation import device_flops_per_second, planned_flops
from t2t_lite.signals import BEFORE_FIRST_STEP, Stopped, StopSignals
from t2t_lite.text.line_breaks import breaks_as_spaces
from t2t_lite.training.build import build_model, training_cost, uses_xla
from t2t_lite.training.comparable_scores import forget_scores
from t2t_lite.training.compilations import Compilations, compile_threads
from t2t_lite.training.describe import device_text, start_lines, start_warnings
from t2t_lite.training.evaluate import Evaluator, Scores
from t2t_lite.training.final_weights import choose_weights
from t2t_lite.training.loop import Batch, Loop, Updates
from t2t_lite.training.non_finite import NonFiniteGuard, diagnose
from t2t_lite.training.split import Split, batch_shapes, choose_accumulate, read_accumulate
from t2t_lite.training.step import OutOfMemoryError, TrainStep
from t2t_lite.training.warm_start import find_run, warm_start
from t2t_lite.verbosity import say

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
        self.output_dir, self.spec, self.store, self._devices = Path(output_dir), spec, store, devices
        hparams = spec.hparams
        share_processors(batch_shapes(hparams.batch, None)[0][0] // (devices.number or 1), hparams.jit)
        self.strategy = make_strategy(devices, self.output_dir)
        self.workers = Workers(self.strategy)
        problem = spec.make_problem()
        metric = problem.make_metric()
        self._signature = comparable_signature(metric)
        source, target = store.source_vocabulary, store.target_vocabulary
        sizes = source.size, target.size, source is target
        keras.utils.set_random_seed(hparams.seed % 2**32)  # of the initial weights
        restored = has_checkpoint(output_dir)
        with self.strategy.scope():
            self.model = build_model(spec.model, hparams, *sizes, training=True, restored=restored)
            problem.check_aligned(self.model.guided_alignment)  # of a model of one's own, the recipe may not say it
            self._cost = training_cost(self.model, hparams)
            self.optimizer = make_optimizer(hparams, [w.value for w in self.model.trainable_weights])
            self.schedule = model_schedule(hparams, self.model)
            self.checkpoints = Checkpoints(
                output_dir,
                self.model,
                self.optimizer,
                keep=hparams.run.num_kept,
                every=max(hparams.save_every, 1),
                record=make_record(spec) | {METRIC: self._signature},
                writes=self.workers.is_chief,
                schedule=self.schedule,
            )
        how: dict[str, Any] = {"outputs": store.outputs, "jit": on_gpus()}
        self._translator = Translator(self.model, source, target, hparams.decode, **how)
        self.evaluate = Evaluator(self.model, store, self._translator, metric)

    def begin(
        self, *, warm_start_from: str | None = None, with_optimizer: bool = False, reset_optimizer: bool = False
    ) -> None:
        """Restores the newest checkpoint, or the weights of another run if there is none.

        Args:
            warm_start_from: a run, or one checkpoint of it; its weights are taken.
            with_optimizer: also take the optimizer's slots and the step from `warm_start_from`.
            reset_optimizer: set the optimizer's slots to zero, as before its first update, also in the newest
                checkpoint. Weights, step, learning-rate schedule and the order of the data continue.

        Raises:
            UsageError: nothing to reset, the other run has another vocabulary or model, or the workers do not agree on
                the run.
            DataError: a checkpoint that cannot be read.
        """
        if not self.workers.is_chief:
            self.workers.barrier()  # until the chief has set a damaged checkpoint aside
            follow(self.output_dir)
        self._step = step = self.checkpoints.resume()
        self._others = 0  # of these steps, how many another training made
        if self.workers.is_chief:
            if self.workers.count > 1:
                push(self.output_dir)  # for the others, which follow
            self.workers.barrier()
        if step:
            newest = list_checkpoints(self.output_dir)[-1]
            record = read_record(newest)
            check_checkpoint(record, self.spec, newest, training=True, reset_optimizer=reset_optimizer)
        manifest = json.dumps(self.store.manifest, sort_keys=True)
        recipe = json.dumps({"model": self.spec.model, **to_dict(self.spec.hparams)}, sort_keys=True)
        self.workers.check_same({"the recipe": recipe, "the prepared data": manifest, "the newest checkpoint": step})
        if step:
            start, writes = step if reset_optimizer else self.optimizer.start, self.workers.is_chief
            now = (self.spec, self._signature, self.schedule)
            forget_scores(self.output_dir, newest, *now, self._say, start=start, writes=writes)
        if warm_start_from and step:
            self._say(f"{self.output_dir} has weights of its own, which count; --warm_start_from is for a new run.")
        elif warm_start_from:
            self._step = self._others = warm_start(
                self.checkpoints, self.store, self.spec, warm_start_from, self._say, with_optimizer
            )
            self.schedule.forget_losses()
        if not step and self.workers.is_chief:
            keep_import(self.output_dir, find_run(warm_start_from) if warm_start_from else None)
        if reset_optimizer:
            if not step:
                raise UsageError(f"{self.output_dir} has no checkpoint whose optimizer --reset_optimizer could reset.")
            self.optimizer.reset(step)
            self.checkpoints.save(step)
            self._say(f"{type(self.optimizer).__name__}'s moments are zero from step {step:,} on.")

    def run(
        self,
        stop: StopSignals | None = None,
        *,
        skip_bad_batches: int = 0,
        note: Callable[[Mapping[str, object]], None] = lambda facts: None,
        callbacks: Sequence[Any] = (),
    ) -> TrainingError | None:
        """Trains to the end of the recipe, from the step that `begin` set.

        Args:
            stop: reports signals; the current step is saved before `Stopped` is raised.
            skip_bad_batches: how many batches whose loss or gradient is not finite the whole run may leave out.
            note: is given facts that change what the last bits depend on.
            callbacks: as `runs.callbacks.Callbacks`; the chief's are called.

        Returns:
            As `Callbacks.end`.
        """
        hparams, first, stop = self.spec.hparams, self._step + 1, stop or StopSignals()
        steps = hparams.train_steps
        # A killed run may have scores of steps that it will make again.
        scores = {step: score for step, score in past_scores(self.output_dir).items() if step < first}
        if first > steps and self.workers.broadcast(self._step in scores):
            self._say(f"{self.output_dir} is at step {first - 1:,} of {steps:,}: there is nothing to train.")
            return None
        if first > 1:
            self._say(f"Resuming from step {first - 1:,} of {steps:,}.")
        with contextlib.ExitStack() as at_the_end:
            folder = self._report_folder(at_the_end)
            split, plan = self._split, self._plan
            how: dict[str, Any] = {"packing": hparams.packing, "aligned": self.model.guided_alignment > 0}
            made = batches(split, plan, first_step=first, **how)
            stream = at_the_end.enter_context(contextlib.closing(made))
            told = self._make_callbacks(callbacks, first, stop)
            planned = functools.partial(planned_flops, self._cost, split, plan)
            report = Report(
                folder,
                first,
                steps,
                cost=self._cost,
                flops=flops_before(self.output_dir, first, planned, self._others),
                hparams={"hparams_set": self.spec.hparams_set, "model": self.spec.model, **to_dict(hparams)},
                device_flops_per_second=device_flops_per_second(self.strategy, self.model.compute_dtype),
                quiet=not self.workers.is_chief,
                callbacks=told,
            )
            at_the_end.callback(report.close)
            self._announce(report, plan, steps)
            if first > 1:
                report.console.say(str(report.goodput))
            compilations = Compilations(report, plan.statistics().shapes if uses_xla(hparams, self.model) else 0)
            stop.notice = BEFORE_FIRST_STEP  # the loop changes it
            with stop.deferred():
                step_function = self._make_step(report, compilations)
                if step_function.split.accumulate != self.accumulate:
                    note({"accumulate": step_function.split.accumulate})
                threads = compile_threads(step_function.split.devices)
                # The shapes of the updates to come in this epoch.
                epoch_ends = -(-first // plan.steps_per_epoch) * plan.steps_per_epoch
                coming = (plan.batch(step) for step in range(first, min(steps, epoch_ends) + 1))
                shapes = ((len(batch.rows), batch.source_length, batch.target_length) for batch in coming)
                compilations.compile_ahead(shapes, step_function.warm_up, threads, stop.check)
                reports = (self._guard(step_function, report, skip_bad_batches), report, compilations)
                updates = Updates(step_function, stream, self.schedule, *reports, hparams.log_every, ahead=on_gpus())
                parts = (updates, self.evaluate, self.checkpoints, report, hparams.run, self.workers)
                told.begin()
                try:
                    Loop(*parts, self.schedule, scores, self.optimizer.start, stop).run(first)
                except Stopped:
                    told.end(stopped=True)
                    raise
                except TrainingError:
                    with contextlib.suppress(TrainingError):  # this error comes first
                        told.end(stopped=True)
                    raise
                failure = told.end()
            report.console.say(str(report.goodput))
        return failure

    def _report_folder(self, at_the_end: contextlib.ExitStack) -> Path:
        """Where reports are written: those of workers but the chief are removed at the end."""
        if self.workers.is_chief:
            return self.output_dir
        return Path(at_the_end.enter_context(tempfile.TemporaryDirectory()))

    @property
    def first_step(self) -> int:
        """The first update that `run` makes."""
        return self._step + 1

    @property
    def devices(self) -> str:
        """The name of the devices."""
        return device_text(self.strategy, self.workers.count)

    def _make_callbacks(self, callbacks: Sequence[Any], first_step: int, stop: StopSignals) -> Callbacks:
        hparams = self.spec.hparams
        steps, recipe = hparams.train_steps, {"model": self.spec.model, **to_dict(hparams)}
        params = {
            "epochs": sum(hparams.run.evaluates(step) for step in range(first_step, steps + 1)),
            "steps": steps - first_step + 1,
            "output_dir": str(self.output_dir),
            "problem": self.spec.problem,
            "hparams": recipe,
        }
        optimizer = {"name": self.optimizer.name, **dataclasses.asdict(hparams.optimization)}
        return Callbacks(callbacks if self.workers.is_chief else (), self.model, optimizer, params, stop)

    @functools.cached_property
    def accumulate(self) -> int:
        """The number of parts of each device's share of a batch: as asked for, as before, or as the memory allows."""
        number = self._devices.accumulate or read_accumulate(self.output_dir, self.strategy.num_replicas_in_sync)
        if number is None:
            shapes = batch_shapes(self.spec.hparams.batch, self._plan)
            number = choose_accumulate(self.model, self.spec.hparams, shapes, self.strategy.num_replicas_in_sync)
        return int(self.workers.broadcast(number))

    @functools.cached_property
    def _plan(self) -> Plan:
        return self._make_plan()

    def _make_plan(self) -> Plan:
        return make_plan(self._split, self.spec.hparams.batch, self.spec.hparams.seed)

    @functools.cached_property
    def _split(self) -> TokenSplit:
        return training_split(self.store, self.spec.hparams.batch, self.spec.hparams.seed)

    def _announce(self, report: Report, plan: Plan, steps: int) -> None:
        split = Split(self.strategy.num_replicas_in_sync, self.accumulate, self.model.balance_groups)
        devices = f"{self.devices}; {self.model.compute_dtype}; {split.in_words()}"
        lines = start_lines(self.output_dir, self.spec, self.model, self.store, plan, steps, devices)
        for line in filter(None, [*lines, self._split.remark]):
            report.console.say(name_urls(line))
        for warning in (split.warning(), *start_warnings(self.spec, self.store, plan, self.schedule, steps)):
            if warning:
                report.console.warn(warning)

    def _say(self, text: str) -> None:
        if self.workers.is_chief:
            say(name_urls(text))

    def _make_step(self, report: Report, compilations: Compilations) -> TrainStep:
        """Makes the step and tries it on the largest batch; in more parts, where memory runs out."""
        accumulate, hparams = self.accumulate, self.spec.hparams
        shapes = batch_shapes(hparams.batch, self._plan)
        largest = max(shapes, key=lambda shape: self._cost.activation_bytes(shape[0], shape[1], shape[2], 4))
        how: dict[str, Any] = {"seed": hparams.seed, "jit": uses_xla(hparams, self.model), "packed": hparams.packing}
        how["weighted"] = self._split.weights is not None
        while True:
            parts = (self.model, self.optimizer, self.strategy, hparams.optimization)
            step = TrainStep(*parts, accumulate=accumulate, **how)
            if self.strategy.num_replicas_in_sync == 1 and not how["jit"]:
                self._keep_graph(step, {**how, "accumulate": accumulate})
            try:
                with compilations.watch(*largest):
                    step.warm_up(*largest)
                return step
            except OutOfMemoryError:
                if self._devices.accumulate or self.workers.count > 1 or step.split.is_finest(largest[0]):
                    raise
                report.console.say(f"memory:   too little with --accumulate={accumulate}; trying {2 * accumulate}")
                accumulate *= 2

    def _keep_graph(self, step: TrainStep, how: Mapping[str, Any]) -> None:
        """Takes the graph of an update from the cache, or keeps it there, unless it reads other variables."""
        variables = {weight.path: weight.value for weight in self.model.weights}
        for weight, slots in zip(self.model.trainable_weights, self.optimizer.slots, strict=True):
            variables |= {f"{name}:{weight.path}": slot for name, slot in slots.items()}
        classes = type(self.model), type(self.optimizer)
        if store := open_store(model_facts(self.model) | {"update": how}, variables, *classes):
            step.keep(store)

    def _guard(self, step_function: TrainStep, report: Report, tolerated: int) -> NonFiniteGuard:
        def describe(step: int, batch: Batch) -> dict[str, Any]:
            # A plan of its own: the other one belongs to the thread that makes batches.
            rows = self._make_plan().batch(step).rows
            return diagnose(step_function, self.model, self.store, rows, step, batch)

        before = max((line.get(SKIPPED, 0) for line in read_metrics(self.output_dir)), default=0)
        skipped, writes = int(self.workers.broadcast(before)), self.workers.is_chief
        parts = (self.output_dir, report, describe, self.checkpoints.not_finite)
        how: dict[str, Any] = {"tolerated": tolerated, "skipped": skipped, "precision": self.model.compute_dtype}
        return NonFiniteGuard(*parts, **how, writes=writes)

    def finish(self) -> tuple[str, str, Scores]:
        """Averages the last checkpoints and scores the test set (or dev, where there is no test set).

        The mean is used unless the best checkpoint by dev score is better (`choose_weights`).

        Returns:
            (path of the checkpoint used, split, scores); the translations are in OUTPUT_DIR/SPLIT.hyp.txt, the
            scores in OUTPUT_DIR/SPLIT.scores.json, and those of dev in dev.scores.json.
        """
        number = self.spec.hparams.run.num_averaged
        path, scores = choose_weights(
            self.output_dir, self.checkpoints, number, lambda: self.evaluate("dev"), self._say
        )
        split = "test" if "test" in self.store.splits() else "dev"
        if split == "test" and scores is not None:
            self._keep_scores("dev", path, scores)
        if split == "test" or scores is None:
            scores = self.evaluate(split)
        text = "".join(breaks_as_spaces(line) + "\n" for line in scores.hypotheses)
        replace_file(self.output_dir / f"{split}.hyp.txt", text)
        self._keep_scores(split, path, scores)
        return path, split, scores

    def _keep_scores(self, split: str, path: str, scores: Scores) -> None:
        old, settings = read_scores(self.output_dir, split), self._translator.settings
        found, data = [scores.score.as_dict()], (self.store.checksum, self.store.in_train(split))
        file = write_scores(self.output_dir, split, path, scores.hypotheses, scores.loss, found, settings, *data)
        if old is not None and old["weights"] != describe_weights(path):
            self._say(f"{file} held the scores of other weights until now: {summary(old)}.")
