"""The flags of t2t-lite-trainer that say what a run is trained on."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from t2t_lite.bin import cli
from t2t_lite.distributed.cluster import STRATEGIES, read_cluster
from t2t_lite.distributed.joining import DEFAULT_SECONDS
from t2t_lite.distributed.tensorflow_loading import load_tensorflow

if TYPE_CHECKING:
    from t2t_lite.distributed.devices import Devices


def add_device_flags(parser: cli.Parser) -> None:
    parser.add_argument("--devices", type=cli.positive, metavar="N", help="N GPUs or logical CPUs; default: all GPUs")
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
        type=cli.positive,
        default=DEFAULT_SECONDS,
        metavar="SECONDS",
        help="how long to wait for the other workers of TF_CONFIG, which may still prepare data; "
        f"default: {DEFAULT_SECONDS}",
    )


def devices(args: argparse.Namespace) -> Devices:
    from t2t_lite.distributed.devices import Devices

    return Devices(args.devices, args.strategy, args.accumulate, args.join_timeout)


def check_devices(args: argparse.Namespace) -> None:
    """Raises UsageError, before any long work, if the devices that are asked for are not there."""
    if args.devices or read_cluster(os.environ) or args.strategy != "auto":
        load_tensorflow()
        from t2t_lite.distributed import devices as there

        there.check_devices(devices(args))


def _accumulate(text: str) -> int | None:
    return None if text == "auto" else cli.positive(text)
