"""Whole commands on an S3 server: train, refuse a second trainer, read from the URL alone, export, sources."""

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from t2t_lite.remote.store import Store, StoreError
from tests import commands
from tests.faults.kills import digest
from tests.faults.material import LARGE, SMALL, write_corpus
from tests.faults.store_kills import FLAGS, try_kills
from tests.remote import s3

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(bool(s3.MISSING), reason=f"not installed: {', '.join(s3.MISSING)} (moto[server], s3fs)"),
]
RUN = "s3://bucket/runs/toy"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("s3")


@pytest.fixture(scope="module")
def bucket(folder: Path) -> Iterator[s3.Bucket]:
    with s3.serve(folder) as found:
        yield found


def _call(bucket: s3.Bucket, cache: Path, command: str, *flags: str, text: str = "") -> tuple[int, str, str]:
    env = {**bucket.env, "XDG_CACHE_HOME": str(cache)}
    done = commands.run(f"t2t_lite.cli.{command}", *flags, input=text.encode(), env=env)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.fixture(scope="module")
def trained(bucket: s3.Bucket, folder: Path) -> tuple[Path, str]:
    """The flags' result of a training here, with what the same training in the store has printed."""
    corpus = write_corpus(folder / "corpus", LARGE[:2000], SMALL[:10])
    status, _, errors = _call(bucket, folder / "a", "trainer", f"--output_dir={folder / 'here'}", *corpus, *FLAGS)
    assert status == 0, errors
    status, said, errors = _call(bucket, folder / "a", "trainer", f"--output_dir={RUN}", *corpus, *FLAGS)
    assert status == 0, errors
    return folder / "here", said


def test_a_run_in_the_store_is_the_run_on_disk(bucket: s3.Bucket, folder: Path, trained: tuple[Path, str]) -> None:
    here, said = trained
    there = bucket.download("runs/toy", folder / "there")
    assert digest(there) == digest(here)
    names = {str(path.relative_to(here)) for path in here.rglob("*") if path.is_file()}
    wanted = {name for name in names if not any(part[0] == "." for part in name.split("/")) and "tfevents" not in name}
    assert {str(p.relative_to(there)) for p in there.rglob("*") if p.is_file() and "tfevents" not in p.name} == wanted
    assert json.loads((there / "run.json").read_text())["starts"][0]["request"]["output_dir"] == RUN
    assert f"Next: t2t-lite-decoder --output_dir={RUN}" in said
    assert str(folder / "a") not in said


@pytest.fixture
def environment(bucket: s3.Bucket, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """The environment of this process, in which the server is S3."""
    from s3fs import S3FileSystem

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.setenv(name, bucket.env[name])
    S3FileSystem.clear_instance_cache()
    yield monkeypatch
    S3FileSystem.clear_instance_cache()


def test_parts_of_an_object_are_read(environment: object, tmp_path: Path) -> None:
    store = Store("s3://bucket/parts")
    store.write("a.ids", bytes(range(100)))
    assert [*store.read_part("a.ids", 0, 10)] == [*range(10)]
    assert [*store.read_part("a.ids", 5, 99)] == [*range(5, 99)]
    store.remove("a.ids")
    with pytest.raises(StoreError, match=r"parts/a\.ids cannot be read: it is not there .* removed it"):
        store.read_part("a.ids", 5, 99)
    with pytest.raises(FileNotFoundError):
        store.read("a.ids")
    with pytest.raises(FileNotFoundError):
        store.download("a.ids", tmp_path / "a.ids")


def test_a_bucket_that_is_not_there_is_no_empty_folder(environment: object, tmp_path: Path) -> None:
    store = Store("s3://no-bucket/runs/a")
    (tmp_path / "file").write_bytes(b"")
    for act in (
        store.list,
        lambda: store.read("manifest.json"),
        lambda: store.read_part("a.ids", 0, 1),
        lambda: store.download("a", tmp_path / "a"),
        lambda: store.upload(tmp_path / "file", "a"),
        lambda: store.write("a", b"", new=True),
    ):
        with pytest.raises(StoreError, match=r"it is not there \(The specified bucket does not exist\)\. .* never cr"):
            act()


def test_missing_credentials_are_named(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        environment.delenv(name, raising=False)
    environment.setenv("HOME", str(tmp_path))
    environment.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(StoreError, match=r"s3://bucket/a cannot be listed: Unable to locate credentials\. Credentials"):
        Store("s3://bucket/a").list()


def test_other_machines_read_it_from_the_url_alone(bucket: s3.Bucket, folder: Path, trained: tuple[Path, str]) -> None:
    here, _ = trained
    text = "line 3 of 9\nline 7 of 49\n"
    expected = _call(bucket, folder / "a", "decoder", f"--output_dir={here}", text=text)
    assert expected[0] == 0
    found = _call(bucket, folder / "b", "decoder", f"--output_dir={RUN}", text=text)
    assert found[:2] == expected[:2], found[2]
    [copy] = (folder / "b/t2t-lite/remote").glob("*/0/toy")
    assert len(list(copy.rglob("*.data-*"))) == 1  # of all checkpoints the one that it needs
    assert not any(path.is_file() for path in (copy / "data").rglob("*"))
    bucket_file = ["--input=s3://bucket/in/text.en", f"--output={folder / 'text.de'}"]
    bucket.put("in/text.en", text)
    assert _call(bucket, folder / "b", "decoder", f"--output_dir={RUN}", *bucket_file)[0] == 0
    assert (folder / "text.de").read_text() == expected[1]
    local = _call(bucket, folder / "a", "eval", f"--output_dir={here}", "--split=dev")
    status, said, errors = _call(bucket, folder / "b", "eval", f"--output_dir={RUN}", "--split=dev")
    assert status == 0, errors
    assert said == local[1].replace(str(here), RUN)
    assert f"{RUN}/dev.scores.json holds these scores now" in errors
    scores = json.loads((bucket.download("runs/toy", folder / "after_eval") / "dev.scores.json").read_text())
    assert scores["scores"] == json.loads((here / "dev.scores.json").read_text())["scores"]


def test_exports_are_written_and_loaded(bucket: s3.Bucket, folder: Path, trained: tuple[Path, str]) -> None:
    text = "line 3 of 9\n"
    expected = _call(bucket, folder / "b", "decoder", f"--output_dir={RUN}", text=text)[1]
    for _ in range(2):
        status, said, errors = _call(
            bucket, folder / "b", "exporter", f"--output_dir={RUN}", "--export_dir=s3://bucket/export"
        )
        assert status == 0, errors
    assert said.startswith("s3://bucket/export/2: ")
    of_second = [name for name in bucket.written() if name.startswith("export/2/")]
    assert of_second[-1] == "export/2/saved_model.pb"
    found = _call(bucket, folder / "c", "decoder", "--saved_model=s3://bucket/export", text=text)
    assert found[:2] == (0, expected), found[2]
    [copy] = (folder / "c/t2t-lite/remote").glob("*/0/export")
    assert not any(path.is_file() for path in (copy / "1").rglob("*"))
    status, _, errors = _call(
        bucket, folder / "c", "exporter", f"--output_dir={RUN}", "--export_dir=s3://bucket/export", "--format=marian"
    )
    assert status == 2, errors
    assert "s3://bucket/export has versions with --format=saved_model" in errors


def test_sources_data_and_weights_come_from_the_store(
    bucket: s3.Bucket, folder: Path, trained: tuple[Path, str]
) -> None:
    here, _ = trained
    for path in (folder / "corpus").iterdir():
        bucket.put(f"corpus/{path.name}", path.read_text())
    flags = ["--problem=text2text", "--source_dir=s3://bucket/corpus", "--languages=en-de", "--vocab_size=300"]
    data = "--data_dir=s3://bucket/prepared"
    status, said, errors = _call(bucket, folder / "g", "datagen", *flags, data)
    assert status == 0, errors
    assert "text2text: s3://bucket/prepared/text2text" in said
    there = [name for name in bucket.written() if name.startswith("prepared/")]
    assert there[-1] == "prepared/text2text/manifest.json"
    written = len(bucket.written())
    status, said, errors = _call(
        bucket, folder / "h", "trainer", *flags, data, f"--output_dir={folder / 'other'}", *FLAGS
    )
    assert status == 0, errors
    assert digest(folder / "other") == digest(here)
    assert [name for name in bucket.written()[written:] if name.startswith("prepared/")] == []  # what is there is used
    problem = json.loads((folder / "other/problem.json").read_text())
    assert problem["data_dir"] == "s3://bucket/prepared"
    assert problem["options"]["source_dir"] == "s3://bucket/corpus"
    flags = [*flags, data, f"--output_dir={folder / 'warm'}", f"--warm_start_from={RUN}/best", *FLAGS[:1]]
    status, said, errors = _call(bucket, folder / "i", "trainer", *flags, FLAGS[1].replace("=12", "=2"), FLAGS[2])
    assert status == 0, errors
    assert f"Starting from the weights of {RUN}/best, step " in said
    status, said, errors = _call(bucket, folder / "i", "avg_checkpoints", f"--output_dir={RUN}", "--last=2")
    assert status == 0, errors
    assert f"{RUN}/averaged/model-12: the mean of 2 checkpoints" in said


def test_a_second_trainer_is_refused_and_a_stopped_one_resumes(
    bucket: s3.Bucket, folder: Path, trained: tuple[Path, str]
) -> None:
    corpus = write_corpus(folder / "corpus", LARGE[:2000], SMALL[:10])
    flags = ["--output_dir=s3://bucket/runs/two", *corpus, FLAGS[0], FLAGS[1].replace("=12", "=4000"), FLAGS[2]]
    streams = {"out": folder / "two.out", "err": folder / "two.err"}
    env = {**bucket.env, "XDG_CACHE_HOME": str(folder / "j")}
    process = commands.start("t2t_lite.cli.trainer", *flags, env=env, **streams)
    try:
        end = time.monotonic() + 240
        while not any(name.startswith("runs/two/checkpoints/") for name in bucket.written()):
            assert process.exitcode is None, streams["err"].read_text()
            assert time.monotonic() < end
            time.sleep(0.2)
        for cache in ("j", "k"):
            status, _, errors = _call(bucket, folder / cache, "trainer", *flags)
            assert status == 1
            assert (
                f"Another trainer writes to s3://bucket/runs/two: process {process.pid} on {os.uname().nodename}"
                in errors
            )
        process.terminate()
        process.join(120)
        assert process.exitcode == 143
    finally:
        process.kill()
    assert "Resume with t2t-lite-trainer --output_dir=s3://bucket/runs/two" in streams["err"].read_text()
    shutil.rmtree(folder / "j")
    newest = max(
        int(name.rpartition("-")[2][:-6]) for name in bucket.written() if name.endswith(".index") and "two/ch" in name
    )
    flags = ["--output_dir=s3://bucket/runs/two", f"--train_steps={newest + 2}"]
    status, said, errors = _call(bucket, folder / "k", "trainer", *flags)
    assert status == 0, errors
    assert f"Resuming from step {newest:,} of {newest + 2:,}." in said


def test_killed_while_it_uploads_it_ends_as_the_undisturbed_one(tmp_path: Path) -> None:
    outcome = try_kills(tmp_path, kills=4, seed=7)
    assert outcome.killed_after.total() == 4
    assert outcome.resumed > 0
    assert (outcome.failed, outcome.wrong, outcome.lost) == (0, 0, 0)
