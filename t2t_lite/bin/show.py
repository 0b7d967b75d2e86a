"""The trainer's flags that print something and stop: --registry_help, --describe, --print_completion."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from t2t_lite import recipe_text, registry
from t2t_lite.bin import completion, device_flags, recipe_flags, start_flags
from t2t_lite.distributed.tensorflow_loading import load_tensorflow
from t2t_lite.errors import UsageError
from t2t_lite.problem import check_vocab_size

if TYPE_CHECKING:
    from t2t_lite.config import HParams
    from t2t_lite.runs.run_dir import RunSpec


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


def show(args: argparse.Namespace, make_spec: Callable[[argparse.Namespace], RunSpec]) -> int:
    """Prints what the flags ask for and returns the exit status; `make_spec` makes the settings of the run."""
    if args.print_completion:
        print(completion.shell_code(args.print_completion))
    elif args.registry_help:
        registry.load_plugins(args.usr_dir)
        print(_registry_help(args))
    else:
        registry.load_plugins(args.usr_dir)
        print(_described_with_data(args, make_spec) if _has_data(args) else _described(args))
    return 0


def _has_data(args: argparse.Namespace) -> bool:
    """Whether data are described; --vocab_size stands in for them, unless it is an option of the problem."""
    if args.vocab_size is None or args.data_dir is not None:
        return True
    if args.problem is None or args.output_dir is None:
        return False
    known, others = registry.options_of(registry.PROBLEMS.get(args.problem))
    return "vocab_size" in known or others


def _registry_help(args: argparse.Namespace) -> str:
    if args.registry_help != "hparams":
        return registry.help_text(registry.KINDS if args.registry_help == "all" else [args.registry_help])
    if args.hparams_set is None:
        registry.HPARAMS.load()  # this also loads the models' groups
        return recipe_text.help_of_all()
    return recipe_text.help_text(registry.hparams(args.hparams_set), f"the values of {args.hparams_set}")


def _described_with_data(args: argparse.Namespace, make_spec: Callable[[argparse.Namespace], RunSpec]) -> str:
    if args.output_dir is None and args.data_dir is None:
        raise UsageError(
            "--describe needs --output_dir=DIR (or --data_dir=DIR), where the prepared data is or will be; or "
            "--vocab_size=N, to do without data."
        )
    spec = make_spec(args)
    _check_start(args, spec.model, spec.hparams)
    load_tensorflow()
    from t2t_lite.training.describe import describe

    return describe(spec, args.output_dir, device_flags.devices(args), again=args.prepare_again)


def _described(args: argparse.Namespace) -> str:
    file = recipe_flags.read_file(args)
    if args.hparams_set is None and file.hparams_set is None and args.problem is None:
        raise UsageError("--describe needs --hparams_set=NAME, or --problem=NAME, which has one of its own.")
    check_vocab_size(args.vocab_size)
    default = ""
    if args.problem is not None:
        registry.PROBLEMS.check(args.problem)
        default = registry.PROBLEMS.get(args.problem).default_hparams
    recipe = recipe_flags.recipe(args, default)
    _check_start(args, recipe.model, recipe.hparams)
    load_tensorflow()
    from t2t_lite.training.describe import describe_recipe

    devices = device_flags.devices(args)
    return describe_recipe(recipe.hparams_set, recipe.hparams, recipe.model, args.vocab_size, devices)


def _check_start(args: argparse.Namespace, model: str, hparams: HParams) -> None:
    """Raises T2TError for what a training with the same flags refuses before it has data."""
    start_flags.check_start(args, model, hparams)
    device_flags.check_devices(args)
