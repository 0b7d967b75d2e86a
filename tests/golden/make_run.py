"""Makes the run and the export of a release that tests/system/test_golden_run.py opens.

    python tests/golden/make_run.py tests/golden/run_0.1.0

It writes `runs.tar.xz` (a corpus, a run with its data, and its export) and `expected.json` (what the same commands
decode, score, export and train after a resume). What a release wrote stays; the next format adds a folder.
"""

import json
import random
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path("/tmp/golden")  # its name is in the run
STEPS, MORE = 200, 3  # updates of the run, and of its resume
# Some 3,000 parameters, dropout, two checkpoints to average.
RECIPE = (
    "num_layers=1,d_model=16,d_ff=16,num_heads=2,dropout=0.05,label_smoothing=0.05,batch_tokens=512,max_length=16,"
    f"warmup_steps=60,learning_rate_factor=1,train_steps={STEPS},log_every=20,eval_every=100,save_every=50,"
    "keep_checkpoints=2,average_checkpoints=2,extra_length=5"
)
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


def main(out: str) -> None:
    """Makes the files of `out`; prints each command."""
    shutil.rmtree(ROOT, ignore_errors=True)
    (ROOT / "corpus").mkdir(parents=True)
    _write_corpus(ROOT / "corpus")
    expected = _make(ROOT / "run", ROOT / "export")
    Path(out).mkdir(exist_ok=True)
    text = json.dumps(expected, indent=1, ensure_ascii=False)
    Path(out, "expected.json").write_text(f"{text}\n", encoding="utf-8")
    with tarfile.open(Path(out, "runs.tar.xz"), "w:xz", preset=9) as archive:
        for path in sorted(path for folder in ("corpus", "run", "export") for path in (ROOT / folder).rglob("*")):
            if path.is_file() and "tensorboard" not in path.parts and path.suffix != ".lock":
                archive.add(path, path.relative_to(ROOT), filter=_plain)
    print({path.name: path.stat().st_size for path in Path(out).iterdir()})


def _run(*arguments: object, input: str = "") -> str:
    print("$", *arguments, flush=True)
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, input=input, stdout=-1, check=True, text=True).stdout


def _make(run: Path, export: Path) -> dict[str, Any]:
    """Makes a run and its export; returns what to expect of them."""
    corpus, command = run.parent / "corpus", "t2t_lite.cli."
    _run(
        *("-m", f"{command}trainer", "--problem=text2text", f"--source_dir={corpus}", "--languages=en-de"),
        *("--vocab_size=50", "--hparams_set=tiny", f"--hparams={RECIPE}", "--num_workers=1", f"--output_dir={run}"),
    )
    path = run / "run.json"
    starts = json.loads(path.read_text("utf-8"))
    starts["starts"][0]["host"] = "golden"
    path.write_text(json.dumps(starts, indent=2) + "\n", "utf-8")
    _run("-m", f"{command}exporter", f"--output_dir={run}", f"--export_dir={export}")
    sources = (corpus / "test.en").read_text("utf-8")
    decoded = _run("-m", f"{command}decoder", "--json", f"--output_dir={run}", "--nbest=2", input=sources)
    evaluation = ("-m", f"{command}eval", f"--output_dir={run}", "--split=dev", "--json")
    evaluated = {kind: json.loads(_run(*evaluation, f"--checkpoint={kind}")) for kind in ("averaged", "newest")}
    exported = json.loads(_run("-c", SCORES, export / "1", input=json.dumps(sources.splitlines())))
    resumed = Path(shutil.copytree(run, run.parent / "resumed"))
    _run("-m", f"{command}trainer", f"--output_dir={resumed}", f"--train_steps={STEPS + MORE}", "--hparams=log_every=1")
    lines = [json.loads(line) for line in (resumed / "metrics.jsonl").read_text("utf-8").split("\n")[:-1]]
    return {
        "decoded": [json.loads(line) for line in decoded.split("\n")[:-1]],
        "exported": exported,
        "evaluated": {
            kind: {"loss": found["loss"], "scores": [[score["name"], score["value"]] for score in found["scores"]]}
            for kind, found in evaluated.items()
        },
        "resumed": [line["loss"] for line in lines if line["step"] > STEPS and "loss" in line],
    }


def _write_corpus(folder: Path) -> None:
    """Writes numbers, translated word by word; so small a model learns this in seconds."""
    draw, german = random.Random(1), dict(zip(ENGLISH, GERMAN, strict=True))
    for split, count in (("train", 600), ("dev", 8), ("test", 8)):
        rows = [draw.choices(ENGLISH, k=draw.randint(2, 6)) for _ in range(count)]
        _write_lines(folder / f"{split}.en", [" ".join(row) for row in rows])
        _write_lines(folder / f"{split}.de", [" ".join(german[word] for word in row) for row in rows])


def _write_lines(path: Path, lines: Sequence[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    """Removes what differs each time: times and owners."""
    info.mtime, info.uid, info.gid, info.uname, info.gname, info.mode = 0, 0, 0, "", "", 0o644
    return info


if __name__ == "__main__":
    main(sys.argv[1])
