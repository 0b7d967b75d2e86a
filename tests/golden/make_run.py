"""Makes the runs and exports of an earlier commit that tests/system/test_golden_run.py opens.

    git worktree add --detach ../old 295e56e
    python tests/golden/make_run.py ../old tests/golden/run_295e56e

Every command is that commit's own; it runs in today's environment (TensorFlow 2.21, Keras 3.15). The script writes
`runs.tar.xz` (a corpus, and for each recipe a run and its export) and `expected.json` (what the same commit decodes,
scores and exports).
"""

import json
import os
import random
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

STEPS = 300  # updates of a run
# Common to both recipes: some 5,000 parameters, dropout, two checkpoints to average.
COMMON = (
    "num_layers=1,d_model=16,d_ff=16,num_heads=2,dropout=0.05,label_smoothing=0.05,batch_tokens=512,max_length=16,"
    f"warmup_steps=60,learning_rate_factor=1,train_steps={STEPS},log_every=1,eval_every=150,save_every=50,"
    "keep_checkpoints=2,average_checkpoints=2,extra_length=5"
)
RECIPES = {
    "post": f"{COMMON},norm=post",
    "window": f"{COMMON},norm=pre,positions=learned,max_positions=64,attention_window=6,d_k=4",
}
FLAGS = {"post": [], "window": ["--separate_vocabularies"]}
ENGLISH = "one two three four five six seven eight nine ten".split()
GERMAN = "eins zwei drei vier fünf sechs sieben acht neun zehn".split()
# Prints the scores as computed, in float32; the commands print only four decimals.
SCORES = """
import json, sys, tensorflow as tf, tensorflow_text
signature = tf.saved_model.load(sys.argv[1]).signatures["nbest"]
found = signature(inputs=tf.constant(json.load(sys.stdin)))
print(json.dumps({"outputs": [[text.decode() for text in row] for row in found["outputs"].numpy().tolist()],
                  "scores": found["scores"].numpy().tolist()}))
"""

Run = Callable[..., str]


def main(tree: str, out: str) -> None:
    """Makes the files of `out` with the code in `tree`; prints each command."""
    # -m and -c look in the working folder first, so the working folder has to be the tree.
    where: Any = {"cwd": tree, "env": {**os.environ, "PYTHONPATH": str(Path(tree).resolve())}}

    def run(*arguments: object, input: str = "") -> str:
        print("$", *arguments, flush=True)
        command = [sys.executable, *map(str, arguments)]
        return subprocess.run(command, **where, input=input, stdout=-1, check=True, text=True).stdout

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "golden")
        (root / "corpus").mkdir(parents=True)
        _write_corpus(root / "corpus")
        expected = {name: _make(run, root, name) for name in RECIPES}
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=tree, stdout=-1, check=True, text=True).stdout
        text = json.dumps({"commit": commit.strip(), **expected}, indent=1, ensure_ascii=False)
        Path(out, "expected.json").write_text(f"{text}\n", encoding="utf-8")
        with tarfile.open(Path(out, "runs.tar.xz"), "w:xz", preset=9) as archive:
            for path in sorted(path for path in root.rglob("*") if path.is_file()):
                if "tensorboard" not in path.parts and path.suffix != ".lock":
                    archive.add(path, path.relative_to(root), filter=_plain)
    print({path.name: path.stat().st_size for path in Path(out).iterdir()})


def _write_corpus(folder: Path) -> None:
    """Writes numbers, translated word by word; so small a model learns this in seconds."""
    draw, german = random.Random(1), dict(zip(ENGLISH, GERMAN, strict=True))
    for split, count in (("train", 600), ("dev", 8), ("test", 8)):
        rows = [draw.choices(ENGLISH, k=draw.randint(2, 6)) for _ in range(count)]
        _write_lines(folder / f"{split}.en", [" ".join(row) for row in rows])
        _write_lines(folder / f"{split}.de", [" ".join(german[word] for word in row) for row in rows])


def _make(run: Run, root: Path, name: str) -> dict[str, Any]:
    """Makes a run and its export in `root`; returns what to expect of them."""
    folder, export, command = root / name / "run", root / name / "export", "t2t_lite.bin."
    run(
        *("-m", f"{command}trainer", "--problem=text2text", f"--source_dir={root / 'corpus'}", "--languages=en-de"),
        *("--vocab_size=50", *FLAGS[name], "--hparams_set=tiny", f"--hparams={RECIPES[name]}"),
        *("--num_workers=1", f"--output_dir={folder}"),
    )
    run("-m", f"{command}exporter", f"--output_dir={folder}", f"--export_dir={export}")
    sources = (root / "corpus" / "test.en").read_text()
    decoded = run("-m", f"{command}decoder", "--json", f"--output_dir={folder}", "--nbest=2", input=sources)
    evaluation = ("-m", f"{command}eval", f"--output_dir={folder}", "--split=dev", "--json")
    evaluated = {kind: json.loads(run(*evaluation, f"--checkpoint={kind}")) for kind in ("averaged", "newest")}
    return {
        "decoded": [json.loads(line) for line in decoded.removesuffix("\n").split("\n")],
        "exported": json.loads(run("-c", SCORES, export / "1", input=json.dumps(sources.splitlines()))),
        "evaluated": {
            kind: {"loss": found["loss"], "scores": [[score["name"], score["value"]] for score in found["scores"]]}
            for kind, found in evaluated.items()
        },
    }


def _write_lines(path: Path, lines: Sequence[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    """Removes what differs each time: times and owners."""
    info.mtime, info.uid, info.gid, info.uname, info.gname, info.mode = 0, 0, 0, "", "", 0o644
    return info


if __name__ == "__main__":
    main(*sys.argv[1:])
