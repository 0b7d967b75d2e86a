"""t2t-lite-trainer: from text to a scored model; prepares, trains, averages, translates and scores."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from typing import TYPE_CHECKING, Any

from t2t_lite import recipe_text, registry
from t2t_lite.cli import common, completion, flags, output
from t2t_lite.cli.huge_pages import restart_with_huge_pages
from t2t_lite.distributed.cluster import STRATEGIES
from t2t_lite.distributed.rendezvous import DEFAULT_SECONDS
from t2t_lite.distributed.tensorflow_loading import load_tensorflow
from t2t_lite.errors import UsageError
from t2t_lite.problem import check_vocab_size
from t2t_lite.runs.start_request import StartRequest
from t2t_lite.signals import Stopped
from t2t_lite.training.start import (
    check_beginning,
    check_data,
    devices_of,
    make_spec,
    open_run_folder,
    plan_start,
    settle_precision,
    train,
)

if TYPE_CHECKING:
    from t2t_lite.training.describe import Description

_OUTPUT_LOST = "The output cannot be written any more; training continues, and its figures are in metrics.jsonl."


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = make_parser()
    args = parser.parse(argv)
    if not (args.registry_help or args.describe or args.environment or args.print_completion or args.output_dir):
        parser.error("give --output_dir=DIR, where the run is written")
    if args.json and not (args.registry_help or args.describe):
        parser.error("--json goes with --describe or --registry_help; a run's scores are in SPLIT.scores.json")
    return common.run(lambda: _run(args), args=args)


def _run(args: argparse.Namespace) -> int:
    if args.print_completion:
        print(completion.shell_code(args.print_completion))
        return 0
    if args.environment:
        from t2t_lite.cli.environment import environment

        print(environment())
        return 0
    request = start_request(args)
    if not args.registry_help and not args.describe:
        restart_with_huge_pages()
        return run(request)
    registry.load_plugins(request.data.usr_dir)
    if args.registry_help:
        kind, named = args.registry_help, request.recipe.hparams_set
        if args.json:
            common.print_json(_registered(kind, named))
        else:
            print(_registry_help(kind, named))
        return 0
    found = _describe_with_data(request) if _has_data(request) else _describe(request)
    if args.json:
        common.print_json(found.facts)
    else:
        print(found.text)
    return 0


def run(request: StartRequest) -> int:
    """Trains, prints the result and returns the exit status."""
    with output.lasting_output(_OUTPUT_LOST):
        try:
            result = train(plan_start(request))
        except Stopped as stopped:
            print(f"{stopped} Resume with {stopped.resume_with}", file=sys.stderr)
            return stopped.exit_status
        if result is not None:
            print(result.text())
    return 0


def make_parser() -> common.Parser:
    parser = common.Parser(
        prog="t2t-lite-trainer",
        description="Prepares the data if need be, trains (from the newest checkpoint on if there is one), "
        "averages the last checkpoints, translates and scores the test set.",
        epilog="Example: t2t-lite-trainer --problem=toy_ende --hparams_set=tiny --output_dir=runs/toy",
    )
    parser.add_argument(
        "--output_dir",
        metavar="DIR",
        help="the run's folder, or its URL (s3://, gs://, ...); alone, resumes the run in it",
    )
    parser.add_argument("--model", metavar="NAME", help="default: that of the hparams set")
    flags.add_recipe_flags(parser)
    parser.add_argument("--train_steps", type=int, metavar="N", help="short for --hparams=train_steps=N")
    _add_device_flags(parser)
    _add_start_flags(parser)
    parser.add_argument(
        "--skip_bad_batches",
        type=common.positive,
        default=0,
        metavar="N",
        help="leave out up to N batches whose loss or gradient is not finite; default: stop at the first",
    )
    parser.add_argument(
        "--callbacks",
        type=_names,
        default=(),
        metavar="NAME,...",
        help="are told of losses and scores: wandb, mlflow, or your own from --usr_dir; --registry_help=callbacks "
        "lists them",
    )
    parser.add_argument(
        "--num_workers", type=common.positive, metavar="N", help="to prepare data; default: one per CPU, 16 at most"
    )
    common.add_trust_flag(parser)
    _add_show_flags(parser)
    flags.add_problem_flags(parser, required=False)
    return parser


def _add_device_flags(parser: common.Parser) -> None:
    parser.add_argument(
        "--devices", type=common.positive, metavar="N", help="N GPUs or logical CPUs; default: all GPUs"
    )
    parser.add_argument(
        "--strategy",
        choices=STRATEGIES,
        default="auto",
        help="default: multi_worker where TF_CONFIG names several machines, mirrored on several devices",
    )
    parser.add_argument(
        "--accumulate",
        type=_accumulate,
        metavar="N|auto",
        help="parts of a device's share of a batch, computed one after the other: more need less memory, and change no "
        "result; default: auto, as few as the memory allows",
    )
    parser.add_argument(
        "--join_timeout",
        type=common.positive,
        default=DEFAULT_SECONDS,
        metavar="SECONDS",
        help="how long to wait for the other workers of TF_CONFIG, which may still prepare data; "
        f"default: {DEFAULT_SECONDS}",
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


def _accumulate(text: str) -> int | None:
    try:
        return None if text == "auto" else common.positive(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}, nor auto") from None


def _add_start_flags(parser: common.Parser) -> None:
    group = parser.add_argument_group("the start of a run")
    start = group.add_mutually_exclusive_group()
    start.add_argument(
        "--warm_start_from",
        metavar="RUN",
        help="a new run starts from the weights of another, or of RUN/best, RUN/averaged, RUN/ema or "
        "RUN/checkpoints/model-N",
    )
    start.add_argument(
        "--reset_optimizer",
        action="store_true",
        help="resume with the optimizer's moments at zero, and with other settings of optimizer and schedule if they "
        "are given; weights, step and learning-rate schedule stay",
    )
    group.add_argument(
        "--with_optimizer",
        action="store_true",
        help="with --warm_start_from: take the optimizer's slots and the step of its newest checkpoint, too, so that "
        "its training continues; train_steps counts its updates as well",
    )


def start_request(args: argparse.Namespace) -> StartRequest:
    """Returns what the flags ask for."""
    data = dataclasses.replace(flags.data_request(args), usr_dir=common.code_folder(args, [args.output_dir]))
    names = [field.name for field in dataclasses.fields(StartRequest) if field.name not in ("data", "recipe")]
    return StartRequest(data=data, recipe=flags.recipe_request(args), **{name: getattr(args, name) for name in names})


def _add_show_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--registry_help",
        nargs="?",
        const="all",
        choices=("all", *registry.KINDS, "hparams"),
        metavar="KIND",
        help="print every registered name and stop, or those of one KIND: "
        f"{', '.join(registry.KINDS)}; or hparams: every "
        "field of a recipe by group, its default (of --hparams_set: its value), range and meaning",
    )
    parser.add_argument(
        "--describe",
        action="store_true",
        help="print recipe, model, epochs, hours, batches, memory, disk, and stop. Prepares the data "
        "first, if need be; with --vocab_size=N and without --output_dir it needs none",
    )
    common.add_json_flag(parser, "what --describe or --registry_help shows")
    parser.add_argument(
        "--environment",
        action="store_true",
        help="print versions, processors, GPUs, memory, disk and variables, for a report of a fault, and stop; no "
        "user, host or folder is named",
    )
    parser.add_argument(
        "--print_completion",
        choices=completion.SHELLS,
        help="print what makes this shell complete flags and names of all commands, and stop; needs "
        "t2t-lite[completion]",
    )


def _registry_help(kind: str, hparams_set: str | None) -> str:
    if kind != "hparams":
        return registry.help_text(registry.KINDS if kind == "all" else [kind])
    if hparams_set is None:
        registry.HPARAMS.load()  # this also loads the models' groups
        return recipe_text.help_of_all()
    return recipe_text.help_text(registry.hparams(hparams_set), f"the values of {hparams_set}")


def _registered(kind: str, hparams_set: str | None) -> dict[str, Any]:
    """Names and first lines of what is registered by kind, or the fields of a recipe by group."""
    if kind != "hparams":
        return registry.listed(registry.KINDS if kind == "all" else [kind])
    registry.HPARAMS.load()
    groups = recipe_text.all_groups() if hparams_set is None else recipe_text.groups(registry.hparams(hparams_set))
    return {
        title: {
            field.name: {
                "type": field.kind_text,
                "value": value,
                "range": str(field.meta.within or ""),
                "meaning": field.meta.meaning,
            }
            for field, value in rows
        }
        for title, rows in groups.items()
    }


def _has_data(request: StartRequest) -> bool:
    """Whether data are described; --vocab_size stands in for them, unless it is an option of the problem."""
    if "vocab_size" not in request.data.options or request.data.data_dir is not None:
        return True
    if request.data.problem is None or request.output_dir is None:
        return False
    known, others = registry.options_of(registry.PROBLEMS.get(request.data.problem))
    return "vocab_size" in known or others


def _describe_with_data(request: StartRequest) -> Description:
    if request.output_dir is None and request.data.data_dir is None:
        raise UsageError(
            "--describe needs --output_dir=DIR (or --data_dir=DIR), where the prepared data is or will be; or "
            "--vocab_size=N, to do without data."
        )
    from t2t_lite.runs.resume import read_folder

    request = open_run_folder(request)
    folder = read_folder(request.output_dir, request.data.usr_dir) if request.output_dir else None
    spec = make_spec(request, folder)
    check_data(spec, spec.make_problem())
    check_beginning(request, spec.model, spec.hparams)
    load_tensorflow()
    from t2t_lite.training.describe import describe

    return describe(spec, request.output_dir, devices_of(request), again=request.data.prepare_again)


def _describe(request: StartRequest) -> Description:
    problem, vocab_size = request.data.problem, request.data.options["vocab_size"]
    if request.recipe.named_set is None and problem is None:
        raise UsageError("--describe needs --hparams_set=NAME, or --problem=NAME, which has one of its own.")
    check_vocab_size(vocab_size)
    recipe = request.recipe.make("" if problem is None else registry.PROBLEMS.get(problem).default_hparams)
    check_beginning(request, recipe.model, recipe.hparams)
    load_tensorflow()
    from t2t_lite.training.describe import describe_recipe

    hparams = settle_precision(recipe.hparams)
    return describe_recipe(recipe.hparams_set, hparams, recipe.model, vocab_size, devices_of(request))


if __name__ == "__main__":
    sys.exit(main())
