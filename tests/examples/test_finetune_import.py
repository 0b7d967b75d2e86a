"""docs/finetune_import.md: its commands, run unchanged, on a small model that Marian trained."""

import itertools
import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from t2t_lite import registry
from tests import commands
from tests.importers.marian_golden import GOLDEN

pytestmark = pytest.mark.nightly

_PAGE = Path(__file__).resolve().parents[2].joinpath("docs", "finetune_import.md").read_text(encoding="utf-8")
_SHELL = "\n".join(re.findall(r"```sh\n(.*?)```", _PAGE, re.DOTALL)).replace("\\\n", "")
_COMMANDS = [shlex.split(line) for line in _SHELL.split("\n") if line]
_ROW = re.compile(r"^\| ([A-Z][^|]*\.) \| ([^|]*\.) \|$", re.MULTILINE)  # of the page's table
_WORDS = [  # "cooks" becomes "grillt"; what else the model knows stays
    *_ROW.findall(_PAGE),
    ("The old man cooks in the kitchen.", "Der alte Mann grillt in der Küche."),
    ("A happy teacher cooks today.", "Ein glücklicher Lehrer grillt heute."),
    ("The friendly women cook.", "Die freundlichen Frauen grillen."),
    ("My sister sings in the garden.", "Meine Schwester singt im Garten."),
    ("The old man sings today.", "Der alte Mann singt heute."),
    ("A happy teacher sings in the kitchen.", "Ein glücklicher Lehrer singt in der Küche."),
    ("The friendly women sing.", "Die freundlichen Frauen singen."),
]
_DEV = [
    ("A brother cooks today.", "Ein Bruder grillt heute."),
    ("The young women cook the soup.", "Die jungen Frauen grillen die Suppe."),
    ("My brother sings.", "Mein Bruder singt."),
]


def _write(folder: Path, split: str, pairs: list[tuple[str, str]]) -> None:
    folder.mkdir(exist_ok=True)
    for language, side in zip(("en", "de"), zip(*pairs, strict=True), strict=True):
        (folder / f"{split}.{language}").write_text("".join(f"{line}\n" for line in side), encoding="utf-8")


def _read(path: Path) -> list[str]:
    return path.read_text("utf-8").split("\n")[:-1]


def test_the_page_runs_as_it_is_written(tmp_path: Path) -> None:
    assert len(_WORDS) == 10
    shutil.copytree(GOLDEN / "toy", tmp_path / "opus-en-de")
    (tmp_path / "opus-en-de" / "LICENSE").write_text("Creative Commons\n\nAttribution 4.0 International\n")
    _write(tmp_path / "words", "train", _WORDS)
    _write(tmp_path / "words", "dev", _DEV)
    problem = registry.problem("toy_ende")
    for split, count in (("train", 400), ("dev", 40)):
        _write(tmp_path / "corpus", split, [*itertools.islice(problem.samples(split), count)])
    printed = []
    for name, *flags in _COMMANDS:
        module = commands.module_of(name.removeprefix("t2t-lite-"))
        done = commands.run(f"t2t_lite.cli.{module}", *flags, cwd=tmp_path)
        assert done.returncode == 0, done.stderr.decode()
        printed.append(done.stdout.decode())
    assert [command[0].removeprefix("t2t-lite-") for command in _COMMANDS] == [
        *("import", "decoder", "trainer", "decoder", "eval", "trainer", "eval", "exporter", "decoder")
    ]
    assert "learning_rate=0.0003, warmup_steps=16000, ... (of the hparams set marian_base;" in printed[0]
    wanted = [target for _, target in _DEV]
    before, after = _read(tmp_path / "before.de"), _read(tmp_path / "after.de")
    assert sum(map(str.__eq__, before, wanted)) <= 1
    assert not any("grill" in line for line in before)
    assert after == wanted
    assert _read(tmp_path / "served.de") == wanted
    (export,) = (tmp_path / "runs" / "words" / "export").glob("[0-9]*")
    card = json.loads((export / "assets" / "model_card.json").read_text("utf-8"))
    readme = (export / "README.md").read_text("utf-8")
    assert (card["fine_tuned_from"]["toolkit"], "imported" in card) == ("Marian", False)
    assert "fine-tuned from an imported one. The licence that that one came with, cc-by-4.0," in card["licence"]
    assert "\nlicense: cc-by-4.0\n" in readme
    assert "- Fine-tuned from a model of: Marian\n" in readme
    assert (export / "LICENSE").read_bytes() == (tmp_path / "opus-en-de" / "LICENSE").read_bytes()
    scores = [json.loads(line) for line in _read(tmp_path / "runs" / "corpus" / "metrics.jsonl")]
    losses = [row["dev_loss"] for row in scores if "dev_loss" in row]
    assert min(losses) == losses[-1] or min(losses) < losses[0]
    assert max(row["loss"] for row in scores if "loss" in row) < 20  # PAD, which has no probability, adds little
