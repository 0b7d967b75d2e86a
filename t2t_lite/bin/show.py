"""The trainer's flags that print something and stop: --registry_help, --describe, --print_completion."""

from __future__ import annotations

import argparse

from t2t_lite import recipe_text, registry
from t2t_lite.bin import completion
from t2t_lite.distributed.tensorflow_loading import load_tensorflow
from t2t_lite.errors import UsageError
from t2t_lite.problem import check_vocab_size
from t2t_lite.runs.start_request import StartRequest
from t2t_lite.training.start import check_beginning, devices_of, make_spec


def add_show_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags."""
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
    parser.add_argument(
        "--print_completion",
        choices=completion.SHELLS,
        help="print what makes this shell complete flags and names of all commands, and stop; needs "
        "t2t-lite[completion]",
    )


def wanted(args: argparse.Namespace) -> bool:
    """Whether one of the flags is given."""
    return bool(args.registry_help or args.describe or args.print_completion)


def show(args: argparse.Namespace, request: StartRequest) -> int:
    """Prints what the flags ask for and returns the exit status."""
    if args.print_completion:
        print(completion.shell_code(args.print_completion))
        return 0
    registry.load_plugins(request.data.usr_dir)
    if args.registry_help:
        print(_registry_help(args))
    elif _has_data(request):
        print(_describe_with_data(request))
    else:
        print(_describe(request))
    return 0


def _registry_help(args: argparse.Namespace) -> str:
    if args.registry_help != "hparams":
        return registry.help_text(registry.KINDS if args.registry_help == "all" else [args.registry_help])
    if args.hparams_set is None:
        registry.HPARAMS.load()  # this also loads the models' groups
        return recipe_text.help_of_all()
    return recipe_text.help_text(registry.hparams(args.hparams_set), f"the values of {args.hparams_set}")


def _has_data(request: StartRequest) -> bool:
    """Whether data are described; --vocab_size stands in for them, unless it is an option of the problem."""
    if "vocab_size" not in request.data.options or request.data.data_dir is not None:
        return True
    if request.data.problem is None or request.output_dir is None:
        return False
    known, others = registry.options_of(registry.PROBLEMS.get(request.data.problem))
    return "vocab_size" in known or others


def _describe_with_data(request: StartRequest) -> str:
    if request.output_dir is None and request.data.data_dir is None:
        raise UsageError(
            "--describe needs --output_dir=DIR (or --data_dir=DIR), where the prepared data is or will be; or "
            "--vocab_size=N, to do without data."
        )
    from t2t_lite.runs.resume import read_folder

    folder = read_folder(request.output_dir, request.data.usr_dir) if request.output_dir else None
    spec = make_spec(request, folder)
    check_beginning(request, spec.model, spec.hparams)
    load_tensorflow()
    from t2t_lite.training.describe import describe

    return describe(spec, request.output_dir, devices_of(request), again=request.data.prepare_again)


def _describe(request: StartRequest) -> str:
    problem, vocab_size = request.data.problem, request.data.options["vocab_size"]
    if request.recipe.named_set is None and problem is None:
        raise UsageError("--describe needs --hparams_set=NAME, or --problem=NAME, which has one of its own.")
    check_vocab_size(vocab_size)
    recipe = request.recipe.make("" if problem is None else registry.PROBLEMS.get(problem).default_hparams)
    check_beginning(request, recipe.model, recipe.hparams)
    load_tensorflow()
    from t2t_lite.training.describe import describe_recipe

    return describe_recipe(recipe.hparams_set, recipe.hparams, recipe.model, vocab_size, devices_of(request))
