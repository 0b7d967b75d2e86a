"""Learning curves of several runs beside each other: loss and score on dev against updates.

    python benchmarks/curves.py --run=NAME=OUTPUT_DIR --run=NAME=OUTPUT_DIR --output=docs/multi30k.svg

The script reads the runs' metrics.jsonl. Runs with the same NAME, such as
seeds of a recipe, are drawn in one colour.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path
from typing import Any, NamedTuple

from t2t_lite.cli import common
from t2t_lite.errors import DataError
from t2t_lite.runs.metrics_log import METRICS_FILE, read_metrics

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")


class Curve(NamedTuple):
    """A run's evaluations, as in metrics.jsonl, and the name that it is drawn under."""

    name: str
    evaluations: list[dict[str, Any]]


def main() -> int:
    """Draws; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", action="append", required=True, metavar="NAME=OUTPUT_DIR", help="may be given again")
    parser.add_argument("--score", default="dev_bleu", help="beside the loss, as metrics.jsonl names it")
    parser.add_argument("--first_step", type=int, default=0, help="evaluations before it are left out")
    parser.add_argument("--output", required=True, help="where the figure goes, .svg")
    args = parser.parse_args()

    def run() -> int:
        draw([curve(text, args.first_step) for text in args.run], args.score, args.output)
        return 0

    return common.run(run, interrupted="interrupted.")


def curve(text: str, first_step: int) -> Curve:
    """Reads NAME=OUTPUT_DIR; raises DataError if there is no evaluation."""
    name, _, folder = text.rpartition("=")
    found = [line for line in read_metrics(Path(folder)) if "dev_loss" in line and line["step"] >= first_step]
    if not found:
        raise DataError(f"{Path(folder) / METRICS_FILE} has no evaluation from step {first_step:,} on.")
    return Curve(name or Path(folder).name, found)


def draw(curves: list[Curve], score: str, output: str) -> None:
    """Draws all curves: loss on the left, score on the right."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.hashsalt": "curves", "svg.fonttype": "none", "font.size": 8}  # the same file each time
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    colours = dict(zip(dict.fromkeys(c.name for c in curves), itertools.cycle(COLOURS), strict=False))
    for panel, value, label in zip(panels, ("dev_loss", score), ("loss on dev, nats per piece", score), strict=True):
        labelled = set()
        for name, evaluations in curves:
            points = [(line["step"], line[value]) for line in evaluations if value in line]
            panel.plot(
                *zip(*points, strict=True),
                color=colours[name],
                linewidth=1,
                label=None if name in labelled else name,
            )
            labelled.add(name)
        panel.set_xlabel("updates")
        panel.set_ylabel(label)
        panel.grid(color="#dddddd", linewidth=0.5)
    panels[0].legend(frameon=False)
    figure.savefig(output, metadata={"Date": None})


if __name__ == "__main__":
    sys.exit(main())
