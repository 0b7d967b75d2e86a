"""The flags that name a recipe and change it: an hparams set < a file < --hparams < --train_steps."""

from __future__ import annotations

import argparse

from t2t_lite.config import read_overrides
from t2t_lite.runs.recipe_request import RecipeRequest


def add_recipe_flags(parser: argparse.ArgumentParser, of: str = "") -> None:
    """Adds the flags; their help starts with `of`."""
    parser.add_argument("--hparams_set", metavar="NAME", help=f"{of}the recipe; default: the problem's own")
    parser.add_argument(
        "--hparams_file",
        metavar="FILE",
        help=f"{of}changes to the recipe in JSON: {{NAME: VALUE, ...}}, or a run's hparams.json, whose hparams set and "
        "model then are the defaults",
    )
    parser.add_argument(
        "--hparams",
        action="append",
        metavar="NAME=VALUE,...",
        help=f"{of}changes to the recipe (after those of --hparams_file), such as dropout=0.2; may be given again",
    )


def recipe_request(args: argparse.Namespace) -> RecipeRequest:
    """Returns what the flags of `add_recipe_flags`, --model and --train_steps ask for.

    Raises:
        UsageError: --hparams is not of the form name=value, or names a field twice.
    """
    overrides = read_overrides(",".join(args.hparams or []))
    if (steps := getattr(args, "train_steps", None)) is not None:
        overrides["train_steps"] = steps
    model = getattr(args, "model", None)
    return RecipeRequest(hparams_set=args.hparams_set, hparams_file=args.hparams_file, model=model, overrides=overrides)
