"""t2t-lite-import of a small made-up checkpoint: refused flags, a kill during import, continued training."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.cli import importer
from t2t_lite.data.store import open_store
from t2t_lite.ids import EOS
from t2t_lite.importers import compare_outputs, tensor2tensor
from t2t_lite.importers.vocabularies import SubwordVocabulary
from t2t_lite.runs.checkpoint import list_checkpoints, variable_key
from t2t_lite.runs.open_run import open_run
from tests.importers import t2t_golden
from tests.importers.made_up import HPARAMS, save, variables
from tests.subword_files import PIECES, file_of
from tests.system.conftest import Run, write_lines

pytestmark = pytest.mark.commit

LINES = ["the cats, un-catting 10 ä.", "in it's", "a", "unknown 日"]
EXTRA = 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tensor2tensor training, with a vocabulary file. Random weights make the outputs differ."""
    folder = tmp_path_factory.mktemp("trained_there")
    arrays = {name: 2 * array for name, array in variables(rows=len(PIECES)).items()}
    save(folder / "model.ckpt-100", arrays)
    (folder / "vocab.subwords").write_bytes(file_of(PIECES))
    return folder


def _flags(folder: Path, output_dir: Path) -> list[str]:
    return [f"--checkpoint={folder}", f"--vocabulary={folder}/vocab.subwords", f"--output_dir={output_dir}"]


@pytest.fixture(scope="module")
def imported(run: Run, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output_dir = tmp_path_factory.mktemp("made_up") / "a run"
    done = run("importer", *_flags(folder, output_dir), f"--extra_length={EXTRA}", "--target_space_id=3")
    assert f"\nNext: t2t-lite-decoder --output_dir='{output_dir}' --input=FILE\n" in done.stdout
    assert f"\nor:   t2t-lite-exporter --output_dir='{output_dir}'   (" in done.stdout
    return output_dir


def _greedy(folder: Path, vocabulary: SubwordVocabulary, line: str) -> list[int]:
    """Greedy decoding in float64 from the equations, position by position."""
    forward = t2t_golden.reference_of(tensor2tensor.read([folder], target_space_id=3))
    source = np.array([[*vocabulary.encode(line), EOS]])
    ids: list[int] = []
    while len(ids) < source.shape[1] + EXTRA:
        logits = forward(source, np.array([[*ids, EOS]]))[0, -1]
        logits[0] = -np.inf  # PAD is never chosen here
        ids.append(int(logits.argmax()))
        if ids[-1] == EOS:
            break
    return ids


def test_it_computes_what_the_equations_say(run: Run, folder: Path, imported: Path) -> None:
    vocabulary = SubwordVocabulary(file_of(PIECES))
    lines = "".join(f"{line}\n" for line in LINES).encode()
    done = run("decoder", f"--output_dir={imported}", "--beam_size=1", input=lines)
    wanted = [vocabulary.decode(_greedy(folder, vocabulary, line)).replace("\n", " ") for line in LINES]
    assert done.stdout.removesuffix("\n").split("\n") == wanted
    assert len(set(wanted)) > 1


def test_a_run_that_is_there_is_left_alone(run: Run, folder: Path, imported: Path) -> None:
    before = {path: path.read_bytes() for path in imported.rglob("*") if path.is_file()}
    done = run("importer", *_flags(folder, imported), status=2)
    assert f"error: --output_dir={imported} is there already; an import writes a new folder." in done.stderr
    assert before == {path: path.read_bytes() for path in imported.rglob("*") if path.is_file()}


def test_it_has_no_data(run: Run, imported: Path) -> None:
    """Each command that needs data says what to do instead."""
    for command, *flags in (["decoder", "--split=test"], ["eval"]):
        assert (
            "A model that was imported has no data" in run(command, f"--output_dir={imported}", *flags, status=1).stderr
        )
    done = run("trainer", f"--output_dir={imported}", status=2)
    assert done.stderr.startswith("error: A model that was imported has no data of its own. Translate a file: ")


@pytest.mark.nightly
def test_a_killed_import_leaves_no_run(run: Run, folder: Path, tmp_path: Path) -> None:
    """The import is killed before it writes its last file; the next import removes the files it left."""
    output_dir = tmp_path / "run"
    code = (
        "import os, signal, sys\nfrom t2t_lite.cli import importer\nfrom t2t_lite.importers import run_folder\n"
        "run_folder.write_run = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\nimporter.main(sys.argv[1:])\n"
    )
    command = [sys.executable, "-c", code, *_flags(folder, output_dir)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, capture_output=True, check=False, timeout=120, env=environment)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not output_dir.exists()
    [left] = tmp_path.glob(".run.partial-*")
    assert (left / "vocabulary.subwords").is_file()
    run("importer", *_flags(folder, output_dir))
    assert (output_dir / "hparams.json").is_file()
    assert list(tmp_path.glob(".run.partial-*")) == []


def _damaged(copy: Path) -> None:
    data = copy / "model.ckpt-100.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:1000])


def _foreign(copy: Path) -> None:
    save(copy / "model.ckpt-200", {"bert/encoder/layer_0/kernel": np.ones(2, np.float32)})
    save(copy / "model.ckpt-100", {"bert/encoder/layer_0/kernel": np.ones(2, np.float32)})


def _more(copy: Path) -> None:
    arrays: dict[str, Any] = variables(rows=len(PIECES))
    save(copy / "model.ckpt-100", arrays | {"transformer/body/decoder/layer_0/moe/gate": np.ones(2, np.float32)})


def _local(copy: Path) -> None:
    (copy / "hparams.json").write_text(json.dumps(HPARAMS | {"self_attention_type": "local_unmasked"}))


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        (_damaged, 1, "cannot be read: it is damaged or incomplete"),
        (_foreign, 1, "model.ckpt-200 is no checkpoint of tensor2tensor's Transformer, "),
        (_more, 1, "variables that nothing here is like: body/decoder/layer_0/moe/gate"),
        (_local, 1, "This model cannot be expressed here: self_attention_type=local_unmasked"),
        (lambda copy: (copy / "hparams.json").unlink(), 1, "does not say how many heads its attention has"),
        (lambda copy: (copy / "vocab.subwords").write_bytes(file_of([*PIECES, "x_"])), 2, "of another model"),
        (lambda copy: (copy / "vocab.subwords").unlink(), 1, "there is no such vocabulary file"),
    ],
)
def test_what_is_refused_in_a_sentence(
    run: Run, folder: Path, tmp_path: Path, change: Any, status: int, said: str
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    change(copy)
    done = run("importer", *_flags(copy, tmp_path / "run"), status=status)
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir() if path.name not in ("copy", ".run.lock")] == []


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--check=x"], "error: --check=FILE, outputs of the other toolkit, goes with --check_input=FILE"),
        (["--languages=english"], "--languages=english is not two different language codes"),
        (["--length_penalty=11"], "length_penalty"),
    ],
)
def test_flags_that_are_refused(run: Run, folder: Path, tmp_path: Path, flags: list[str], said: str) -> None:
    assert said in run("importer", *_flags(folder, tmp_path / "run"), *flags, status=2).stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.nightly
def test_outputs_that_differ_are_counted(run: Run, folder: Path, imported: Path, tmp_path: Path) -> None:
    """One output is equal, one differs, one reached the length limit; a blank line is not compared."""
    done = run("decoder", f"--output_dir={imported}", input="".join(f"{line}\n" for line in LINES[:3]).encode())
    ours = done.stdout.split("\n")[:3]
    inputs = write_lines(tmp_path / "inputs", [*LINES[:3], ""])
    decodes = write_lines(tmp_path / "decodes", [ours[0], "ä", "a" * 100, "something"])
    flags = [f"--extra_length={EXTRA}", "--target_space_id=3", f"--check={decodes}", f"--check_input={inputs}"]
    said = run("importer", *_flags(folder, tmp_path / "run"), *flags).stdout
    assert f"1 of 3 outputs are equal to those of {decodes}\n" in said
    assert "others reached the longest length" in said
    assert "here; in tensor2tensor it depends on the batch\n" in said


def test_stopped_in_its_check_it_says_that_the_run_is_there(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(compare_outputs, "compare", stop)
    lines = write_lines(tmp_path / "lines", LINES)
    flags = [*_flags(folder, tmp_path / "run"), "--target_space_id=3", f"--check={lines}", f"--check_input={lines}"]
    assert importer.main(flags) == 130
    assert capsys.readouterr().err == f"error: interrupted; {tmp_path}/run is imported, its check is not finished.\n"
    assert open_run(tmp_path / "run").step == 100


@pytest.mark.nightly
def test_training_goes_on_with_the_optimizer(run: Run, folder: Path, tmp_path: Path) -> None:
    """Training continues from the step, slots and weights in the checkpoint; one without slots is refused."""
    arrays = {name: 2 * array for name, array in variables(rows=len(PIECES)).items()}
    arrays["global_step"] = np.int64(100)
    slots = {f"training/{name}/{end}": array**2 for name, array in arrays.items() for end in ("Adam", "Adam_1")}
    save(tmp_path / "there" / "model.ckpt-100", arrays | {n: a for n, a in slots.items() if "global_step" not in n})
    flags = [f"--checkpoint={tmp_path}/there", f"--vocabulary={folder}/vocab.subwords", "--with_optimizer"]
    run("importer", *flags, "--target_space_id=3", f"--output_dir={tmp_path}/imported")
    for side, text in (("en", "the cats\n"), ("de", "un\n")):
        for split in ("train", "dev"):
            (tmp_path / f"{split}.{side}").write_text(text * 20)
    training = [
        *("--problem=text2text", f"--source_dir={tmp_path}", "--languages=en-de", f"--output_dir={tmp_path}/run"),
        *(f"--hparams_file={tmp_path}/imported/hparams.json", f"--vocabulary={tmp_path}/imported", "--with_optimizer"),
        "--hparams=train_steps=102,eval_every=102,batch_tokens=256,beam_size=1,average_checkpoints=1,dropout=0.0",
    ]
    alone = run("trainer", *training, status=2, quick=True).stderr
    assert "--with_optimizer goes with --warm_start_from=RUN, whose step and slots are taken, too" in alone
    training.append(f"--warm_start_from={tmp_path}/imported")
    over = run("trainer", *training, "--train_steps=100", status=2).stderr
    assert f"{tmp_path}/imported is at step 100, and train_steps=100 counts its updates, too, so that none is" in over
    assert not (tmp_path / "run").exists()
    done = run("trainer", *training)
    assert f"Continuing the training of {tmp_path}/imported, step 100: its weights and its optimizer's" in done.stdout
    saved = tf.train.load_checkpoint(list_checkpoints(tmp_path / "run")[-1])
    name = variable_key("adam_m", "transformer/encoder/layer_0/around_attention/self_attention/query")
    moment = slots["training/transformer/body/encoder/layer_0/self_attention/multihead_attention/q/kernel/Adam"]
    assert np.median(np.abs(saved.get_tensor(name) / (0.9**2 * moment) - 1)) < 0.1  # after two updates
    refused = run("importer", *_flags(folder, tmp_path / "other"), "--with_optimizer", status=2).stderr
    assert "--with_optimizer: the checkpoint has no slots of an optimizer. Leave the flag out." in refused
    assert not (tmp_path / "other").exists()


@pytest.mark.nightly
def test_training_goes_on(run: Run, imported: Path, folder: Path, tmp_path: Path) -> None:
    """A new run takes the imported vocabulary, weights and recipe; lines are stripped, as t2t-datagen does."""
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for split, number in (("train", 40), ("dev", 4)):
        write_lines(corpus / f"{split}.en", [f"  the cats {i} " for i in range(number)])
        write_lines(corpus / f"{split}.de", [f"un {i}" for i in range(number)])
    flags = [
        *("--problem=text2text", f"--source_dir={corpus}", "--languages=en-de", f"--warm_start_from={imported}"),
        *(f"--hparams_file={imported}/hparams.json", f"--output_dir={tmp_path}/run"),
        "--hparams=train_steps=2,eval_every=1,batch_tokens=256,beam_size=1,average_checkpoints=1",
    ]
    done = run("trainer", *flags, f"--vocabulary={folder}/vocab.subwords")
    assert f"Starting from the weights of {imported}, step 100.\n" in done.stdout
    store = open_store(tmp_path / "run" / "data" / "text2text")
    assert store.manifest["vocabularies"] == {"source": "vocabulary.subwords", "target": "vocabulary.subwords"}
    vocabulary = SubwordVocabulary(file_of(PIECES))
    assert store.split("train").source[7].tolist() == [*vocabulary.encode("the cats 7"), EOS]
    assert store.manifest["splits"]["train"]["source"]["unknown"] == 0
    assert (tmp_path / "run" / "vocabulary.subwords").read_bytes() == file_of(PIECES)
    assert run("eval", f"--output_dir={tmp_path}/run", "--split=dev").stdout.count("BLEU") == 1
    trees = ["--problem=toy_parsing", f"--vocabulary={imported}", f"--data_dir={tmp_path}/trees"]
    said = run("datagen", *trees, status=2).stderr
    assert "toy_parsing: Trees need a vocabulary of whole symbols" in said
