"""Fine-tuning on Multi30k: dev BLEU before, after, and of a model trained from scratch on the second corpus alone.

    python benchmarks/finetuning.py --source_dir=multi30k/tok --folder=runs/finetuning

The first 20,000 training pairs are one corpus and the last 9,000 another; both have the same dev set. By the commands
of docs/finetuning.md:

first    recipe `multi30k` on the first corpus, 4,000 updates; scored on dev, it is the model before fine-tuning
tuned    1,000 updates on the second corpus, from the weights of `first` and with its vocabulary
scratch  1,000 updates on the second corpus alone, with a vocabulary of its own

The same command, given again, resumes where it was stopped. The result is printed, and written to
FOLDER/finetuning.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from t2t_lite import registry

TUNING = "learning_rate_factor=0.5,warmup_steps=200"  # at most about the rate with which the first training ends
SCRATCH = (
    "learning_rate_factor=1.2,warmup_steps=500"  # as high a rate as the recipe's, reached within the fewer updates
)


def main() -> int:
    args = _parser().parse_args()
    folder = Path(args.folder)
    corpora = _corpora(args, folder)
    first, tuned, scratch = (folder / name for name in ("first", "tuned", "scratch"))
    start = time.perf_counter()
    _train(args, corpora[0], first, args.first_steps, "")
    _train(
        args, corpora[1], tuned, args.second_steps, args.tuning, f"--vocabulary={first}", f"--warm_start_from={first}"
    )
    _train(args, corpora[1], scratch, args.second_steps, args.scratch)
    rows = {name: _score(run) for name, run in (("before", first), ("after", tuned), ("scratch", scratch))}
    result = {"arguments": vars(args), "seconds": round(time.perf_counter() - start), "dev": rows}
    (folder / "finetuning.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(f"\n{'dev set':10}{'loss':>8}{'BLEU':>8}   weights")
    for name, row in rows.items():
        print(f"{name:10}{row['loss']:8.3f}{row['bleu']:8.2f}   {row['checkpoint']}")
    print(f"{rows['after']['signature']}\n{result['seconds']:,} s")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Fine-tunes a model of Multi30k on a second corpus and scores it.")
    parser.add_argument("--source_dir", required=True, metavar="DIR", help="Multi30k, tokenised: train.*, val.*")
    parser.add_argument("--folder", required=True, metavar="DIR", help="where corpora and runs are written")
    parser.add_argument("--languages", default="en-de", metavar="SRC-TGT")
    parser.add_argument("--hparams_set", default="multi30k", metavar="NAME")
    parser.add_argument("--first_pairs", type=int, default=20_000, metavar="N", help="from the start of the corpus")
    parser.add_argument("--second_pairs", type=int, default=9_000, metavar="N", help="from its end")
    parser.add_argument("--first_steps", type=int, default=4_000, metavar="N")
    parser.add_argument("--second_steps", type=int, default=1_000, metavar="N", help="of fine-tuning, and from scratch")
    parser.add_argument("--tuning", default=TUNING, metavar="NAME=VALUE,...", help=f"hparams; default: {TUNING}")
    parser.add_argument("--scratch", default=SCRATCH, metavar="NAME=VALUE,...", help=f"hparams; default: {SCRATCH}")
    parser.add_argument("--hparams", default="", metavar="NAME=VALUE,...", help="of all, such as precision=bfloat16")
    return parser


def _corpora(args: argparse.Namespace, folder: Path) -> tuple[Path, Path]:
    """Writes the two corpora."""
    problem = registry.problem("text2text", source_dir=args.source_dir, languages=args.languages)
    train, dev = (list(problem.samples(split)) for split in ("train", "dev"))
    if args.first_pairs + args.second_pairs > len(train):
        raise SystemExit(
            f"{args.source_dir} has {len(train):,} training pairs, too few for two corpora without overlap."
        )
    parts = {"first": train[: args.first_pairs], "second": train[len(train) - args.second_pairs :]}
    for name, pairs in parts.items():
        for split, lines in (("train", pairs), ("dev", dev)):
            for language, side in zip(args.languages.split("-"), zip(*lines, strict=True), strict=True):
                _write(folder / f"corpus_{name}" / f"{split}.{language}", side)
    return folder / "corpus_first", folder / "corpus_second"


def _write(path: Path, lines: Iterable[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")


def _train(args: argparse.Namespace, corpus: Path, run: Path, steps: int, hparams: str, *more: str) -> None:
    # Twenty checkpoints and four evaluations over any number of updates; the last five checkpoints are averaged.
    every = (
        f"train_steps={steps},save_every={max(steps // 20, 1)},average_checkpoints=5,eval_every={max(steps // 4, 1)},"
        "eval_lines=0"
    )
    changes = ",".join(filter(None, (every, hparams, args.hparams)))
    _run(
        "trainer",
        "--problem=text2text",
        f"--source_dir={corpus}",
        f"--languages={args.languages}",
        "--metric=bleu_tok_lc",
        f"--hparams_set={args.hparams_set}",
        f"--hparams={changes}",
        f"--output_dir={run}",
        *more,
    )


def _score(run: Path) -> dict[str, Any]:
    found = json.loads(_run("eval", f"--output_dir={run}", "--split=dev", "--json", output=True))
    bleu = found["scores"][0]
    scores = {"bleu": bleu["value"], "signature": bleu["signature"]}
    return {**scores, **{name: found[name] for name in ("loss", "perplexity", "checkpoint")}}


def _run(command: str, *flags: str, output: bool = False) -> str:
    print(f"t2t-lite-{command}", *flags, flush=True)
    stdout = subprocess.PIPE if output else None
    done = subprocess.run(
        [sys.executable, "-m", f"t2t_lite.cli.{command}", *flags], stdout=stdout, check=True, text=True
    )
    return done.stdout or ""


if __name__ == "__main__":
    sys.exit(main())
