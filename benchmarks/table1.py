"""Table 1 measured: how the time of each type of layer grows with the length n and the width d.

    python benchmarks/table1.py --output=docs/table1.svg

Times forward passes on the CPU, in float32, of what the table counts: for self-attention only equation (1), with one
head of d, without the projections (n d^2 for all layers alike). All layers and sizes take turns; times are medians over
the rounds. An exponent is the slope of log time over log size, fitted to the three largest sizes. The recurrent layer
takes ROWS sequences at once, because the products of a single one wait for memory, not for arithmetic; times are per
sequence.

Peak memory is that of a fresh process per size, less what it used before the layer ran.

The exit status is 1 if an exponent is further than 0.25 from the table's, memory included, or if restricted
self-attention in the shape of base, 8 heads of 64, is not 8 times as fast as full self-attention at n = 4096.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from t2t_lite.distributed.tensorflow_loading import load_tensorflow

R, K, ROWS = 128, 3, 32  # the window of restricted self-attention, the convolution's kernel, recurrent sequences
D, N = 512, 1024  # the fixed width where n grows, the fixed length where d does
FITTED = 3  # the largest sizes, which decide the exponent
TOLERANCE = 0.25
SPEEDUP = 8.0
BASE_HEADS = 8  # of base: 8 heads of 64
MEMORY_SIZES = {"restricted": (4096, 16384, 32768, 65536), "self-attention": (2048, 4096, 8192)}


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of Table 1, and where it is measured."""

    formula: str
    exponents: tuple[int, int]  # of n and of d
    lengths: tuple[int, ...]  # n, at d = D
    widths: tuple[int, ...]  # d, at n = fixed_length
    colour: str
    fixed_length: int = N
    rows: int = 1

    def cells(self, axis: int) -> list[tuple[int, int]]:
        """(n, d) of each measurement; axis 0: against n, 1: against d."""
        return [(n, D) for n in self.lengths] if axis == 0 else [(self.fixed_length, d) for d in self.widths]


TABLE = {
    "self-attention": Row("n² d", (2, 1), (1024, 2048, 4096, 8192), (512, 1024, 2048, 4096), "#0072b2"),
    "recurrent": Row("n d²", (1, 2), (128, 256, 512, 1024), (512, 1024, 2048, 4096), "#d55e00", 64, ROWS),
    "convolutional": Row("k n d²", (1, 2), (1024, 2048, 4096, 8192), (256, 512, 1024, 2048), "#009e73"),
    "restricted": Row("r n d", (1, 1), (4096, 8192, 16384, 32768), (512, 1024, 2048, 4096), "#cc79a7", 4096),
}
Times = dict[tuple[str, int, int], float]  # (layer, n, d): seconds a sequence


def layer(name: str, n: int, d: int, heads: int = 1) -> Callable[[], Any]:
    """A call that runs one forward pass over TABLE[name].rows sequences of n vectors of d."""
    import keras
    import tensorflow as tf

    from t2t_lite.layers.local_attention import Window, local_attention
    from t2t_lite.layers.scaled_dot_product import scaled_dot_product

    if name in ("recurrent", "convolutional"):
        made: Any = keras.layers.SimpleRNN(d, return_sequences=True)
        if name == "convolutional":
            made = keras.layers.Conv1D(d, K, padding="same")
        inputs = (tf.random.normal((TABLE[name].rows, n, d)),)
        made(inputs[0][:, :1])  # makes the weights
    else:
        inputs = tuple(tf.random.normal((1, heads, n, d // heads)) for _ in range(3))
        window = Window(R, causal=False, segments=tf.ones((1, n), tf.int32))
        made = scaled_dot_product if name == "self-attention" else lambda *x: local_attention(*x, window)
    function = tf.function(made, autograph=False)
    return lambda: function(*inputs)


def measure(rounds: int) -> tuple[Times, float, float]:
    """Times of all cells of TABLE, and the speedup of restricted attention at n = 4096, with one head and as base."""
    wide = ("self-attention", "restricted")
    calls = {(name, n, d, 1): layer(name, n, d) for name, row in TABLE.items() for a in (0, 1) for n, d in row.cells(a)}
    calls |= {(name, 4096, D, BASE_HEADS): layer(name, 4096, D, BASE_HEADS) for name in wide}
    repeats = {}
    for cell, call in calls.items():
        call()  # traces it
        repeats[cell] = math.ceil(0.02 / _seconds(call, 1))  # at least 20 ms each, so that a clock tick is nothing
    taken: dict[Any, list[float]] = {cell: [] for cell in calls}
    for _ in range(rounds):
        for cell, call in calls.items():
            taken[cell].append(_seconds(call, repeats[cell]))
    medians = {cell: statistics.median(values) / TABLE[cell[0]].rows for cell, values in taken.items()}
    one, base = (medians[wide[0], 4096, D, heads] / medians[wide[1], 4096, D, heads] for heads in (1, BASE_HEADS))
    return {cell[:3]: seconds for cell, seconds in medians.items() if cell[3] == 1}, one, base


def _seconds(call: Callable[[], Any], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def exponent(sizes: list[int], values: list[float]) -> float:
    """Slope of log value over log size, by least squares, at the largest sizes."""
    x, y = ([math.log(v) for v in numbers[-FITTED:]] for numbers in (sizes, values))
    return statistics.linear_regression(x, y).slope


def added_megabytes(name: str, n: int) -> float:
    """By how much one forward pass, in the shape of base, raises the peak memory of this process."""
    layer(name, 256, D, BASE_HEADS)()
    call = layer(name, n, D, BASE_HEADS)
    before = _peak_megabytes()
    call()
    return _peak_megabytes() - before


def _peak_megabytes() -> float:
    # Not ru_maxrss, in which the parent's peak counts as well.
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def _in_fresh_process(name: str, n: int) -> float:
    command = [sys.executable, __file__, f"--peak_of={name}", f"--length={n}"]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def draw(times: Times, output: str) -> None:
    """Draws both panels: points are measured, lines are those of Table 1, drawn through the largest size."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.hashsalt": "table1", "svg.fonttype": "none", "font.size": 9}  # the same file each time
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(8, 3.6), sharey=True, layout="constrained")
    for axis, panel in enumerate(panels):
        for name, row in TABLE.items():
            x = [cell[axis] for cell in row.cells(axis)]
            y = [1e3 * times[name, n, d] for n, d in row.cells(axis)]
            line = [y[-1] * (size / x[-1]) ** row.exponents[axis] for size in x]
            panel.plot(x, line, color=row.colour, linewidth=1)
            panel.plot(x, y, "o", color=row.colour, markersize=4, label=f"{name}, {row.formula}")
        panel.set(xscale="log", yscale="log")
        panel.set_xlabel((f"length n (d = {D})", "width d (n fixed)")[axis])
        ticks = sorted({cell[axis] for row in TABLE.values() for cell in row.cells(axis)})
        panel.set_xticks(ticks, [f"{size:,}" for size in ticks], rotation=45)
        panel.minorticks_off()
        panel.grid(color="#dddddd", linewidth=0.5)
        panel.set_axisbelow(True)
    panels[0].set_ylabel("ms a sequence, forward")
    panels[0].legend(frameon=False)
    figure.savefig(output, metadata={"Date": None})


def main() -> int:
    parser = argparse.ArgumentParser(description="Measures the four layer types of Table 1 and draws the figure.")
    parser.add_argument("--output", help="where the figure goes, .svg")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peak_of", choices=MEMORY_SIZES, help=argparse.SUPPRESS)  # the child of _in_fresh_process
    parser.add_argument("--length", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    load_tensorflow()
    logging.getLogger("tensorflow").setLevel("ERROR")  # one function per cell is meant
    if args.peak_of:
        print(added_megabytes(args.peak_of, args.length))
        return 0
    memory = {name: [_in_fresh_process(name, n) for n in sizes] for name, sizes in MEMORY_SIZES.items()}
    times, one_head, base = measure(args.rounds)
    missed = 0

    def report(what: str, fitted: float, wanted: int) -> str:
        nonlocal missed
        missed += abs(fitted - wanted) > TOLERANCE
        return f"{what}^{fitted:.2f} (Table 1: {wanted})"

    for axis, what in enumerate("nd"):
        for name, row in TABLE.items():
            cells = row.cells(axis)
            values = [times[name, n, d] for n, d in cells]
            sizes = [cell[axis] for cell in cells]
            shown = "  ".join(f"{size}: {1e3 * value:.2f} ms" for size, value in zip(sizes, values, strict=True))
            print(f"{name:<14} {row.formula:<6}  {report(what, exponent(sizes, values), row.exponents[axis])}  {shown}")
    for name, sizes in MEMORY_SIZES.items():
        shown = "  ".join(f"{n}: {value:.0f} MiB" for n, value in zip(sizes, memory[name], strict=True))
        fitted = report("n", exponent(list(sizes), memory[name]), TABLE[name].exponents[0])
        print(f"peak memory, {name}, {BASE_HEADS} heads of {D // BASE_HEADS}: {fitted}  {shown}")
    print(
        f"restricted against full, n = 4096, r = {R}: {one_head:.1f} times as fast with one head of {D}, "
        f"{base:.1f} as base"
    )
    missed += base < SPEEDUP
    if args.output:
        draw(times, args.output)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
