"""Sentences per second that labelled bracketing scores on one core, from lines to F1: the median of 15 runs.

    python benchmarks/evalb.py GOLD [GOLD ...]

GOLD has one tree per line, plain or .gz. The other side is made from it: in every tree a tenth of the phrases lose
their brackets and a tenth of the labels are changed, so that there are differences to find.
"""

from __future__ import annotations

import random
import statistics
import sys
import time

from t2t_lite.data.sources import read_lines
from t2t_lite.metrics import bracketing
from t2t_lite.text.trees import tree as trees

REPEATS = 15


def damaged(tree: trees.Tree, draw: random.Random) -> str:
    """Returns the line of a tree with faults such as a parser makes."""
    nodes: list[trees.Node] = []
    lost: list[bool] = []
    for node in tree.nodes:
        if isinstance(node, str):
            lost.append(bool(lost) and draw.random() < 0.1)
            node = draw.choice(["NP", "VP", "PP", "ADVP"]) if draw.random() < 0.1 else node
            nodes += [] if lost[-1] else [node]
        elif node is not None or not lost.pop():
            nodes.append(node)
    return str(trees.Tree(tuple(nodes)))


def main() -> int:
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    draw = random.Random(1)
    read = [tree for path in sys.argv[1:] for tree in trees.read_trees(read_lines(path), path)]
    found = [tree for tree in map(trees.normalize, read) if tree is not None]
    gold, test = [str(tree) for tree in found], [damaged(tree, draw) for tree in found]
    print(f"{len(gold):,} sentences: {bracketing.evaluate(gold, test).score().format()}")
    rates = []
    for _ in range(REPEATS):
        start = time.process_time()
        bracketing.evaluate(gold, test).score()
        rates.append(len(gold) / (time.process_time() - start))
    print(f"{statistics.median(rates):,.0f} sentences/s ({min(rates):,.0f} to {max(rates):,.0f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
