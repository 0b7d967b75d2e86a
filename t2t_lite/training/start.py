"""The start of a training run: `plan_start` checks a request, `train` does what it asks for."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t2t_lite import config, registry
from t2t_lite.distributed.cluster import Cluster, read_cluster
from t2t_lite.distributed.rendezvous import find_chief
from t2t_lite.distributed.tensorflow_loading import load_tensorflow
from t2t_lite.errors import DataError, UsageError, check_tensorflow_path
from t2t_lite.progress import Progress
from t2t_lite.remote import mirror
from t2t_lite.remote.mirror import name_urls, open_folder
from t2t_lite.remote.store import Store as RemoteStore
from t2t_lite.remote.store import is_url
from t2t_lite.runs.recipe_request import Recipe
from t2t_lite.signals import Stopped, StopSignals
from t2t_lite.verbosity import said, say

if TYPE_CHECKING:
    from t2t_lite.data.store import Store
    from t2t_lite.distributed.devices import Devices
    from t2t_lite.problem import Problem
    from t2t_lite.runs.resume import Folder
    from t2t_lite.runs.run_dir import RunSpec
    from t2t_lite.runs.start_request import StartRequest
    from t2t_lite.training.evaluate import Scores
    from t2t_lite.training.trainer import Trainer

_SHOWN = 10  # translations in the text of a result
_ALL_AGAIN = "the same command on every worker"


@dataclasses.dataclass(frozen=True)
class Start:
    """A request that was checked, and the settings of the run that follow from it; `join_key` as of Devices."""

    request: StartRequest
    output_dir: str
    spec: RunSpec
    join_key: str = dataclasses.field(default="", repr=False)


@dataclasses.dataclass(frozen=True)
class Result:
    """Result of a training run.

    Attributes:
        weights: path of the checkpoint that was scored: of averaged, best, ema or newest weights.
        split: "test", or "dev" where there is no test set.
        scores: of that split.
        store: the run's prepared data.
    """

    output_dir: str
    weights: str
    split: str
    scores: Scores
    store: Store

    def text(self) -> str:
        """Returns some translations, the scores, the files that were written and the next command."""
        from t2t_lite.data.overlap import overlap_line

        sources, scores, folder = self.store.text(self.split)[0], self.scores, Path(self.output_dir)
        rows = itertools.islice(zip(sources, scores.hypotheses, scores.references, strict=True), _SHOWN)
        lines = [
            f"\n  {source}\n  -> {hypothesis}" + ("" if hypothesis == reference else f"\n     ({reference})")
            for source, hypothesis, reference in rows
        ]
        lines.append(f"\n{self.split} set, weights {self.weights}:\n{scores.score.format()}")
        seen = overlap_line(self.split, self.store.in_train(self.split), len(self.store.split(self.split)))
        lines.append(f"{seen}\n" if seen else "")
        files = {
            "translations": folder / f"{self.split}.hyp.txt",
            "scores": folder / f"{self.split}.scores.json",
            "weights": self.weights,
            "curves": folder / "metrics.jsonl",
        }
        lines += [f"{name + ':':14}{path}" for name, path in files.items()]
        run = shlex.quote(name_urls(self.output_dir))
        if said.quiet:
            return name_urls("\n".join(lines))
        return name_urls("\n".join(lines)) + (
            f"\n\nNext: t2t-lite-decoder --output_dir={run}   (reads lines, writes translations)"
        )


def plan_start(request: StartRequest) -> Start:
    """Checks a request before anything is written or long work begins; imports the user's own code.

    Raises:
        UsageError: wrong names, values or devices; or settings with which the run in the folder cannot resume.
        DataError: that run is damaged, or has ended and has no checkpoint to resume from.
        TrainingError, Stopped: as `find_chief`, in a worker whose run is in a store.
    """
    from t2t_lite.metrics.reference_warnings import tokenizer_note
    from t2t_lite.metrics.score import check_metric
    from t2t_lite.runs.named_weights import check_no_weights
    from t2t_lite.runs.resume import check_state, read_folder
    from t2t_lite.runs.run_dir import check_run_folder

    if request.output_dir is None:
        raise UsageError("Give --output_dir=DIR, where the run is written.")
    asked, key, cluster = request, "", read_cluster(os.environ)
    if is_url(request.output_dir) and cluster and not cluster.is_chief:
        key = _follow_chief(request, cluster)
    request = open_run_folder(request)
    output_dir = str(request.output_dir)
    check_no_weights(output_dir)
    check_run_folder(output_dir)
    folder = read_folder(output_dir, request.data.usr_dir)
    spec = make_spec(request, folder)
    problem = spec.make_problem()
    check_metric(problem.make_metric(), f"The problem {problem.name!r}")
    check_data(spec, problem)
    note = tokenizer_note(problem.metric, problem.target_language, problem.bleu_tokenize)
    if note and not problem.has_own_metric:
        say(note)
    check_state(folder, request, spec)
    check_beginning(request, spec.model, spec.hparams)
    for name in request.callbacks:
        registry.CALLBACKS.check(name)
    return Start(asked, output_dir, spec, key)


def _follow_chief(request: StartRequest, cluster: Cluster) -> str:
    """Opens a worker's copy of a run in a store, when the chief has uploaded what the start needs; returns its key.

    Raises:
        Stopped: a signal came.
        T2TError: flags that no run takes, which need no chief to be found; and as `find_chief`.
    """
    if request.data.problem is not None:
        request.recipe.make(request.data.make_problem().default_hparams)
    load_tensorflow()  # while the chief does so
    from t2t_lite.distributed.devices import check_devices

    check_devices(devices_of(request))
    url = str(request.output_dir)
    try:
        with StopSignals():
            key = find_chief(cluster, RemoteStore(url), request.join_timeout)
            open_folder(url, follows=True)
    except Stopped as stopped:
        stopped.resume_with = _ALL_AGAIN
        raise
    return key


def check_data(spec: RunSpec, problem: Problem) -> None:
    """Raises UsageError if a setting needs what the problem's data will not have; before they are prepared."""
    from t2t_lite.data.language_runs import check_languages
    from t2t_lite.text.subword_sampling import check_kind

    problem.check_aligned(getattr(spec.hparams, "guided_alignment", 0.0))
    check_languages(problem.several_languages, spec.hparams.sampling_temperature)
    if spec.hparams.bpe_dropout and spec.vocabulary is None:
        check_kind(problem.vocab_type, "source", spec.hparams.bpe_dropout)
        check_kind(problem.codec.target_vocab_type(problem.vocab_type), "target", spec.hparams.bpe_dropout)


def open_run_folder(request: StartRequest) -> StartRequest:
    """Returns the request with the folder on this machine of a run in a store."""
    if request.output_dir is None:
        return request
    return dataclasses.replace(request, output_dir=open_folder(request.output_dir, keep=True))


def make_spec(request: StartRequest, folder: Folder | None) -> RunSpec:
    """Returns the settings of the run: as asked for and, without a problem, else those of the run in `folder`.

    Raises:
        UsageError, DataError: as `plan_start`.
    """
    from t2t_lite.optimizers.choices import check_choices
    from t2t_lite.runs.resume import check_settings
    from t2t_lite.runs.run_data import given_vocabulary_of
    from t2t_lite.runs.run_dir import RunSpec, explain_no_run, make_absolute, relative_data_dir

    if request.with_optimizer and request.warm_start_from is None:
        raise UsageError("--with_optimizer goes with --warm_start_from=RUN, whose step and slots are taken, too.")
    data, output_dir = request.data, request.output_dir
    old, trained = (folder.spec, folder.trained) if folder else (None, False)
    if data.problem is not None:
        problem = data.make_problem()
        recipe = request.recipe.make(problem.default_hparams)
        new = RunSpec(
            problem=data.problem,
            options=problem.all_options(),
            data_dir=relative_data_dir(data.data_dir, output_dir or "."),
            usr_dir=make_absolute(data.usr_dir),
            **recipe._asdict(),
        )
    elif old is not None:
        recipe = _recipe_of(request, old)
        data_dir = relative_data_dir(data.data_dir, output_dir or ".") if data.data_dir else old.data_dir
        new = dataclasses.replace(old, data_dir=data_dir, **recipe._asdict())
    elif trained:
        raise DataError(explain_no_run(str(output_dir)))
    else:
        raise UsageError(
            "Give --problem=NAME; t2t-lite-trainer --registry_help lists them."
            + (f" ({output_dir} holds no run to resume.)" if output_dir else "")
        )
    kept = old.hparams if old is not None and trained else None
    new = dataclasses.replace(new, hparams=settle_precision(new.hparams, kept))
    check_choices(new.hparams, load_tensorflow)
    if data.vocabulary is not None:
        own = old.vocabulary if old is not None and trained else None
        new = dataclasses.replace(new, vocabulary=given_vocabulary_of(data.vocabulary, own))
    if old is None or not trained:
        return new
    if data.vocabulary is not None and old.vocabulary is None:
        old = dataclasses.replace(old, vocabulary=given_vocabulary_of(str(output_dir)))  # it may be the run's own
    vocabulary = new.vocabulary or old.vocabulary
    new = dataclasses.replace(new, vocabulary=vocabulary, data_sha256=old.data_sha256, files=old.files)
    check_settings(old, new, str(output_dir), reset_optimizer=request.reset_optimizer)
    return new


def settle_precision(hparams: config.HParams, kept: config.HParams | None = None) -> config.HParams:
    """Returns a recipe in which precision=auto has become that of the run that resumes, else what is fast here.

    Args:
        kept: the recipe of the run that resumes.
    """
    if hparams.precision != "auto":
        return hparams
    if kept is not None:
        return config.replace(hparams, precision=kept.precision)
    load_tensorflow()
    from t2t_lite.distributed.devices import auto_precision

    return config.replace(hparams, precision=auto_precision())


def _recipe_of(request: StartRequest, old: RunSpec) -> Recipe:
    """Returns the recipe of a run that resumes: its own, or another set, with the requested changes."""
    if request.data.options:
        name = next(iter(request.data.options))
        raise UsageError(
            f"{name}={request.data.options[name]} goes with --problem=NAME. Without that, the run in "
            f"{request.output_dir} resumes with its own problem and options."
        )
    if request.recipe.hparams_set:
        return request.recipe.make("")
    return request.recipe.change(Recipe(old.hparams_set, old.model, old.hparams))


def check_beginning(request: StartRequest, model: str, hparams: config.HParams) -> None:
    """Raises T2TError if the devices are not there, or a run without a checkpoint cannot start from what is given."""
    from t2t_lite.runs.run_dir import has_checkpoint

    new = request.output_dir is None or not has_checkpoint(request.output_dir)
    if new and request.reset_optimizer:
        raise UsageError(
            f"{request.output_dir or 'A new run'} has no checkpoint whose optimizer --reset_optimizer could reset. "
            "Leave the flag out."
        )
    if new and request.warm_start_from is not None:
        check_tensorflow_path(f"--warm_start_from={request.warm_start_from}", request.warm_start_from)
        load_tensorflow()
        from t2t_lite.training.warm_start import check_source

        check_source(request.warm_start_from, model, hparams, request.with_optimizer)
    if request.devices or read_cluster(os.environ) or request.strategy != "auto":
        load_tensorflow()
        from t2t_lite.distributed.devices import check_devices

        check_devices(devices_of(request))


def devices_of(request: StartRequest) -> Devices:
    """Returns what the request trains on; imports TensorFlow."""
    from t2t_lite.distributed.devices import Devices

    return Devices(request.devices, request.strategy, request.accumulate, request.join_timeout)


def train(start: Start, callbacks: Sequence[Any] = ()) -> Result | None:
    """Prepares the data if need be, trains to the end of the recipe, averages, and scores the test set.

    Args:
        callbacks: objects, besides those that the request names.

    Returns:
        The result; None in a worker that is not the chief.

    Raises:
        Stopped: a signal has ended it, after a checkpoint was saved; `resume_with` is the command that resumes.
        T2TError: it cannot be done.
    """
    from t2t_lite.runs.lock import only_trainer

    told = _make_callbacks([*start.request.callbacks, *callbacks])
    cluster, written = read_cluster(os.environ), False
    writes = cluster is None or cluster.is_chief
    job = cluster.job if cluster else ""
    try:
        alone = only_trainer(start.output_dir) if writes else contextlib.nullcontext()
        with StopSignals() as stop, stop.not_lost(), mirror.training(start.output_dir, job), alone:
            trainer = _make_trainer(start)
            written = True  # the settings, which are those of an earlier start until then
            with _record(trainer, start) as note, stop.not_lost():  # here, too, so that the record has the signal
                failure = trainer.run(stop, skip_bad_batches=start.request.skip_bad_batches, note=note, callbacks=told)
                found = trainer.finish() if trainer.workers.is_chief else None
            if trainer.workers.count > 1:  # the others may open the run as soon as they continue
                mirror.push(start.output_dir)
            trainer.workers.barrier()
            if failure is not None:
                raise failure
        return None if found is None else Result(start.output_dir, *found, trainer.store)
    except Stopped as stopped:
        from t2t_lite.runs.run_dir import has_checkpoint

        if cluster is not None:
            stopped.resume_with = _ALL_AGAIN
        elif written and has_checkpoint(start.output_dir):
            stopped.resume_with = start.request.resume_command()
        raise


def _make_callbacks(callbacks: Sequence[Any]) -> Sequence[Any]:
    if not callbacks:
        return ()
    load_tensorflow()
    from t2t_lite.runs.callbacks import make_callbacks

    return make_callbacks(callbacks)


def _make_trainer(start: Start) -> Trainer:
    from t2t_lite.runs.run_data import prepare_run_data, write_vocabularies
    from t2t_lite.runs.run_dir import write_run

    request, output_dir = start.request, start.output_dir
    with Progress(None, " pairs", "preparing the data") as bar:
        spec, store = prepare_run_data(
            start.spec,
            output_dir,
            again=request.data.prepare_again,
            num_workers=request.data.num_workers,
            progress=bar.reach,
        )
    load_tensorflow()
    from t2t_lite.training.reproducibility import keep_last_bits
    from t2t_lite.training.trainer import Trainer

    keep_last_bits(output_dir)
    devices = dataclasses.replace(devices_of(request), join_key=start.join_key)
    trainer = Trainer(output_dir, spec, store, devices)
    trainer.begin(
        warm_start_from=request.warm_start_from,
        with_optimizer=request.with_optimizer,
        reset_optimizer=request.reset_optimizer,
    )
    if trainer.workers.is_chief:  # only now: a start that fails changes no settings
        write_vocabularies(output_dir, store)
        write_run(output_dir, spec)
        trainer.checkpoints.publish()
    return trainer


def _record(
    trainer: Trainer, start: Start
) -> contextlib.AbstractContextManager[Callable[[Mapping[str, object]], None]]:
    from t2t_lite.runs.run_log import record_start
    from t2t_lite.training.build import uses_xla
    from t2t_lite.training.reproducibility import describe_computation, remarks

    hparams, first = trainer.spec.hparams, trainer.first_step
    trains = first <= hparams.train_steps
    accumulate = trainer.accumulate if trains else None
    how = {"accumulate": accumulate, "xla": uses_xla(hparams, trainer.model), "remat": trainer.model.remat}
    computed = describe_computation(trainer.strategy, trainer.workers, **how)
    if trainer.workers.is_chief and first > 1 and trains:
        for line in remarks(trainer.output_dir, first, computed):
            say(line)
    return record_start(
        trainer.output_dir,
        request=start.request.as_dict(),
        devices=trainer.devices,
        first_step=first,
        computed=computed,
        writes=trainer.workers.is_chief,
    )
