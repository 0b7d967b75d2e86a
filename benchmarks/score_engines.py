"""The engines of time_to_score.py: how each one prepares text, trains, and shows the outputs of its evaluations.

Their commands are a user's: shell lines that run in a folder of the engine's own, beside the folder `data` with
train.en, train.de, dev.en and dev.de. Their settings are in recipes/; each file there names its source.
"""

from __future__ import annotations

import json
import re
import string
from pathlib import Path

RECIPES = Path(__file__).resolve().parent / "recipes"
PIECES = 8000  # SentencePiece's vocabulary, or merges of subword-nmt
LOG = "log.txt"  # what the engine's commands print
_BPE = f"""\
subword-nmt learn-joint-bpe-and-vocab --input ../data/train.en ../data/train.de -s {PIECES} -o codes \
--write-vocabulary vocab.en vocab.de
for file in train.en train.de dev.en dev.de; do subword-nmt apply-bpe -c codes < ../data/$file > $file; done
"""


class Engine:
    """A toolkit; `name` is that of its folder in --work and in --peers.

    Attributes:
        eval_every: updates between two evaluations, unless the command line gives a number: two to four minutes of
            training on two cores.
        prepare: the shell lines from raw text to what training reads.
        train: the command that trains, and resumes if it is given again.
    """

    name: str
    eval_every: int
    prepare: str
    train: str

    def configure(self, folder: Path, recipe: str, eval_every: int) -> None:
        """Writes config.yml: what both recipes have, and what `recipe` has of its own."""
        text = "".join((RECIPES / part / f"{self.name}.yml").read_text() for part in (".", recipe))
        values = {"eval_every": eval_every, **self.names(folder)}
        (folder / "config.yml").write_text(string.Template(text).substitute(values))

    def names(self, folder: Path) -> dict[str, str]:
        """The run's names in config.yml."""
        return {"run": "run"}

    def outputs(self, folder: Path) -> dict[int, Path | float]:
        """Updates -> the file of outputs for dev after so many, or their score; a file may still lack lines."""
        raise NotImplementedError

    def lines(self, path: Path) -> list[str]:
        """The whole lines of a file of outputs, as words."""
        return read_lines(path)

    def pieces(self, folder: Path) -> float:
        """Target pieces of an update, in the mean of those so far; 0 before the engine has said so."""
        raise NotImplementedError


class T2TLite(Engine):
    """Ours: `multi30k`, whose evaluations here translate all of dev, and score as all engines are scored."""

    name = "t2t-lite"
    eval_every = 186
    prepare = (
        "t2t-lite-datagen --problem=text2text --source_dir=../data --languages=en-de --metric=bleu_tok_lc "
        f"--vocab_size={PIECES} --data_dir=store"
    )
    train = "t2t-lite-trainer $(cat config.yml)"

    def configure(self, folder: Path, recipe: str, eval_every: int) -> None:
        changed = f"precision=float32,eval_lines=0,eval_every={eval_every},save_every={eval_every}"
        (folder / "config.yml").write_text(
            "--problem=text2text --source_dir=../data --languages=en-de --metric=bleu_tok_lc "
            f"--vocab_size={PIECES} --data_dir=store --hparams_set=multi30k --hparams={changed} --output_dir=run\n"
        )

    def outputs(self, folder: Path) -> dict[int, Path | float]:
        return {int(line["step"]): line["dev_bleu"] for line in self._metrics(folder) if "dev_bleu" in line}

    def pieces(self, folder: Path) -> float:
        lines = [line for line in self._metrics(folder) if "target_tokens" in line]
        return sum(line["target_tokens"] for line in lines) / lines[-1]["step"] if lines else 0.0

    def _metrics(self, folder: Path) -> list[dict[str, float]]:
        file = folder / "run" / "metrics.jsonl"
        return [json.loads(line) for line in read_lines(file)] if file.exists() else []


class OpenNMT(Engine):
    """OpenNMT-tf, whose evaluations search with the beam of its settings."""

    name = "onmt"
    eval_every = 100
    prepare = (
        "cat ../data/train.en ../data/train.de > both.txt\n"
        f"onmt-build-vocab --sentencepiece --size {PIECES} --save_vocab pieces both.txt"
    )
    train = "onmt-main --model model.py --config config.yml --auto_config train --with_eval"

    def configure(self, folder: Path, recipe: str, eval_every: int) -> None:
        super().configure(folder, recipe, eval_every)
        (folder / "model.py").write_text((RECIPES / recipe / "onmt_model.py").read_text())

    def outputs(self, folder: Path) -> dict[int, Path | float]:
        return {int(path.suffix[1:]): path for path in folder.glob("run/eval/predictions.txt.*")}

    def pieces(self, folder: Path) -> float:
        found = re.findall(r"steps/s = ([\d.]+), tokens/s = .* (\d+) target", (folder / LOG).read_text())
        return sum(float(tokens) / float(steps) for steps, tokens in found) / len(found) if found else 0.0


class Sockeye(Engine):
    """Sockeye 3, whose checkpoint decoder searches with beam 5."""

    name = "sockeye"
    eval_every = 250
    prepare = _BPE + "sockeye-prepare-data -s train.en -t train.de -o prepared --shared-vocab"
    train = (
        "sockeye-train --config config.yml -d prepared -vs dev.en -vt dev.de -o run --shared-vocab --use-cpu "
        "--decode-and-evaluate -1 --max-updates 1000000"
    )

    def outputs(self, folder: Path) -> dict[int, Path | float]:
        every = int(re.findall(r"checkpoint_interval: (\d+)", (folder / "config.yml").read_text())[0])
        paths = folder.glob("run/decode.output.0.*")
        return {every * int(path.suffix[1:]): path for path in paths}

    def lines(self, path: Path) -> list[str]:
        return [re.sub(r"@@( |$)", "", line) for line in read_lines(path)]  # subword-nmt's pieces

    def pieces(self, folder: Path) -> float:
        found = re.findall(r"Updates=(\d+) .*Samples=(\d+)", (folder / LOG).read_text())
        target = read_lines(folder / "train.de")
        of_a_sentence = sum(len(line.split()) for line in target) / len(target)
        return int(found[-1][1]) / int(found[-1][0]) * of_a_sentence if found else 0.0


class JoeyNMT(Engine):
    """JoeyNMT, whose evaluations are greedy."""

    name = "joeynmt"
    eval_every = 250
    prepare = _BPE + "cat train.en train.de | subword-nmt get-vocab | cut -d' ' -f1 > vocab.txt"
    train = f"python {RECIPES / 'joeynmt_main.py'} train config.yml --skip-test"

    def names(self, folder: Path) -> dict[str, str]:
        """A run that is resumed has a new folder, and reads the newest checkpoint of those before."""
        runs = sorted(folder.glob("run*"), key=lambda run: int(run.name[3:]))
        saved = [run / "latest.ckpt" for run in runs if (run / "latest.ckpt").exists()]
        return {"run": f"run{len(runs)}", "load": str(saved[-1]) if saved else "null"}

    def outputs(self, folder: Path) -> dict[int, Path | float]:
        return {int(path.stem): path for path in folder.glob("run*/*.hyps")}

    def pieces(self, folder: Path) -> float:
        text = (folder / LOG).read_text()
        epochs = [(int(found[1]), found.start()) for found in re.finditer(r"num\. of tokens: (\d+)", text)]
        steps = re.findall(r"Step: +(\d+)", text[: epochs[-1][1]]) if epochs else []
        return sum(tokens for tokens, _ in epochs) / int(steps[-1]) if steps else 0.0


ENGINES: dict[str, Engine] = {engine.name: engine for engine in (T2TLite(), OpenNMT(), Sockeye(), JoeyNMT())}


def read_lines(path: Path) -> list[str]:
    """The whole lines of a file that may still be written."""
    return path.read_text(encoding="utf-8").split("\n")[:-1]
