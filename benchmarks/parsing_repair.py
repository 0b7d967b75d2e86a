"""How much of a parser's labelled F1 rests on the repair of its outputs.

    python benchmarks/parsing_repair.py --output_dir=RUN --split=dev

Prints the share of outputs whose symbols did not form a tree over the sentence's words, F1 with repair, F1 without it
(such an output then has no brackets, and misses all of the gold tree's), and F1 of the sentences that needed none.
"""

from __future__ import annotations

import argparse
import sys

from t2t_lite.distributed.tensorflow_loading import load_tensorflow
from t2t_lite.metrics import bracketing
from t2t_lite.text.trees.tree import parse


def main() -> int:
    parser = argparse.ArgumentParser(description="Labelled F1 with and without the repair of outputs.")
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--split", default="dev")
    args = parser.parse_args()
    load_tensorflow()
    from t2t_lite.runs.open_run import open_run

    run = open_run(args.output_dir)
    sources, symbols = run.store().text(args.split)
    gold = [run.translator.outputs.reference(*pair) for pair in zip(sources, symbols, strict=True)]
    found = [hypotheses[0] for hypotheses in run.translator.translate(sources)]
    whole = [(right, h.text) for right, h in zip(gold, found, strict=True) if not h.repaired]
    print(f"{run.checkpoint}, {args.split}: {len(found) - len(whole)} of {len(found)} outputs repaired")
    print("with repair:", bracketing.evaluate(gold, [h.text for h in found]).score().format())
    flat = [_bare(h.text) if h.repaired else h.text for h in found]
    print("without:    ", bracketing.evaluate(gold, flat).score().format())
    if whole:
        print("others:     ", bracketing.evaluate(*zip(*whole, strict=True)).score().format())
    return 0


def _bare(text: str) -> str:
    """The same words and tags without any bracket that counts."""
    return "(TOP " + " ".join(f"({leaf.tag} {leaf.word})" for leaf in parse(text).leaves) + ")"


if __name__ == "__main__":
    sys.exit(main())
