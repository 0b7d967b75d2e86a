"""Data that changed after preparation: every command reports it; a run continues with them only on request."""

import dataclasses
import re
import shutil
from pathlib import Path

import pytest

from t2t_lite.runs.run_dir import read_run, write_run
from tests.system.conftest import Run

pytestmark = pytest.mark.nightly

CODE = '''
from t2t_lite import config, problem, registry


@registry.register_problem
class Echo(problem.Problem):
    """Words to the same in capitals."""

    vocab_size = 40

    def splits(self):
        return ("train", "dev")

    def samples(self, split):
        for i in range(60) if split == "train" else range(61, 66):
            yield f"line {i} of them", f"LINE {i} OF THEM"


@registry.register_hparams
def echo_tiny():
    """A recipe beside it."""
    return config.replace(registry.hparams("tiny"), num_layers=1, d_model=32, d_ff=32, num_heads=2, batch_tokens=256)
'''


def test_the_code_of_a_problem(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "mine" / "echo_problem.py"
    file.parent.mkdir()
    file.write_text(CODE)
    datagen = ["datagen", f"--usr_dir={file.parent}", "--problem=echo", f"--data_dir={tmp_path}/data"]
    assert run(*datagen, quick=True).stderr == ""
    unknown = "echo does not name its source files (source_files), so they were not compared.\n"
    used = rf"Data prepared on \d{{4}}-\d\d-\d\d \(60 pairs\) in {tmp_path}/data/echo\."
    assert re.fullmatch(f"{used} {re.escape(unknown)}", run(*datagen, quick=True).stderr)
    # The code changes but not the pairs: the pairs are compared, once.
    file.write_text(CODE.replace("num_layers=1", "num_layers=2"))
    compared = "echo may give other text than when its data were prepared; all of it is compared.\n"
    assert re.fullmatch(f"{compared}{used}\n", run(*datagen, quick=True).stderr)
    assert compared not in run(*datagen, quick=True).stderr
    # Other text, in one split.
    file.write_text(CODE.replace("LINE {i}", "LINE {i + (split == 'train')}"))
    done = run(*datagen, status=1, quick=True)
    assert done.stderr == (
        f"{compared}error: {tmp_path}/data/echo was prepared from other data:\n"
        "  the code of echo, or a Python file beside it\n"
        "  train: it holds other text\n"
        "Give another --data_dir, or go back to the old data; --prepare_again prepares it again.\n"
    )
    assert "LINE 60" not in (tmp_path / "data" / "echo" / "dev.target.txt").read_text()
    done = run(*datagen, "--prepare_again", quick=True)
    assert re.search(rf"^{compared}{tmp_path}/data/echo was prepared from other data:\n  the code of echo", done.stderr)
    assert "train: 60 pairs" in done.stdout
    # Once the problem names its source files, they are compared too.
    (tmp_path / "text").write_text("x")
    named = f"    def source_files(self, split):\n        return [{str(tmp_path / 'text')!r}]\n\n    def splits"
    file.write_text(file.read_text().replace("    def splits", named))
    assert run(*datagen, quick=True).stderr.startswith(compared)
    (tmp_path / "text").write_text("xy")
    assert f"train: {tmp_path}/text has changed\n" in run(*datagen, status=1, quick=True).stderr


def test_a_run_is_not_continued_on_other_data(
    run: Run, corpus: Path, trained: tuple[Path, str], tmp_path: Path
) -> None:
    run_dir, source = tmp_path / "run", tmp_path / "moved"
    shutil.copytree(trained[0], run_dir)
    shutil.copytree(corpus, source)
    spec = read_run(run_dir)  # as if the run and its corpus were moved to another machine
    write_run(run_dir, dataclasses.replace(spec, options={**spec.options, "source_dir": str(source)}))
    goes_on = ["trainer", f"--output_dir={run_dir}", "--hparams=beam_size=1,train_steps=121,average_checkpoints=1"]
    with open(source / "valid.en", "a", encoding="utf-8") as file:
        file.write("One more.\n")
    with open(source / "valid.de", "a", encoding="utf-8") as file:
        file.write("Noch eine.\n")
    done = run(*goes_on, status=1, quick=True)
    assert (
        f"error: {run_dir}/data/text2text was prepared from other data:\n  dev: {source}/valid.en has changed"
        in done.stderr
    )
    # Prepared again by another command, with the same vocabulary: the run still knows its old training data.
    flags = ["--problem=text2text", f"--source_dir={source}", "--languages=en-de", "--vocab_size=400"]
    run("datagen", *flags, f"--data_dir={run_dir / 'data'}", "--force", quick=True)
    done = run(*goes_on, status=1, quick=True)
    assert f"{run_dir}/data/text2text does not hold the data that {run_dir} was trained on" in done.stderr
    assert f"--warm_start_from={run_dir} --vocabulary={run_dir}" in done.stderr
    done = run(*goes_on, "--prepare_again")
    assert f"{run_dir} resumes with other data than its checkpoints were trained on" in done.stderr
    line = "The data are other data now: best weights and early stopping go by the scores from here on only."
    assert done.stdout.startswith(f"{line}\nResuming from step 120 of 121.\n")
    assert re.search(r"\nstep 121: dev loss .* \(best so far\)\n", done.stdout)
    # With another vocabulary, the ids of dev mean other pieces. Without the check they would be scored silently.
    flags[-1] = "--vocab_size=300"
    run("datagen", *flags, f"--data_dir={run_dir / 'data'}", "--force", quick=True)
    done = run("eval", f"--output_dir={run_dir}", "--split=dev", status=1)
    assert f"The vocabulary in {run_dir}/data/text2text is not the one that {run_dir} was trained with" in done.stderr
    done = run("datagen", *flags[:-1], f"--data_dir={run_dir / 'data'}", f"--vocabulary={run_dir}", status=2)
    assert "  vocabulary: 'checksum " in done.stderr
    run(*goes_on, "--prepare_again")  # keeps the run's vocabulary
    assert run(*goes_on).stdout.startswith(f"{run_dir} is at step 121 of 121: there is nothing to train.\n")
