"""Options of the search: commands, Python, an export and an ensemble give the same outputs; the rest is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

import t2t_lite
from t2t_lite.api.load import LoadedRun
from t2t_lite.errors import UsageError
from tests import commands
from tests.api.conftest import LINES

pytestmark = pytest.mark.nightly

BANNED = ["Morgen", "Sie"]
CONSTRAINTS = [["Hund"], [], ["Katze", "der Hund"], ["日本", "Frauen"]]


def _write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def _decode(model: str, *flags: str) -> list[dict[str, Any]]:
    done = commands.run("t2t_lite.cli.decoder", model, *flags, "--json", input="\n".join(LINES).encode())
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.decode().splitlines()[: len(LINES)]]


def _refused(*flags: str) -> str:
    done = commands.run("t2t_lite.cli.decoder", *flags)
    assert done.returncode == 2
    return done.stderr.decode()


OPTIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "coverage": ({"coverage_penalty": 0.4}, {}),
    "diverse": ({"beam_size": 6, "beam_groups": 3, "diversity_strength": 2.0}, {}),
    "both": ({"beam_groups": 2, "coverage_penalty": 0.2, "no_repeat_ngram_size": 2}, {"banned_words": BANNED}),
    "banned": ({}, {"banned_words": BANNED}),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_command_python_export_and_ensemble(name: str, run: LoadedRun, folder: Path, tmp_path: Path) -> None:
    search, lists = OPTIONS[name]
    flags = [f"--{field}={value}" for field, value in search.items()]
    flags += [f"--{field}={_write(tmp_path / field, words)}" for field, words in lists.items()]
    number = search.get("beam_size", 4)
    found = run.nbest(LINES, number, **search, **lists)
    texts = [[one.text for one in row] for row in found]
    plain = run.nbest(LINES, number, beam_size=number)
    usual = [[one.text for one in row] for row in plain]
    assert found != plain
    assert run.nbest(LINES, number, beam_size=number) == plain
    if lists:
        assert any(word in text for row in usual for text in row for word in BANNED)
        assert not any(word in text for row in texts for text in row for word in BANNED)

    def same(rows: list[dict[str, Any]]) -> None:
        assert [[one["text"] for one in row["outputs"]] for row in rows] == texts
        got, wanted = ([one["score"] for row in rows for one in row["outputs"]], [h.score for r in found for h in r])
        assert got == pytest.approx(wanted, abs=2e-3)

    same(_decode(f"--output_dir={folder}", f"--nbest={number}", *flags))
    done = commands.run(
        "t2t_lite.cli.exporter", f"--output_dir={folder}", f"--export_dir={tmp_path / 'export'}", *flags
    )
    assert done.returncode == 0, done.stderr
    same(_decode(f"--saved_model={tmp_path / 'export'}", f"--nbest={number}"))
    assert [[h.text for h in row] for row in t2t_lite.load(tmp_path / "export").nbest(LINES, number)] == texts
    twice = t2t_lite.load([folder, folder])  # an ensemble of equal members computes what one does
    assert [[one.text for one in row] for row in twice.nbest(LINES, number, **search, **lists)] == texts
    for other in ("ctranslate2", "marian", "huggingface"):
        done = commands.run("t2t_lite.cli.exporter", f"--output_dir={folder}", f"--format={other}", *flags)
        assert done.returncode == 2
        assert "cannot be given" in done.stderr.decode()
        assert "export with --format=saved_model" in done.stderr.decode()


def test_constraints(run: LoadedRun, folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for beam in (1, 4, 7):
        found = run.nbest(LINES, 1, beam_size=beam, constraints=CONSTRAINTS)
        assert [list(best.unmet) for [best] in found] == [[], [], [], ["日本"]]
        assert all(p in best.text for [best], row in zip(found, CONSTRAINTS, strict=True) for p in row if p != "日本")
        assert found[1][0].text == ""
    assert "The outputs of 1 line lack a constraint, such as '日本': it has symbols that" in caplog.text
    file = _write(tmp_path / "constraints", ["\t".join(row) for row in CONSTRAINTS])
    lines = _write(tmp_path / "lines", LINES)
    rows = _decode(f"--output_dir={folder}", f"--constraints={file}", f"--input={lines}", "--beam_size=7")
    assert [row["outputs"][0]["text"] for row in rows] == [best.text for [best] in found]
    assert [row["outputs"][0].get("unmet_constraints", []) for row in rows] == [[], [], [], ["日本"]]
    [both] = run.nbest(LINES[:1], 4, constraints=[["Hund"]], prefixes=["Die"], banned_words=BANNED)
    assert all(one.text.startswith("Die") and "Hund" in one.text and "Morgen" not in one.text for one in both)
    assert [best.unmet for [best] in run.nbest(LINES[:1], 1, constraints=[["Hund"]], banned_words=["Hund"])] == [
        ("Hund",)
    ]
    none: list[list[str]] = [[]] * len(LINES)
    assert run.translate(LINES, constraints=none) == run.translate(LINES)
    twice = t2t_lite.load([folder, folder])
    assert twice.translate(LINES, beam_size=7, constraints=CONSTRAINTS) == [best.text for [best] in found]


def test_what_does_not_go_together(run: LoadedRun, folder: Path, export: Path, tmp_path: Path) -> None:
    file, model = _write(tmp_path / "constraints", ["x"]), f"--output_dir={folder}"
    for flags, message in (
        ([model, f"--constraints={file}", "--split_sentences"], "--constraints does not go with --split_sentences"),
        ([model, f"--constraints={file}", "--sampler=random"], "--constraints is of beam search, and does not go with"),
        ([model, "--coverage_penalty=0.2", "--sampler=random"], "--coverage_penalty is of beam search"),
        ([model, "--beam_size=4", "--beam_groups=3"], "beam_groups=3 groups cannot share beam_size=4 equally"),
        ([model, "--diversity_strength=1"], "diversity_strength=1.0 has no effect with beam_groups=1"),
        ([f"--saved_model={export}", "--replace_unk"], "--replace_unk goes with --output_dir"),
        ([f"--saved_model={export}", f"--constraints={file}"], "--constraints goes with --output_dir"),
    ):
        assert message in _refused(*flags)
    line: dict[str, Any] = {"lines": LINES[:1], "n": 1, "constraints": [["Hund"]]}
    with pytest.raises(UsageError, match="Constraints are .* do not go with a sampler"):
        run.nbest(**line, sampler="random")
    with pytest.raises(UsageError, match="Constraints are .* do not go with beam_groups"):
        run.nbest(**line, beam_groups=2)
    with pytest.raises(UsageError, match="An export has no search with constraints"):
        t2t_lite.load(export).nbest(**line)
    with pytest.raises(UsageError, match="banned_words: the search of an export is fixed"):
        t2t_lite.load(export).translate(LINES, banned_words=["Hund"])
    with pytest.raises(UsageError, match="Of 4 lines, 1 have a list of constraints"):
        run.translate(LINES, constraints=[["Hund"]])
    with pytest.raises(UsageError, match="coverage_penalty and decode=mbr both rank"):
        run.translate(LINES, coverage_penalty=0.2, decode="mbr")
    assert len(run.translate(LINES, sampler="random", banned_words=["Hund"], replace_unk=True)) == len(LINES)
