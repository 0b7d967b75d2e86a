"""WMT14 with whole commands: from files that TensorFlow Datasets' own builder wrote, and from raw files."""

import gzip
import itertools
import json
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from t2t_lite import registry
from t2t_lite.data.store import open_store
from tests import commands

pytestmark = pytest.mark.commit

Run = Callable[..., subprocess.CompletedProcess[str]]

# `big`, but smaller and trained for fewer steps.
SMALL = (
    "--hparams_set=big",
    "--hparams=num_layers=1,d_model=32,d_ff=64,num_heads=2,batch_tokens=512,max_length=64,train_steps=4,log_every=2,"
    "eval_every=4,save_every=2,warmup_steps=2,beam_size=2,extra_length=2",
)


def _pairs(split: str, count: int) -> list[tuple[str, str]]:
    return list(itertools.islice(registry.problem("toy_ende").samples(split), count))


AWKWARD = [("One\u2028line.", "Eine\u0085Zeile."), ("Two\nlines, said to be one.", "Zwei.")]
FABRICATED = {"train": _pairs("train", 300), "validation": _pairs("dev", 6), "test": [*_pairs("test", 6), *AWKWARD]}


@pytest.fixture(scope="module")
def tfds_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A TFDS_DATA_DIR with the fabricated wmt14_translate/de-en."""
    folder = tmp_path_factory.mktemp("tfds")
    (folder / "pairs.json").write_text(json.dumps(FABRICATED), encoding="utf-8")
    done = commands.run("tests.system.tfds_builder", folder / "pairs.json", folder)
    assert done.returncode == 0, done.stderr.decode()
    assert (folder / "wmt14_translate" / "de-en" / "1.0.0" / "features.json").is_file()
    return folder


@pytest.mark.nightly
def test_big_on_tfds_and_its_batches(run: Run, tfds_data: Path, tmp_path: Path) -> None:
    flags = ["--problem=wmt14_ende", "--vocab_size=300", *SMALL, f"--output_dir={tmp_path / 'run'}"]
    done = run("trainer", *flags, env={"TFDS_DATA_DIR": str(tfds_data)})
    steps = [line.partition(": loss ")[0] for line in done.stderr.split("\n") if line.startswith("step ")]
    assert steps == ["step 2 of 4", "step 4 of 4"]
    assert "step 4: dev loss " in done.stdout
    store = open_store(tmp_path / "run" / "data" / "wmt14_ende")
    assert {name: facts["pairs"] for name, facts in store.manifest["splits"].items()} == {
        "train": 300, "dev": 6, "test": 8,
    }  # fmt: skip
    # TFDS shuffles what it writes; a line end inside a text became a space.
    expected = [tuple(text.replace("\n", " ") for text in pair) for pair in FABRICATED["test"]]
    assert sorted(zip(*store.text("test"), strict=True)) == sorted(expected)
    assert len((tmp_path / "run" / "test.hyp.txt").read_text(encoding="utf-8").split("\n")) == 8 + 1
    saved = json.loads((tmp_path / "run" / "problem.json").read_text())
    assert (saved["problem"], saved["options"]["raw_dir"]) == ("wmt14_ende", None)
    # Reading prepared data needs neither TFDS nor TensorFlow.
    given = [f"--data_dir={tmp_path / 'run' / 'data'}", "--problem=wmt14_ende", "--vocab_size=300"]
    out = run("datagen", *given, "--describe", "--hparams_set=big", quick=True).stdout
    assert "left out                  0 of 300 pairs, longer than max_length=256\n" in out


@pytest.mark.nightly
def test_tfds_data_that_is_damaged(run: Run, tfds_data: Path, tmp_path: Path) -> None:
    (shard,) = (tfds_data / "wmt14_translate").rglob("*-validation.tfrecord-*")
    whole = shard.read_bytes()
    shard.write_bytes(whole[:40] + b"?" + whole[41:])
    try:
        flags = ["--problem=wmt14_ende", f"--data_dir={tmp_path / 'data'}"]
        done = run("datagen", *flags, status=1, env={"TFDS_DATA_DIR": str(tfds_data)})
    finally:
        shard.write_bytes(whole)
    assert (
        "error: TensorFlow Datasets could not give wmt14_translate/de-en, split 'validation': DataLossError"
        in done.stderr
    )
    assert f"It keeps its data in {tfds_data}" in done.stderr
    assert not (tmp_path / "data" / "wmt14_ende").exists()


@pytest.mark.nightly
def test_without_a_network_it_ends_in_a_sentence_soon(run: Run, tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # does not listen: acts as a proxy that refuses each connection
        proxy = f"http://127.0.0.1:{closed.getsockname()[1]}"
        proxies = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), proxy)
        env = {"TFDS_DATA_DIR": str(tmp_path / "tfds"), "no_proxy": "", "NO_PROXY": "", **proxies}
        start = time.monotonic()
        done = run("trainer", "--problem=wmt14_ende", *SMALL, f"--output_dir={tmp_path / 'run'}", status=1, env=env)
    assert time.monotonic() - start < 120  # takes 8 s on two cores; TensorFlow Datasets alone takes 200 s
    said, error, advice, end = done.stderr.split("\n")
    assert said.startswith("Downloading and preparing dataset ")
    assert error.startswith("error: TensorFlow Datasets could not give wmt14_translate/de-en, split ")
    assert "www.statmt.org" in error
    assert "Connection refused" in error
    assert advice.startswith(f"It keeps its data in {tmp_path / 'tfds'} (TFDS_DATA_DIR ")
    assert advice.endswith("--raw_dir=DIR.")
    assert end == ""


@pytest.fixture
def raw_dir(tmp_path: Path) -> Path:
    """The files of WMT14 with a few pairs each, named as in its archives."""
    pairs = [*_pairs("train", 200), *_pairs("train", 10), ("word", "Wort " * 20), ("bad \x96", "schlecht")]
    files = {
        "training/europarl-v7.de-en": pairs[:100],
        "commoncrawl.de-en": pairs[100:],
        "dev/newstest2013": _pairs("dev", 5),
        "newstest2014.deen": _pairs("test", 5),
    }
    for stem, lines in files.items():
        for code, texts in zip(("en", "de"), zip(*lines, strict=True), strict=True):
            path = tmp_path / "raw" / f"{stem}.{code}.gz"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(gzip.compress("".join(f"{text}\n" for text in texts).encode()))
    return tmp_path / "raw"


@pytest.mark.nightly
def test_the_reverse_direction_on_raw_files_cleaned(run: Run, raw_dir: Path, tmp_path: Path) -> None:
    flags = ["--problem=wmt14_ende_rev", f"--raw_dir={raw_dir}", "--vocab_size=300", "--clean"]
    done = run("trainer", *flags, *SMALL, f"--output_dir={tmp_path / 'run'}")
    assert {*done.stderr.split("\n")} >= {
        f"wmt14_ende is prepared without news-commentary-v9.de-en: not in {raw_dir}.",
        f"wmt14_ende: the dev set, {raw_dir}/dev/newstest2013.en.gz, has 5 pairs, but the paper's has 3,000, so scores "
        "do not compare with its scores.",
        "Cleaning leaves out 12 training pairs: 1 control, 1 ratio, 10 duplicate.",
    }
    store = open_store(tmp_path / "run" / "data" / "wmt14_ende_rev")
    assert store.manifest["splits"]["train"]["pairs"] == 200
    assert store.text("dev") == tuple(map(list, zip(*((de, en) for en, de in _pairs("dev", 5)), strict=True)))
    assert json.loads((tmp_path / "run" / "problem.json").read_text())["problem"] == "wmt14_ende_rev"
    # The run opens again in its own direction; no flag names the problem.
    scores = json.loads(run("eval", f"--output_dir={tmp_path / 'run'}", "--json").stdout)
    assert (scores["split"], np.isfinite(scores["loss"])) == ("test", True)


def test_newstest(run: Run, shared_data: Callable[[str], Path], tmp_path: Path) -> None:
    """Prepares newstest files; newstest2013 is also the training set, as it is small and real text."""
    for path in shared_data("newstest").iterdir():
        (tmp_path / path.name).symlink_to(path)
    for code in ("en", "de"):
        (tmp_path / f"train.{code}.gz").symlink_to(shared_data("newstest") / f"newstest2013.{code}.gz")
    flags = ["--problem=wmt14_ende", f"--raw_dir={tmp_path}", "--vocab_size=2000", f"--data_dir={tmp_path / 'data'}"]
    done = run("datagen", *flags, "--describe", quick=True)
    assert "\ntest: 3,003 pairs, " in done.stdout
    assert "\nbatches of base:\n  updates per epoch " in done.stdout
