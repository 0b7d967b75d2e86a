"""t2t-lite-eval --score: log-probabilities of given translations."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys

from t2t_lite.bin import cli
from t2t_lite.distributed.tensorflow_loading import load_tensorflow
from t2t_lite.errors import DataError
from t2t_lite.ops import threads
from t2t_lite.progress import Progress


def score_pairs(args: argparse.Namespace) -> int:
    """Prints a line per pair of --sources and --targets, and a summary on standard error; returns the exit status."""
    from t2t_lite.data.sources import read_lines
    from t2t_lite.text.trees import tree_lines

    request = cli.open_request(args)
    specs = request.check()
    sources, targets = (list(read_lines(path)) for path in (args.sources, args.targets))
    if not specs[0].make_problem().codec.is_text:
        targets = list(tree_lines(targets, args.targets))
    if len(sources) != len(targets):
        raise DataError(
            f"{args.sources} has {len(sources):,} lines but {args.targets} has {len(targets):,}; "
            "line N of one is the translation of line N of the other."
        )
    load_tensorflow()
    threads.set_inter_op_parallelism()
    from t2t_lite.decoding.score import PairScore, score

    run = request.open_to_decode()
    scores = score(run.translator, sources, targets, progress=Progress(len(sources), " pairs"))
    for one in scores:
        if args.json:
            perplexity = one.perplexity if one.tokens else None  # JSON has no NaN
            print(json.dumps(dataclasses.asdict(one) | {"perplexity": perplexity}))
        else:
            print(f"{one.log_prob:.4f}\t{one.tokens}\t{one.perplexity:.4f}")
    sys.stdout.flush()
    blank = sum(one.tokens == 0 for one in scores)
    total = PairScore(sum(one.log_prob for one in scores), sum(one.tokens for one in scores))
    print(
        f"{run.checkpoint}: {len(scores):,} pairs"
        + (f", {blank:,} of them with an empty source, which have no tokens" if blank else "")
        + f"; log-probability {total.log_prob:.4f} of {total.tokens:,} tokens, perplexity {total.perplexity:.4f}",
        file=sys.stderr,
    )
    return 0
