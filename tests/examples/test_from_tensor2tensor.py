"""The commands, flags and settings on the page for tensor2tensor users, docs/from_tensor2tensor.md, all exist."""

import dataclasses
import importlib
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from t2t_lite import config, other_names, problem, registry
from t2t_lite.importers.t2t_hparams import HEADS
from t2t_lite.metrics.names import METRICS
from t2t_lite.models.transformer_hparams import TransformerHParams
from tests.commands import module_of

ROOT = Path(__file__).resolve().parents[2]
PATH = ROOT / "docs" / "from_tensor2tensor.md"
PAGE = PATH.read_text(encoding="utf-8")
OURS = "t2t-lite"  # the column's title


def _tables() -> list[tuple[str, list[str]]]:
    """Returns (last heading before the table, cells of our column) for each table."""
    tables: list[tuple[str, list[str]]] = []
    heading, column = "", None
    for line in PAGE.split("\n"):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if line.startswith("#"):
            heading = line.lstrip("# ")
        if not cells:
            column = None
        elif column is None:
            column = cells.index(OURS)
            tables.append((heading, []))
        elif not set(cells[0]) <= set("-"):
            tables[-1][1].append(cells[column])
    return tables


def _spans(text: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", text)


TABLES = _tables()
CELLS = [cell for _, cells in TABLES for cell in cells]
COMMAND_LINES = re.findall(r"^t2t-lite-.*(?:\\\n.*)*", "\n".join(re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)))
# Running text is about both projects, so only spans that start with one of our commands are ours.
IN_TEXT = [span for span in _spans(PAGE) if span.startswith("t2t-lite-")]
FLAGGED = sorted({span for cell in CELLS for span in _spans(cell) if "--" in span} | set(COMMAND_LINES) | set(IN_TEXT))


def _flags(command: str) -> set[str]:
    """Returns all flags of one of our commands."""
    module = importlib.import_module(f"t2t_lite.cli.{module_of(command.removeprefix('t2t-lite-'))}")
    return set(module.make_parser().known_flags())


def _commands() -> list[str]:
    listed = re.search(r"^COMMANDS = \((.*?)\)$", (ROOT / "setup.py").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert listed is not None
    return [f"t2t-lite-{name}" for name in re.findall(r'"([\w-]+)"', listed[1])]


def _column(heading: str, table: int = 0) -> list[str]:
    return [cells for name, cells in TABLES if name == heading][table]


def test_the_page_is_read_as_it_is_meant() -> None:
    assert len(TABLES) >= 10
    assert all(cells for _, cells in TABLES)
    assert len(FLAGGED) >= 40
    assert len(COMMAND_LINES) == 1


def test_each_command_has_its_place_on_the_page() -> None:
    named = set(re.findall(r"t2t-lite-[a-z][a-z-]*", PAGE))
    assert named == set(_commands())


def test_flags_exist() -> None:
    flags = {command: _flags(command) for command in _commands()}
    missing = []
    for span in FLAGGED:
        command = re.match(r"t2t-lite-[\w-]+", span)
        known = flags[command[0]] if command else set().union(*flags.values())
        missing += [f"{flag} in {span!r}" for flag in re.findall(r"(?<!\S)--\w+", span) if flag not in known]
    assert missing == []


@pytest.mark.parametrize(
    ("flag", "table"),
    [("problem", registry.PROBLEMS), ("hparams_set", registry.HPARAMS), ("model", registry.MODELS)],
)
def test_registered_names_exist(flag: str, table: Any) -> None:
    spans = [span for span in FLAGGED if not span.startswith("t2t-lite-query")]  # its --model names the server's model
    for name in sorted({name for span in spans for name in re.findall(rf"--{flag}=(\w+)", span)}):
        table.check(name)


def test_hparams_exist_and_take_the_value() -> None:
    texts = {text for span in FLAGGED for text in re.findall(r"--hparams=(\S*\w)", span)} - {"a=1,b=x"}
    texts |= {span for span in _spans(PAGE) if re.match(r"(batch_tokens|label_smoothing_over)=", span)}
    assert len(texts) >= 8
    for text in texts:
        config.override(TransformerHParams(), re.sub(r"\bN\b", "1", text))


def test_hparams_names_exist() -> None:
    fields = {field.name for field in dataclasses.fields(TransformerHParams)}
    names = [name for cell in _column("Recipes", 1) for name in _spans(cell)]
    names = [name for name in names if not name.startswith("--")]  # flags are tested with those of the commands
    assert len(names) >= 20
    assert set(names) <= fields


def test_names_of_the_problem_class_exist() -> None:
    names = [name.partition("(")[0] for cell in _column("The same class, there and here") for name in _spans(cell)]
    names = [name for name in names if not name.startswith("--")]  # flags are tested with those of the commands
    assert len(names) >= 6
    assert [name for name in names if not hasattr(problem.Problem, name)] == []
    [metrics] = [line for line in PAGE.split("\n") if line.startswith("| `eval_metrics`")]
    assert set(_spans(metrics.rsplit("|", 2)[1])) == set(METRICS.names())


def _rows() -> list[tuple[list[str], str]]:
    """Returns (tensor2tensor's names, our cell) per row of the tables of flags, problems, recipes and decoding."""
    rows, heading = [], ""
    for line in PAGE.split("\n"):
        heading = line.lstrip("# ") if line.startswith("#") else heading
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) >= 2 and heading in ("Flags", "Problems", "Recipes", "Decoding", "BLEU", "Serving"):
            names = [re.split(r'="?\w', span)[0] for cell in cells[:1] for span in _spans(cell)]
            rows.append((names, " ".join(cells[1:])))
    return rows


@pytest.mark.parametrize("table", ["flag", "problem", "hparams set", "setting"])
def test_the_messages_of_the_commands_say_what_the_page_says(table: str) -> None:
    """Each answer of the commands is on the page, in the row of the name or of the name's end, such as `h4`.

    Sets of the Transformer without a counterpart are in the row of one of them.
    """
    missing = []
    for name, (_, ours, _) in other_names.names(table).items():
        if name in HEADS and not ours:
            name = "transformer_base_v2"
        cells = [cell for names, cell in _rows() if any(name == n or name.endswith(f"_{n.lstrip('_')}") for n in names)]
        word = re.compile(rf"(?<!\w){re.escape(ours or 'none')}(?!\w)")
        if not any(word.search(cell) for cell in cells):
            missing.append(f"{name}: {ours or 'none'}")
    assert missing == []


def test_the_commands_answer_the_names_of_the_page() -> None:
    answered = set().union(*map(other_names.names, ("flag", "problem", "hparams set", "setting")))
    ours = {field.name for field in dataclasses.fields(TransformerHParams)}
    ours |= set().union(*(_flags(command) for command in _commands()))
    full = re.compile(r"--[a-z]\w+|(?:transformer|translate|layer|learning|optimizer|attention|num)_\w+")
    names = {name for row, _ in _rows() for name in row if full.fullmatch(name)}
    assert len(names) >= 50
    assert names - answered - ours == set()


def test_the_class_on_the_page_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry.PROBLEMS, "_things", dict(registry.PROBLEMS._things))
    folder = tmp_path / "ported"
    folder.mkdir()
    [code] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (folder / "spoken_numbers_of_the_page.py").write_text(code, "utf-8")
    monkeypatch.setattr(sys, "path", list(sys.path))
    registry.load_plugins(str(folder))
    (tmp_path / "dev.tsv").write_bytes("seven\t7\nforty two\u2028\t42\n".encode())
    monkeypatch.setenv("NUMBERS", str(tmp_path))
    assert list(registry.problem("spoken_numbers").samples("dev")) == [("seven", "7"), ("forty two\u2028", "42")]
