"""The command line that goes on with a stopped run."""

from __future__ import annotations

import argparse
import shlex

# Flags that a run's folder does not hold. --trust_run has become --usr_dir.
_FLAGS = ("usr_dir", "devices", "strategy", "accumulate", "skip_bad_batches")


def command(parser: argparse.ArgumentParser, args: argparse.Namespace) -> str:
    """Returns the shortest command of t2t-lite-trainer that goes on with the run in --output_dir as `args` do."""
    words = ["t2t-lite-trainer", f"--output_dir={args.output_dir}"]
    for name in _FLAGS:
        value = getattr(args, name)
        if value != parser.get_default(name):
            words.append(f"--{name}" if value is True else f"--{name}={value}")
    return shlex.join(words)
