"""User mistakes: each quickly gives an exit status and a message that says what to do, without a traceback."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.commit

Run = Callable[..., subprocess.CompletedProcess[str]]

TOY = ("trainer", "--problem=toy_ende", "--output_dir={new}")
OWN = ("trainer", "--problem=text2text", "--languages=en-de", "--hparams_set=tiny", "--output_dir={new}")

# name: (command and flags, exit status, part of the message); none of these commands loads TensorFlow.
# {new} is a folder that does not exist; {corpus} and {run} are an intact corpus and an intact run.
WRONG: dict[str, tuple[tuple[str, ...], int, str]] = {
    "problem": (("trainer", "--problem=toy_endee", "--output_dir={new}"), 2, "There is no problem called 'toy_endee'. "
                "Did you mean 'toy_ende'"),
    "hparams set": ((*TOY, "--hparams_set=tinny"), 2, "There is no hparams set called 'tinny'. Did you mean 'tiny' "
                    "or 'rnn_tiny' or 'moe_tiny'?"),
    "model": ((*TOY, "--model=transfomer"), 2, "There is no model called 'transfomer'. Did you mean 'transformer' or"),
    "hparam": ((*TOY, "--hparams=dropuot=0.2"), 2, "there is no 'dropuot'. Did you mean 'dropout'"),
    "no steps": ((*TOY, "--train_steps=0"), 2, "train_steps=0 must be from 1 to"),
    "flag": ((*TOY, "--hparam_set=tiny"), 2, "there is no flag --hparam_set. Did you mean '--hparams_set'"),
    "no problem": (("trainer", "--output_dir={new}"), 2, "Give --problem=NAME; t2t-lite-trainer --registry_help lists "
                   "them. ({new} holds no run to resume.)"),
    "no output_dir": (("trainer", "--problem=toy_ende"), 2, "give --output_dir=DIR, where the run is written"),
    "output_dir a file": (("trainer", "--problem=toy_ende", "--output_dir={corpus}/test.en"), 2,
                          "--output_dir={corpus}/test.en: {corpus}/test.en is not a folder."),
    "output_dir not UTF-8": (("trainer", "--problem=toy_ende", "--output_dir={new}\udcfc"), 2,
                             "TensorFlow takes only paths that are UTF-8."),
    "usr_dir": ((*TOY, "--usr_dir={new}"), 2, "--usr_dir: {new} is not a folder."),
    "option of another problem": ((*TOY, "--languages=en-de"), 2, "The problem 'toy_ende' has no option 'languages'"),
    "no source_dir": (OWN, 2, "The problem 'text2text' needs --source_dir."),
    "source_dir": ((*OWN, "--source_dir={new}/x"), 1, "{new}/x is not a folder; --source_dir is the folder that holds "
                   "your text files."),
    "languages": (("trainer", "--problem=text2text", "--source_dir={corpus}", "--languages=en", "--output_dir={new}"),
                  2, "--languages=en is not two different language codes"),
    "files of a language": (("trainer", "--problem=text2text", "--source_dir={corpus}", "--languages=en-fr",
                             "--output_dir={new}"), 1, "{corpus} has train.en but not train.fr (nor train.fr.gz)"),
    "metric": ((*OWN, "--source_dir={corpus}", "--metric=blue"), 2, "There is no metric called 'blue'"),
    "other data": ((*OWN, "--source_dir={corpus}", "--vocab_size=300", "--data_dir={run}/data"), 2,
                   "{run}/data/text2text was prepared with other settings:\n  vocab_size: 400 -> 300\nGive another "
                   "--data_dir"),
    "other dropout": (("trainer", "--output_dir={run}", "--hparams=dropout=0.2"), 2, "{run} holds a run that was "
                      "started with other settings:\n  dropout: 0.0 -> 0.2\nResume with the old settings, or give"),
    "describe": (("trainer", "--describe", "--hparams_set=base"), 2, "--describe needs --output_dir=DIR (or "
                 "--data_dir=DIR), where the prepared data is or will be; or --vocab_size=N, to do without data."),
    "datagen": (("datagen", "--problem=toy_ende"), 2, "the following arguments are required: --data_dir"),
    "decoder's input": (("decoder", "--output_dir={run}", "--input={new}"), 1, "{new}: there is no such file."),
    "decoder's output": (("decoder", "--output_dir={run}", "--output={corpus}/test.en/x"), 2, "is not a folder."),
    "avg without a run": (("avg_checkpoints", "--output_dir={new}"), 1, "{new} holds no run (no hparams.json)."),
    "avg of names": (("avg_checkpoints", "--output_dir={run}", "--steps=best"), 2, "'best' is not a list of different "
                     "steps, such as 1000,1100,1200"),
}  # fmt: skip


# Runs the commands of a JSON list in order; prints status, output and errors of each, and the imported modules.
ALL = """
import contextlib, importlib, io, json, sys
answers = []
for command, *flags in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = importlib.import_module(f"t2t_lite.cli.{command}").main(flags)
        except SystemExit as end:
            status = end.code
    answers.append([status, out.getvalue(), err.getvalue()])
print(json.dumps({"answers": answers, "imported": sorted({name.partition(".")[0] for name in sys.modules})}))
"""


@pytest.fixture(scope="module")
def answers(corpus: Path, trained: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Name of a mistake -> places, status, output, errors. One process makes all mistakes and loads nothing heavy."""
    places = {
        name: {"corpus": corpus, "run": trained[0], "new": tmp_path_factory.mktemp("x") / "new"} for name in WRONG
    }
    wrong = [[part.format(**places[name]) for part in line] for name, (line, _, _) in WRONG.items()]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", ALL]
    done = subprocess.run(
        command, input=json.dumps(wrong), env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert not {"tensorflow", "keras", "jax", "tensorflow_text"} & set(found["imported"])
    return {name: (places[name], *each) for name, each in zip(WRONG, found["answers"], strict=True)}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_reported_at_once(name: str, answers: dict[str, Any]) -> None:
    _, wanted, message = WRONG[name]
    places, status, out, err = answers[name]
    assert (status, out) == (wanted, ""), err
    assert message.format(**places) in err
    assert "error: " in err
    assert "Traceback" not in err
    assert not (places["new"] / "hparams.json").exists()  # otherwise the corrected command would find a run there


def faulty(corpus: Path, folder: Path, name: str, data: bytes | None) -> Path:
    """Copies the corpus with one file replaced by `data`, or removed if `data` is None; returns the copy."""
    shutil.copytree(corpus, folder)
    (folder / name).unlink()
    if data is not None:
        (folder / name).write_bytes(data)
    return folder


FAULTS = {
    "unequal": ("test.de", b"eins\nzwei\n", "/test.en has 16 lines, but ", "/test.de has 2."),
    "empty": ("valid.en", b"", "/valid.en is empty; it should have one sentence per line."),
    "undecodable": ("valid.de", b"gut\nM\xfcll\n" + b"gut\n" * 10, "/valid.de, line 2: byte 0xfc at column 2 is not"),
    "cut off": ("train.de.gz", b"\x1f\x8b\x08\x00", "/train.de.gz is not a whole gzip file"),
    "one side": ("valid.en", None, " has valid.de but not valid.en (nor valid.en.gz): both sides are needed"),
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("command", ["trainer", "datagen"])
def test_a_fault_in_the_text_is_reported_with_file_and_line(
    command: str, name: str, run: Run, corpus: Path, tmp_path: Path
) -> None:
    file, data, *messages = FAULTS[name]
    source = faulty(corpus, tmp_path / "faulty", file, data)
    flags = ["--problem=text2text", f"--source_dir={source}", "--languages=en-de", "--vocab_size=300"]
    flags.append(f"--output_dir={tmp_path / 'run'}" if command == "trainer" else f"--data_dir={tmp_path / 'data'}")
    done = run(command, *flags, status=1, quick=True)
    assert done.stderr.startswith(f"error: {source}")
    for message in messages:
        assert message in done.stderr
    left = tmp_path / ("run/data" if command == "trainer" else "data")
    assert not (left / "text2text").exists()


def test_a_corpus_without_dev(run: Run, corpus: Path, tmp_path: Path) -> None:
    source = faulty(corpus, tmp_path / "faulty", "valid.en", None)
    (source / "valid.de").unlink()
    flags = ["--problem=text2text", f"--source_dir={source}", "--languages=en-de", f"--output_dir={tmp_path / 'run'}"]
    done = run("trainer", *flags, status=1, quick=True)
    assert f"{source} has no dev files. Looked for dev.en and dev.de or val.en and val.de or valid.en" in done.stderr
    assert "found test.de, test.en, train.de.gz, train.en." in done.stderr


@pytest.mark.nightly
def test_a_start_that_came_to_nothing_may_be_repeated_with_other_settings(
    run: Run, corpus: Path, trained: tuple[Path, str], tmp_path: Path
) -> None:
    """Settings may change until there is a checkpoint, as nothing is lost; a failed start must not prevent that."""
    shutil.copytree(trained[0], tmp_path / "run", ignore=shutil.ignore_patterns("checkpoints", "best", "averaged"))
    flags = [f"--output_dir={tmp_path / 'run'}", "--hparams=d_model=32,num_layers=1,train_steps=2,beam_size=1"]
    done = run("trainer", *flags, f"--warm_start_from={tmp_path / 'nothing'}", status=1)
    assert done.stderr == f"error: There is no run or checkpoint at {tmp_path / 'nothing'}.\n"
    done = run("trainer", flags[0], "--hparams=d_model=16,num_layers=1,num_heads=1,train_steps=2,beam_size=1")
    assert "step 2: dev loss " in done.stdout
    assert '"d_model": 16' in (tmp_path / "run" / "hparams.json").read_text()


def test_checkpoints_that_are_not_there_or_damaged(run: Run, trained: tuple[Path, str], tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    shutil.copytree(trained[0], run_dir)
    decode = ("decoder", f"--output_dir={run_dir}")
    done = run(*decode, "--checkpoint=10", status=2)
    assert f"There is no checkpoint '10' in {run_dir}. Did you mean '120' or '100'?" in done.stderr
    assert "There are: averaged, best, newest, 40, 60, 80, 100, 120." in done.stderr

    data = run_dir / "checkpoints" / "model-80.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[: data.stat().st_size // 2])
    done = run(*decode, "--checkpoint=80", input=b"A test.\n", status=1)
    assert f"error: The checkpoint {run_dir}/checkpoints/model-80 cannot be read: it is damaged" in done.stderr
    assert "Choose another with --checkpoint" in done.stderr

    for kind in ("checkpoints", "best", "averaged"):
        shutil.rmtree(run_dir / kind)
    done = run("eval", f"--output_dir={run_dir}", status=1)
    assert f"{run_dir} holds no checkpoint; train first: t2t-lite-trainer --output_dir={run_dir}" in done.stderr
