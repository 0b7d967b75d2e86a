"""How time and memory grow with length, batch, vocabulary, layers and beam, beside what theory says.

    python benchmarks/growth.py --output=docs/growth.svg

Updates and searches of a small model (2 layers, d_model 128, d_ff 512, 4 heads, 1,000 pieces), in which one size grows
at a time. Each point is measured in its own process, after a very short call: the median time of some calls, and by how
much they raise the peak memory. Theory is the FLOPs of the matrix products, and the bytes that must be kept:
activations in training; in a search keys, values and logits, and the attention weights of one layer of its encoder.

An exponent is the slope of log value over log size, fitted to the three largest sizes. The exit status is 1 if one is
larger than theory's by more than 0.25.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ledger import search_call
from train_step import seconds_of, training_step

from t2t_lite import config, registry
from t2t_lite.distributed.tensorflow_loading import load_tensorflow

SMALL = "num_layers=2,d_model=128,d_ff=512,num_heads=4"
TOLERANCE, FITTED, CALLS = 0.25, 3, 3


@dataclasses.dataclass(frozen=True)
class Work:
    """The work of one process; `length` is that of both source and target."""

    searching: bool = False
    overrides: str = ""
    rows: int = 1
    length: int = 64
    vocab_size: int = 1000
    beam_size: int = 4


@dataclasses.dataclass(frozen=True)
class Series:
    """A curve: the work at each size, on a panel of the figure."""

    panel: str
    name: str
    sizes: tuple[int, ...]
    work: Callable[[int], Work]


LENGTHS = (128, 256, 512, 1024, 2048, 4096)
SERIES = (
    Series("training: length", "all positions", LENGTHS, lambda n: Work(length=n)),
    Series("training: length", "remat=true", LENGTHS, lambda n: Work(length=n, overrides="remat=true")),
    Series("training: length", "window of 64", LENGTHS, lambda n: Work(length=n, overrides="attention_window=64")),
    Series("training: batch", "rows of 64", (16, 32, 64, 128, 256), lambda n: Work(rows=n)),
    Series("training: vocabulary", "8 rows of 64", (4000, 16000, 64000), lambda n: Work(rows=8, vocab_size=n)),
    Series("training: layers", "8 rows of 64", (2, 4, 8, 16), lambda n: Work(rows=8, overrides=f"num_layers={n}")),
    Series(
        "training: layers",
        "remat=true",
        (2, 4, 8, 16),
        lambda n: Work(rows=8, overrides=f"num_layers={n},remat=true"),
    ),
    Series("search: length", "beam 4", (128, 256, 512, 1024), lambda n: Work(True, length=n)),
    Series("search: length", "greedy", (128, 256, 512, 1024), lambda n: Work(True, length=n, beam_size=1)),
    Series("search: beam", "16 sentences", (4, 8, 16, 32), lambda n: Work(True, rows=16, beam_size=n)),
    Series("search: batch", "beam 4", (16, 32, 64, 128), lambda n: Work(True, rows=n)),
    Series("search: vocabulary", "16 sentences", (4000, 16000, 64000), lambda n: Work(True, rows=16, vocab_size=n)),
)


def main() -> int:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description="Measures how time and memory grow, and draws the curves.")
    parser.add_argument("--output", help="where the figure goes, .svg")
    parser.add_argument("--work", help=argparse.SUPPRESS)  # the process that is measured
    args = parser.parse_args()
    if args.work:
        print(json.dumps(measured(Work(**json.loads(args.work)))))
        return 0
    print("| what grows | | sizes | seconds | exponent | of FLOPs | MB | exponent | of bytes |")
    print("|---|---|---|---|---|---|---|---|---|")
    missed, points = 0, []
    for series in SERIES:
        found = [_in_process(series.work(size)) for size in series.sizes]
        points.append(found)
        columns = {name: [point[name] for point in found] for name in found[0]}
        slopes = {name: exponent(series.sizes, values) for name, values in columns.items()}
        missed += slopes["seconds"] > slopes["flops"] + TOLERANCE
        missed += slopes["megabytes"] > slopes["theory_megabytes"] + TOLERANCE
        print(
            f"| {series.panel} | {series.name} | {', '.join(f'{size:,}' for size in series.sizes)} | "
            f"{', '.join(f'{value:.2f}' for value in columns['seconds'])} | {slopes['seconds']:.2f} | "
            f"{slopes['flops']:.2f} | {', '.join(f'{value:,.0f}' for value in columns['megabytes'])} | "
            f"{slopes['megabytes']:.2f} | {slopes['theory_megabytes']:.2f} |",
            flush=True,
        )
    if args.output:
        draw(points, args.output)
    return 1 if missed else 0


def _in_process(work: Work) -> dict[str, float]:
    command = [sys.executable, __file__, f"--work={json.dumps(dataclasses.asdict(work))}"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measured(work: Work) -> dict[str, float]:
    """Seconds of a call and the megabytes it adds, both measured and by theory."""
    # One batch at a time: the memory of several depends on when each of them is at its peak.
    os.environ["TF_NUM_INTRAOP_THREADS"] = str(len(os.sched_getaffinity(0)))
    load_tensorflow()
    hparams = config.override(config.override(registry.hparams("base"), SMALL), work.overrides)
    call, flops, kept = (_search if work.searching else _update)(hparams, work)
    call(8)  # traces the graph, which is the same for all lengths
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak from here on
    before = _peak_megabytes()
    times = [seconds_of(call) for _ in range(CALLS)]
    return {
        "seconds": statistics.median(times),
        "megabytes": max(_peak_megabytes() - before, 1.0),
        "flops": flops,
        "theory_megabytes": kept / 1e6,
    }


def _update(hparams: config.HParams, work: Work) -> tuple[Callable[..., Any], float, float]:
    call, sizes = training_step(hparams, (work.rows, work.length, work.length, work.vocab_size), 1)
    flops = work.rows * sizes.training_flops(work.length, work.length)
    # Gradients are as large as the weights.
    return call, flops, sizes.activation_bytes(work.rows, work.length, work.length, 4) + 4.0 * _weights(hparams, work)


def _search(hparams: config.HParams, work: Work) -> tuple[Callable[..., Any], float, float]:
    call, sizes = search_call(hparams, (work.rows, work.length, work.length, work.vocab_size), work.beam_size)
    hypotheses = work.rows * work.beam_size
    # Hypotheses share most of their past, and have room for 16 steps each.
    width, n = sizes.num_heads * (sizes.d_k + sizes.d_v), work.length
    kept = sizes.num_layers * width * (2 * work.rows * n + 16 * hypotheses) + 2 * hypotheses * work.vocab_size
    kept += 2 * work.rows * sizes.num_heads * n * n  # an encoder layer's scores and their softmax
    return call, float(hypotheses * sizes.forward_flops(n, n)), 4.0 * (kept + _weights(hparams, work))


def _weights(hparams: config.HParams, work: Work) -> int:
    """Parameters of matrices."""
    d = hparams.d_model
    return work.vocab_size * d + hparams.num_layers * (12 * d * d + 4 * d * hparams.d_ff)


def exponent(sizes: tuple[int, ...], values: list[float]) -> float:
    """Slope of log value over log size, by least squares, at the largest sizes."""
    x, y = ([math.log(v) for v in numbers[-FITTED:]] for numbers in (sizes, values))
    return statistics.linear_regression(x, y).slope


def _peak_megabytes() -> float:
    # The peak of this process alone; ru_maxrss would begin with the peak of its parent.
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1e3


def draw(points: list[list[dict[str, float]]], output: str) -> None:
    """Draws times above, memory below: points are measured, lines are theory, drawn through the largest size."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.hashsalt": "growth", "svg.fonttype": "none", "font.size": 8}  # the same file each time
    from matplotlib import pyplot

    names = list(dict.fromkeys(series.panel for series in SERIES))
    figure, panels = pyplot.subplots(2, len(names), figsize=(2.2 * len(names), 4.6), layout="constrained")
    for column, name in enumerate(names):
        mine = [(series, found) for series, found in zip(SERIES, points, strict=True) if series.panel == name]
        for row, (value, theory) in enumerate((("seconds", "flops"), ("megabytes", "theory_megabytes"))):
            panel = panels[row][column]
            for colour, (series, found) in zip(("#0072b2", "#d55e00", "#009e73"), mine, strict=False):
                last = found[-1]
                line = [last[value] * point[theory] / last[theory] for point in found]
                panel.plot(series.sizes, line, color=colour, linewidth=1)
                panel.plot(series.sizes, [p[value] for p in found], "o", color=colour, markersize=3, label=series.name)
            panel.set(xscale="log", yscale="log")
            sizes = sorted({size for series, _ in mine for size in series.sizes})
            panel.set_xticks(sizes, [f"{size:,}" for size in sizes], rotation=45)
            panel.minorticks_off()
            panel.grid(color="#dddddd", linewidth=0.5)
            panel.legend(frameon=False)
        panels[0][column].set_title(name)
    panels[0][0].set_ylabel("seconds a call")
    panels[1][0].set_ylabel("MB that a call adds")
    figure.savefig(output, metadata={"Date": None})


if __name__ == "__main__":
    sys.exit(main())
