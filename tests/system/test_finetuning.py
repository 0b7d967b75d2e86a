"""Fine-tuning as in docs/finetuning.md: training continues on a second corpus with the run's own vocabulary."""

import itertools
import json
import math
import shutil
from pathlib import Path

import pytest

from t2t_lite import registry
from t2t_lite.text.vocabulary import Vocabulary
from t2t_lite.text.vocabulary_training import train_vocabulary
from tests.system.conftest import Run, write_lines

pytestmark = pytest.mark.nightly

RECIPE = (
    "--hparams=norm=post,num_layers=1,d_model=64,d_ff=64,num_heads=2,dropout=0,batch_tokens=1024,max_length=32,"
    "warmup_steps=40,learning_rate_factor=0.5,extra_length=5,eval_every=1,train_steps=2,beam_size=1"
)


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of other pairs in the same languages: 200 for training, 12 for dev."""
    folder = tmp_path_factory.mktemp("second")
    problem = registry.problem("toy_ende", train_size=1200)
    for split, first, count in (("train", 1000, 200), ("dev", 12, 12)):
        sources, targets = zip(*itertools.islice(problem.samples(split), first, first + count), strict=True)
        write_lines(folder / f"{split}.en", sources)
        write_lines(folder / f"{split}.de", targets)
    return folder


def _dev_losses(run_dir: Path) -> list[float]:
    rows = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().split("\n")[:-1]]
    return [row["dev_loss"] for row in rows if "dev_loss" in row]


def test_fine_tuning(run: Run, second: Path, trained: tuple[Path, str], tmp_path: Path) -> None:
    first, tuned = tmp_path / "first", tmp_path / "tuned"
    shutil.copytree(trained[0], first, ignore=shutil.ignore_patterns("data"))
    flags = ["--problem=text2text", f"--source_dir={second}", "--languages=en-de", "--hparams_set=tiny", RECIPE]
    start = ["trainer", *flags, f"--output_dir={tuned}", f"--warm_start_from={first}"]
    # The second corpus's own vocabulary has the same size: the weights would fit, but belong to other pieces.
    done = run(*start, "--vocab_size=400", status=2)
    checksums = [
        Vocabulary.load(file).checksum[:12]
        for file in (first / "vocabulary.model", tuned / "data" / "text2text" / "vocabulary.model")
    ]
    assert done.stderr.endswith(
        f"error: The weights of {first} were trained with another vocabulary (400 pieces, checksum {checksums[0]}...) "
        f"than that of the data in {tuned}/data/text2text (400 pieces, checksum {checksums[1]}...): the same id is "
        f"another piece there. Prepare the data with its vocabulary, --vocabulary={first}, in another --data_dir or "
        "with --prepare_again.\n"
    )
    assert not (tuned / "metrics.jsonl").exists()
    done = run(*start, "--vocab_size=400", f"--vocabulary={first}", status=2, quick=True)
    assert "error: vocab_size=400 is about a vocabulary that is trained, but --vocabulary=" in done.stderr
    # Now the flags that the message names.
    done = run(*start, f"--vocabulary={first}", "--prepare_again")
    assert f"Starting from the weights of {first}, step 120.\n" in done.stdout
    losses = _dev_losses(tuned)
    assert len(losses) == 2
    assert losses[0] < 0.6 * math.log(400)
    assert (tuned / "vocabulary.model").read_bytes() == (first / "vocabulary.model").read_bytes()
    # The new run no longer needs the first one.
    first.rename(tmp_path / "gone")
    shutil.rmtree(tuned / "data")
    done = run("trainer", *flags, f"--output_dir={tuned}", "--train_steps=3")  # the flags need not name the first run
    assert "Resuming from step 2 of 3.\n" in done.stdout
    assert "\nstep 3: dev loss " in done.stdout
    done = run(*start, f"--vocabulary={first}", "--train_steps=3")  # but may
    assert f"{first} is gone; the run resumes with its own copy of the vocabulary.\n" in done.stderr
    assert run("eval", f"--output_dir={tuned}", "--json").stdout.count("value") == 2


def test_a_sentencepiece_model_of_ones_own(run: Run, second: Path, tmp_path: Path) -> None:
    own = train_vocabulary((second / "train.en").read_text().split("\n"), size=150)
    own.save(tmp_path / "own.model")
    flags = ["--problem=text2text", f"--source_dir={second}", "--languages=en-de", f"--data_dir={tmp_path / 'data'}"]
    done = run("datagen", *flags, f"--vocabulary={tmp_path / 'own.model'}", quick=True)
    assert "vocabulary: 150 pieces, shared\n" in done.stdout
    done = run("datagen", *flags, status=2, quick=True)
    assert f"  vocabulary: 'checksum {own.checksum[:12]}...' -> 'none given (--vocabulary)'\n" in done.stderr
    done = run(
        "trainer",
        *flags,
        f"--vocabulary={tmp_path / 'own.model'}",
        "--hparams_set=tiny",
        RECIPE,
        f"--output_dir={tmp_path / 'run'}",
    )
    assert "step 2: dev loss " in done.stdout
    assert Vocabulary.load(tmp_path / "run" / "vocabulary.model").checksum == own.checksum
    done = run("datagen", *flags, f"--vocabulary={tmp_path / 'gone'}", status=2, quick=True)
    assert f"error: --vocabulary={tmp_path / 'gone'}: there is no such run and no such file." in done.stderr
