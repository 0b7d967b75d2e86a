"""The flags of t2t-lite-decoder that draw outputs instead of searching for them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from t2t_lite import registry
from t2t_lite.bin import cli
from t2t_lite.bin.problem_flags import read_options
from t2t_lite.groups import MOST_HYPOTHESES
from t2t_lite.option_values import sampler_options

if TYPE_CHECKING:
    from t2t_lite.decoding.sampling import Sampling

FLAGS = ("sampler", "sampler_options", "seed")


def add_flags(parser: cli.Parser) -> None:
    group = parser.add_argument_group("sampling, instead of beam search")
    group.add_argument("--sampler", metavar="NAME", help="random, top_k, nucleus or one of your own")
    group.add_argument(
        "--sampler_options",
        metavar="NAME=VALUE,...",
        action="append",
        help="temperature (1) of all; top_k (10) of top_k; top_p (0.9) of nucleus",
    )
    group.add_argument("--seed", type=cli.positive, metavar="N", help="another seed draws other outputs; default: 1")


def check_flags(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Ends the program with status 2 if flags of a search and of sampling are mixed."""
    for flag in FLAGS[1:]:
        if args.sampler is None and getattr(args, flag) is not None:
            parser.error(f"--{flag} goes with --sampler=NAME")
    for flag in ("beam_size", "length_penalty"):
        if args.sampler is not None and getattr(args, flag) is not None:
            parser.error(f"--{flag} is of beam search, and does not go with --sampler (--nbest=N draws N samples)")
    if args.sampler is not None and (args.nbest or 1) > MOST_HYPOTHESES:
        parser.error(f"--nbest={args.nbest}: a sampler draws at most {MOST_HYPOTHESES:,} outputs of each line")


def check_name(args: argparse.Namespace) -> None:
    """Raises UsageError if there is no such sampler; needs the plug-ins loaded, but not TensorFlow."""
    if args.sampler is not None:
        registry.SAMPLERS.check(args.sampler)


def sampling(args: argparse.Namespace) -> Sampling | None:
    """Returns the sampler that the flags name, or None without --sampler; imports TensorFlow.

    Raises:
        UsageError: the sampler has no such option, or does not take its value.
    """
    if args.sampler is None:
        return None
    from t2t_lite.decoding.sampling import Sampling
    from t2t_lite.samplers.base import make_sampler

    options = sampler_options(args.sampler, read_options("--sampler_options", args.sampler_options or []))
    return Sampling(make_sampler(args.sampler, options), 1 if args.seed is None else args.seed)
