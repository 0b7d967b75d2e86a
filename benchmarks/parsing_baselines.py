"""Scores of parsers that learn almost nothing: labelled F1 by the same tool as everything else.

    python benchmarks/parsing_baselines.py --train=train.trees.gz --test=dev.trees.gz

Words get their most frequent tag in the training trees, unknown words the most frequent tag of words seen once, because
EVALB leaves out punctuation by its tags. Over the tags:

flat             one phrase, S, over the sentence
right-branching  each word and all that follows it is a phrase: the whole is S, the others have the label that is most
                 frequent for phrases of several words that end where the sentence does
majority         the most frequent tree of the training sentences with as many words (of equals the first one; flat if
                 there are none)
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict

from t2t_lite.data.sources import read_lines
from t2t_lite.metrics import bracketing
from t2t_lite.text.trees.linearize import linearize, restore
from t2t_lite.text.trees.tree import Tree, normalize, read_trees


def main() -> int:
    parser = argparse.ArgumentParser(description="Scores baselines of parsing.")
    parser.add_argument("--train", required=True, metavar="FILE")
    parser.add_argument("--test", required=True, metavar="FILE")
    args = parser.parse_args()
    train, gold = _read(args.train), _read(args.test)
    tags, unknown = _tags(train)
    label = _right_label(train)
    shapes = _shapes(train)
    found: dict[str, list[Tree]] = {"flat": [], "right-branching": [], "majority": []}
    for tree in gold:
        words = tree.words
        leaves = [tags.get(word, unknown) for word in words]
        flat = ["(S", *leaves, ")S"]
        right = ["(S", leaves[0], *(s for tag in leaves[1:-1] for s in (f"({label}", tag))]
        right += [*leaves[-1:] * (len(words) > 1), *[f"){label}"] * (len(words) - 2), ")S"]
        shape = iter(leaves)
        majority = [next(shape) if symbol == "XX" else symbol for symbol in shapes.get(len(words), [])] or flat
        for name, symbols in (("flat", flat), ("right-branching", right), ("majority", majority)):
            found[name].append(restore(symbols, words))
    for name, trees in found.items():
        print(f"{name:16}{bracketing.evaluate(list(map(str, gold)), list(map(str, trees))).score().format()}")
    return 0


def _read(path: str) -> list[Tree]:
    return [tree for tree in map(normalize, read_trees(read_lines(path), path)) if tree is not None]


def _tags(trees: list[Tree]) -> tuple[dict[str, str], str]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for tree in trees:
        for tag, word in tree.leaves:
            counts[word][tag] += 1
    once = Counter(tag for of_word in counts.values() if of_word.total() == 1 for tag in of_word)
    return {word: of_word.most_common(1)[0][0] for word, of_word in counts.items()}, once.most_common(1)[0][0]


def _right_label(trees: list[Tree]) -> str:
    counts: Counter[str] = Counter()
    for tree in trees:
        spans = tree.spans()
        counts.update(label for label, start, end in spans[1:] if end == spans[0][2] and end - start > 1)
    return counts.most_common(1)[0][0]


def _shapes(trees: list[Tree]) -> dict[int, list[str]]:
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for tree in trees:
        counts[len(tree.words)][" ".join(linearize(tree, tags=False))] += 1
    return {length: shapes.most_common(1)[0][0].split(" ") for length, shapes in counts.items()}


if __name__ == "__main__":
    sys.exit(main())
