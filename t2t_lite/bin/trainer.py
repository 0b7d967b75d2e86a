"""t2t-lite-trainer: from text to a scored model; prepares, trains, averages, translates and scores."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import sys
from typing import TYPE_CHECKING, Any

from t2t_lite import config, registry
from t2t_lite.bin import cli, output, problem_flags, progress
from t2t_lite.errors import UsageError
from t2t_lite.problem import check_vocab_size
from t2t_lite.train.cluster import ALL_REDUCE, STRATEGIES, Cluster, read_cluster

if TYPE_CHECKING:
    from t2t_lite.train.devices import Devices
    from t2t_lite.train.run_dir import RunSpec
    from t2t_lite.train.trainer import Trainer

_MODEL = "transformer"
_SHOWN = 10  # translations printed at the end


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = _parser()
    args = parser.parse(argv)
    if not args.registry_help and not args.describe and args.output_dir is None:
        parser.error("give --output_dir=DIR, where the run is written")
    return cli.run(lambda: _run(args))


def _parser() -> cli.Parser:
    parser = cli.Parser(
        prog="t2t-lite-trainer",
        description="Prepares the data if need be, trains (going on from the newest checkpoint if there is one), "
        "averages the last checkpoints, translates and scores the test set.",
        epilog="Example: t2t-lite-trainer --problem=toy_ende --hparams_set=tiny --output_dir=runs/toy",
    )
    parser.add_argument("--output_dir", metavar="DIR", help="the run's folder; alone, goes on with the run in it")
    parser.add_argument("--model", metavar="NAME", help="default: transformer")
    parser.add_argument("--hparams_set", metavar="NAME", help="the recipe; default: the problem's own")
    parser.add_argument("--hparams", metavar="NAME=VALUE,...", help="changes to the recipe, such as dropout=0.2")
    parser.add_argument("--train_steps", type=int, metavar="N", help="short for --hparams=train_steps=N")
    parser.add_argument(
        "--devices", type=cli.positive, metavar="N", help="N GPUs, or N logical CPUs where there is no GPU"
    )
    parser.add_argument(
        "--strategy",
        choices=STRATEGIES,
        default="auto",
        help="default: multi_worker where TF_CONFIG names several machines, mirrored on several devices",
    )
    parser.add_argument(
        "--all_reduce",
        choices=ALL_REDUCE,
        default="auto",
        help="how devices add up gradients; default: TensorFlow's choice",
    )
    parser.add_argument(
        "--fill_micro_batches",
        action="store_true",
        help="let some devices idle where their number does not divide the recipe's micro_batches",
    )
    start = parser.add_mutually_exclusive_group()
    start.add_argument("--warm_start_from", metavar="RUN", help="start from the weights of another run")
    start.add_argument(
        "--reset_optimizer",
        action="store_true",
        help="go on with Adam's moments at zero, and with other settings of the optimizer if they are given; weights, "
        "step and learning-rate schedule stay",
    )
    parser.add_argument(
        "--skip_bad_batches",
        type=cli.positive,
        default=0,
        metavar="N",
        help="leave out up to N batches whose loss or gradient is not finite; default: stop at the first",
    )
    parser.add_argument(
        "--num_workers", type=cli.positive, metavar="N", help="processes that prepare data; default: all CPUs"
    )
    parser.add_argument("--registry_help", action="store_true", help="print every registered name and stop")
    parser.add_argument(
        "--describe",
        action="store_true",
        help="print model, batches and memory, and stop; with --vocab_size=N it needs no data",
    )
    problem_flags.add_problem_flags(parser, required=False)
    return parser


def _run(args: argparse.Namespace) -> int:
    if args.registry_help:
        registry.load_plugins(args.usr_dir)
        print(registry.help_text())
        return 0
    problem_flags.check_vocabulary(args)
    if args.describe:
        return _describe(args)
    output.check_folder("output_dir", args.output_dir)
    spec = _spec(args)
    from t2t_lite.train.run_dir import has_run
    from t2t_lite.train.signals import Stopped, StopSignals

    cluster = read_cluster(os.environ)
    if args.devices or cluster or args.strategy != "auto":  # before the data, which may take long
        cli.load_tensorflow()
        from t2t_lite.train.trainer import check_recipe_devices

        check_recipe_devices(spec.hparams, _devices(args))
    try:
        with StopSignals() as stop, _only_writer(args, cluster):
            trainer = _make_trainer(args, spec)
            trainer.run(stop, skip_bad_batches=args.skip_bad_batches)
            return _finish(args, trainer)
    except Stopped as stopped:
        devices = f" --devices={args.devices}" if args.devices else ""
        short = f"t2t-lite-trainer --output_dir={args.output_dir}{devices}"
        again = short if has_run(args.output_dir) and cluster is None else "the same command"
        print(f"{stopped} Go on with {again}{' on every worker' if cluster else ''}", file=sys.stderr)
        return stopped.exit_status


def _devices(args: argparse.Namespace) -> Devices:
    from t2t_lite.train.devices import Devices

    return Devices(args.devices, args.strategy, args.all_reduce, args.fill_micro_batches)


def _only_writer(args: argparse.Namespace, cluster: Cluster | None) -> contextlib.AbstractContextManager[None]:
    from t2t_lite.train.lock import only_trainer

    return only_trainer(args.output_dir) if cluster is None or cluster.is_chief else contextlib.nullcontext()


def _describe(args: argparse.Namespace) -> int:
    if args.vocab_size is None or args.data_dir is not None:
        if args.output_dir is None and args.data_dir is None:
            raise UsageError(
                "--describe needs --output_dir=DIR (or --data_dir=DIR), where the prepared data is or will be; or "
                "--vocab_size=N, to do without data."
            )
        spec = _spec(args)
        cli.load_tensorflow()
        from t2t_lite.train.describe import describe

        print(describe(spec, args.output_dir or ".", again=args.prepare_again))
        return 0
    registry.load_plugins(args.usr_dir)
    if args.hparams_set is None and args.problem is None:
        raise UsageError("--describe needs --hparams_set=NAME, or --problem=NAME, which has one of its own.")
    check_vocab_size(args.vocab_size)
    if args.problem is not None:
        registry.PROBLEMS.check(args.problem)
    set_name = args.hparams_set or registry.PROBLEMS.get(args.problem).default_hparams
    hparams = _changed(registry.hparams(set_name), args)
    model = args.model or _MODEL
    registry.MODELS.check(model)
    cli.load_tensorflow()
    from t2t_lite.train.describe import describe_recipe

    print(describe_recipe(set_name, hparams, model, args.vocab_size))
    return 0


def _spec(args: argparse.Namespace) -> RunSpec:
    """What to run: from the flags, or from the run in --output_dir where the flags leave it open."""
    from t2t_lite.train.run_dir import RunSpec, check_same, has_run, has_weights, read_run, relative_data_dir

    old = read_run(args.output_dir, args.usr_dir) if args.output_dir and has_run(args.output_dir) else None
    if old is not None and args.problem is None:
        hparams = _changed(registry.hparams(args.hparams_set) if args.hparams_set else old.hparams, args)
        new = dataclasses.replace(old, hparams=hparams, model=args.model or old.model)
    else:
        if args.problem is None:
            raise UsageError(
                "Give --problem=NAME; t2t-lite-trainer --registry_help lists them."
                + (f" ({args.output_dir} holds no run to go on with.)" if args.output_dir else "")
            )
        problem = problem_flags.problem_from(args)
        set_name = args.hparams_set or problem.default_hparams
        new = RunSpec(
            problem=args.problem,
            options=problem.options(),
            data_dir=relative_data_dir(args.data_dir, args.output_dir or "."),
            usr_dir=args.usr_dir,
            hparams_set=set_name,
            model=args.model or _MODEL,
            hparams=_changed(registry.hparams(set_name), args),
        )
        registry.MODELS.check(new.model)
    if args.vocabulary is not None:
        from t2t_lite.train.run_data import given_vocabulary_of

        new = dataclasses.replace(new, vocabulary=given_vocabulary_of(args.vocabulary))
        if old is not None and old.vocabulary is None and has_weights(args.output_dir):
            old = dataclasses.replace(old, vocabulary=given_vocabulary_of(args.output_dir))  # it may be the run's own
    if old is not None and has_weights(args.output_dir):
        new = dataclasses.replace(new, vocabulary=new.vocabulary or old.vocabulary, data_sha256=old.data_sha256)
        check_same(old, new, args.output_dir, reset_optimizer=args.reset_optimizer)
    return new


def _changed(hparams: config.HParams, args: argparse.Namespace) -> config.HParams:
    hparams = config.override(hparams, args.hparams or "")
    return config.replace(hparams, train_steps=args.train_steps) if args.train_steps is not None else hparams


def _make_trainer(args: argparse.Namespace, spec: RunSpec) -> Trainer:
    from t2t_lite.train.run_data import prepare_run_data, write_vocabularies
    from t2t_lite.train.run_dir import write_run

    with progress.preparation_bar() as show:
        spec, store = prepare_run_data(
            spec, args.output_dir, again=args.prepare_again, num_workers=args.num_workers, progress=show
        )
    cli.load_tensorflow()
    from t2t_lite.train.trainer import Trainer

    trainer = Trainer(args.output_dir, spec, store, _devices(args))
    if trainer.workers.is_chief:
        write_vocabularies(args.output_dir, store)
    trainer.begin(warm_start_from=args.warm_start_from, reset_optimizer=args.reset_optimizer)
    if trainer.workers.is_chief:
        write_run(args.output_dir, spec)  # only now: a start that fails changes no settings
    return trainer


def _finish(args: argparse.Namespace, trainer: Trainer) -> int:
    if trainer.workers.is_chief:
        _score(args, trainer)
    trainer.workers.wait()
    return 0


def _score(args: argparse.Namespace, trainer: Trainer) -> None:
    split = "test" if "test" in trainer.store.splits() else "dev"
    sources, _ = trainer.store.text(split)
    path, split, scores = trainer.finish(progress.progress_bar(len(sources), " lines"))
    for source, hypothesis, reference in list(zip(sources, scores.hypotheses, scores.references, strict=True))[:_SHOWN]:
        print(f"\n  {source}\n  -> {hypothesis}" + ("" if hypothesis == reference else f"\n     ({reference})"))
    print(f"\n{split} set, weights {path}:\n{scores.score.format()}\n")
    rows: list[tuple[str, Any]] = [
        ("translations", trainer.output_dir / f"{split}.hyp.txt"),
        ("weights", path),
        ("curves", trainer.output_dir / "metrics.jsonl"),
    ]
    for name, value in rows:
        print(f"{name + ':':14}{value}")
    print(f"\nNext: t2t-lite-decoder --output_dir={args.output_dir}   (reads lines, writes translations)")


def entry() -> None:
    """The console script."""
    sys.exit(main())


if __name__ == "__main__":
    entry()
