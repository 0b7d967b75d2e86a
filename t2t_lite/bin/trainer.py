"""t2t-lite-trainer: from text to a scored model; prepares, trains, averages, translates and scores."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from t2t_lite.bin import cli, device_flags, going_on, output, problem_flags, recipe_flags, show, start_flags, streams
from t2t_lite.bin.preparation_bar import preparation_bar
from t2t_lite.distributed.cluster import Cluster, read_cluster
from t2t_lite.distributed.tensorflow_loading import load_tensorflow
from t2t_lite.errors import DataError, UsageError

if TYPE_CHECKING:
    from t2t_lite.runs.run_dir import RunSpec
    from t2t_lite.training.trainer import Trainer

_OUTPUT_LOST = "The output cannot be written any more; the training goes on, and its figures are in metrics.jsonl."
_SHOWN = 10  # translations printed at the end


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = make_parser()
    args = parser.parse(argv)
    start_flags.check_flags(parser, args)
    if not show.wanted(args) and args.output_dir is None:
        parser.error("give --output_dir=DIR, where the run is written")
    command = shlex.join(["t2t-lite-trainer", *(sys.argv[1:] if argv is None else argv)])
    return cli.run(lambda: _run(args, command))


def train(argv: list[str]) -> int:
    """Trains as the command does with these flags; raises the errors that the command prints.

    Returns:
        0: done; else the status with which a signal ends the command.
    """
    parser = make_parser()
    parser.raises = True
    args = parser.parse(argv)
    start_flags.check_flags(parser, args)
    return _run(args, shlex.join(["t2t-lite-trainer", *argv]))


def _run(args: argparse.Namespace, command: str) -> int:
    problem_flags.check_vocabulary(args)
    if show.wanted(args):
        return show.show(args, _spec)
    with streams.lasting_output(_OUTPUT_LOST):
        return _train(args, command)


def make_parser() -> cli.Parser:
    parser = cli.Parser(
        prog="t2t-lite-trainer",
        description="Prepares the data if need be, trains (going on from the newest checkpoint if there is one), "
        "averages the last checkpoints, translates and scores the test set.",
        epilog="Example: t2t-lite-trainer --problem=toy_ende --hparams_set=tiny --output_dir=runs/toy",
    )
    parser.add_argument("--output_dir", metavar="DIR", help="the run's folder; alone, goes on with the run in it")
    parser.add_argument("--model", metavar="NAME", help="default: that of the hparams set")
    recipe_flags.add_recipe_flags(parser)
    parser.add_argument("--train_steps", type=int, metavar="N", help="short for --hparams=train_steps=N")
    device_flags.add_device_flags(parser)
    start_flags.add_start_flags(parser)
    parser.add_argument(
        "--skip_bad_batches",
        type=cli.positive,
        default=0,
        metavar="N",
        help="leave out up to N batches whose loss or gradient is not finite; default: stop at the first",
    )
    parser.add_argument(
        "--num_workers", type=cli.positive, metavar="N", help="to prepare data; default: one per CPU, 16 at most"
    )
    cli.add_trust_flag(parser)
    show.add_show_flags(parser)
    problem_flags.add_problem_flags(parser, required=False)
    return parser


def _train(args: argparse.Namespace, command: str) -> int:
    cli.check_no_weights(args.output_dir)
    output.check_run_folder(args.output_dir)
    spec = _spec(args)
    _check_metric(spec)
    start_flags.check_ended(args, spec)
    start_flags.check_start(args, spec.model, spec.hparams)
    device_flags.check_devices(args)
    from t2t_lite.runs.run_dir import has_checkpoint
    from t2t_lite.signals import Stopped, StopSignals

    cluster = read_cluster(os.environ)
    trainer = None
    try:
        with StopSignals() as stop, _only_writer(args, cluster):
            trainer = _make_trainer(args, spec)
            with _recorded(trainer, command) as note:
                trainer.run(stop, skip_bad_batches=args.skip_bad_batches, note=note)
                return _finish(args, trainer)
    except Stopped as stopped:
        written = trainer is not None  # the settings, which are those of an earlier start until then
        alone = written and has_checkpoint(args.output_dir) and cluster is None
        again = going_on.command(make_parser(), args) if alone else "the same command"
        print(f"{stopped} Go on with {again}{' on every worker' if cluster else ''}", file=sys.stderr)
        return stopped.exit_status


def _check_metric(spec: RunSpec) -> None:
    """Raises UsageError, before any long work, if the dev score cannot be computed; prints what is unusual."""
    from t2t_lite.metrics.check import check_metric
    from t2t_lite.metrics.reference_warnings import tokenizer_note

    problem = spec.make_problem()
    check_metric(problem.make_metric(), f"The problem {problem.name!r}")
    if problem.has_own_metric:
        return
    if note := tokenizer_note(problem.metric, problem.target_language, problem.bleu_tokenize):
        print(note, flush=True)


def _only_writer(args: argparse.Namespace, cluster: Cluster | None) -> contextlib.AbstractContextManager[None]:
    from t2t_lite.runs.lock import only_trainer

    return only_trainer(args.output_dir) if cluster is None or cluster.is_chief else contextlib.nullcontext()


def _recorded(
    trainer: Trainer, command: str
) -> contextlib.AbstractContextManager[Callable[[Mapping[str, object]], None]]:
    from t2t_lite.runs.run_log import recorded
    from t2t_lite.training.last_bits import remarks
    from t2t_lite.training.recipe import intervals_of, recipe_computed_with

    hparams, first = trainer.spec.hparams, trainer.first_step
    trains = first <= intervals_of(hparams).train_steps
    accumulate = trainer.accumulate if trains else None
    computed = recipe_computed_with(hparams, trainer.model, trainer.strategy, trainer.workers, accumulate)
    if trainer.workers.is_chief and first > 1 and trains:
        for line in remarks(trainer.output_dir, first, computed):
            print(line, flush=True)
    return recorded(
        trainer.output_dir,
        command=command,
        devices=trainer.devices,
        first_step=first,
        computed=computed,
        writes=trainer.workers.is_chief,
    )


def _spec(args: argparse.Namespace) -> RunSpec:
    """Returns the settings of the run: from the flags, or from the run in --output_dir if a flag is not given."""
    from t2t_lite.optimizers.choices import check_choices
    from t2t_lite.runs.run_changes import check_same
    from t2t_lite.runs.run_dir import (
        RunSpec,
        absolute,
        has_run,
        has_weights,
        no_run,
        read_run,
        relative_data_dir,
    )

    cli.trust_run(args)
    old = read_run(args.output_dir, args.usr_dir) if args.output_dir and has_run(args.output_dir) else None
    if old is not None and args.problem is None:
        problem_flags.check_run_alone(args)
        start_flags.check_begun(args)
        start = recipe_flags.Recipe(old.hparams_set, old.model, old.hparams)
        recipe = recipe_flags.recipe(args, "") if args.hparams_set else recipe_flags.changed(start, args)
        data_dir = relative_data_dir(args.data_dir, args.output_dir) if args.data_dir else old.data_dir
        new = dataclasses.replace(
            old, data_dir=data_dir, hparams_set=recipe.hparams_set, hparams=recipe.hparams, model=recipe.model
        )
    else:
        if args.problem is None and args.output_dir and has_weights(args.output_dir):
            raise DataError(no_run(args.output_dir))
        if args.problem is None:
            raise UsageError(
                "Give --problem=NAME; t2t-lite-trainer --registry_help lists them."
                + (f" ({args.output_dir} holds no run to go on with.)" if args.output_dir else "")
            )
        problem = problem_flags.problem_from(args)
        recipe = recipe_flags.recipe(args, problem.default_hparams)
        new = RunSpec(
            problem=args.problem,
            options=problem.all_options(),
            data_dir=relative_data_dir(args.data_dir, args.output_dir or "."),
            usr_dir=absolute(args.usr_dir),
            hparams_set=recipe.hparams_set,
            model=recipe.model,
            hparams=recipe.hparams,
        )
    check_choices(new.hparams, load_tensorflow)
    if args.vocabulary is not None:
        from t2t_lite.runs.run_data import given_vocabulary_of

        trained = old.vocabulary if old is not None and has_weights(args.output_dir) else None
        new = dataclasses.replace(new, vocabulary=given_vocabulary_of(args.vocabulary, trained))
        if old is not None and old.vocabulary is None and has_weights(args.output_dir):
            old = dataclasses.replace(old, vocabulary=given_vocabulary_of(args.output_dir))  # it may be the run's own
    if old is not None and has_weights(args.output_dir):
        new = dataclasses.replace(
            new, vocabulary=new.vocabulary or old.vocabulary, data_sha256=old.data_sha256, files=old.files
        )
        check_same(old, new, args.output_dir, reset_optimizer=args.reset_optimizer)
    return new


def _make_trainer(args: argparse.Namespace, spec: RunSpec) -> Trainer:
    from t2t_lite.runs.run_data import prepare_run_data, write_vocabularies
    from t2t_lite.runs.run_dir import write_run

    with preparation_bar() as show:
        spec, store = prepare_run_data(
            spec, args.output_dir, again=args.prepare_again, num_workers=args.num_workers, progress=show
        )
    load_tensorflow()
    from t2t_lite.training.last_bits import keep_last_bits
    from t2t_lite.training.trainer import Trainer

    keep_last_bits(args.output_dir)
    trainer = Trainer(args.output_dir, spec, store, device_flags.devices(args))
    trainer.begin(
        warm_start_from=args.warm_start_from, with_optimizer=args.with_optimizer, reset_optimizer=args.reset_optimizer
    )
    if trainer.workers.is_chief:  # only now: a start that fails changes no settings
        write_vocabularies(args.output_dir, store)
        write_run(args.output_dir, spec)
    return trainer


def _finish(args: argparse.Namespace, trainer: Trainer) -> int:
    if trainer.workers.is_chief:
        _score(args, trainer)
    trainer.workers.barrier()
    return 0


def _score(args: argparse.Namespace, trainer: Trainer) -> None:
    from t2t_lite.data.overlap import overlap_line

    path, split, scores = trainer.finish()
    sources, _ = trainer.store.text(split)
    for source, hypothesis, reference in list(zip(sources, scores.hypotheses, scores.references, strict=True))[:_SHOWN]:
        print(f"\n  {source}\n  -> {hypothesis}" + ("" if hypothesis == reference else f"\n     ({reference})"))
    print(f"\n{split} set, weights {path}:\n{scores.score.format()}")
    store = trainer.store
    seen = overlap_line(split, store.in_train(split), len(store.split(split)))
    print(f"{seen}\n" if seen else "")
    rows: list[tuple[str, Any]] = [
        ("translations", trainer.output_dir / f"{split}.hyp.txt"),
        ("scores", trainer.output_dir / f"{split}.scores.json"),
        ("weights", path),
        ("curves", trainer.output_dir / "metrics.jsonl"),
    ]
    for name, value in rows:
        print(f"{name + ':':14}{value}")
    print(f"\nNext: t2t-lite-decoder --output_dir={shlex.quote(args.output_dir)}   (reads lines, writes translations)")


if __name__ == "__main__":
    sys.exit(main())
