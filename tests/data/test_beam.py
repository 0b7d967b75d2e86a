"""Training text prepared by Apache Beam: the same bytes as from processes of one machine, also after a kill.

The steps of the pipeline run here without Beam, too, one by one and in any order.
"""

import dataclasses
import logging
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from t2t_lite import registry
from t2t_lite.cli import datagen
from t2t_lite.data import line_ranges
from t2t_lite.data.parts import Arrays, Parts
from t2t_lite.data.pipelines import Beam, ChunkSteps, run_chunks
from t2t_lite.data.prepare import prepare
from t2t_lite.errors import DataError, UsageError
from t2t_lite.problem import AlignedPair, Problem

ROOT = Path(__file__).resolve().parents[2]
TWO_PROCESSES = "--beam_options=direct_num_workers=2,direct_running_mode=multi_processing"
WORDS = ["größe", "猫が", "\U0001f600", "naïve", "@@", *map(str, range(60))]


@dataclasses.dataclass(frozen=True)
class _ByHand(Beam):
    """Runs the steps of a pipeline without Beam, each in an order of its own; fails before a step if asked to."""

    fails_before: str = ""

    def run(self, steps: Any, tasks: Sequence[Any]) -> None:
        numbered = [*enumerate(tasks)]
        if isinstance(tasks[0], str):
            self._each(steps.make, tasks)
            return
        if steps.recipes or steps.reader.judge:
            surveyed = self._each(steps.survey, numbered)
            self._each(lambda _: steps.choose(0, surveyed), [0], "choose")
        if steps.recipes:
            made = self._each(steps.lines, numbered)
            self._each(lambda _: steps.train(0, made), [0], "train")
        self._each(steps.encode, numbered)

    def _each(self, step: Any, tasks: Sequence[Any], name: str = "") -> list[Any]:
        name = name or step.__name__
        tasks = random.Random(name).sample(tasks, len(tasks))
        found = [step(task) for task in (tasks[: len(tasks) // 2] if name == self.fails_before else tasks)]
        if name == self.fails_before:
            raise DataError(f"failed at {name}")
        return found


def _write(folder: Path, pairs: int, longest: int) -> Path:
    """Writes a corpus with odd pairs, doubles and those of dev."""
    draw = random.Random(1)
    rows: list[tuple[str, str]] = []
    for i in range(pairs):
        source, target = (" ".join(draw.choices(WORDS, k=draw.randint(1, longest))) for _ in range(2))
        odd = [("", target), (f" {source}", " "), (f"a\t  {source}", f"\x85{target}"), ("<u>x</u>", "<u>x</u>")]
        odd += [("w " * 300, target), (source, source), (f"{source}@@ a", target)]
        rows.append(odd[i // 9 % len(odd)] if i % 9 == 0 else rows[-7] if i % 31 == 30 else (source, target))
    folder.mkdir()
    for name, chosen in (("train", rows), ("dev", rows[100:1100:50])):
        for side, code in enumerate(("en", "de")):
            text = "\n".join(pair[side] for pair in chosen)
            (folder / f"{name}.{code}").write_text(f"{text}\n", encoding="utf-8")
    return folder


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(line_ranges, "RANGE_BYTES", 3000)
    monkeypatch.setattr(line_ranges, "_BLOCK", 512)
    return _write(tmp_path / "corpus", 800, 20)


def _problem(folder: Path, **options: Any) -> Problem:
    given = {"source_dir": str(folder), "languages": "en-de", "vocab_size": 150, **options}
    return registry.problem("text2text", **given)


class _Aligned(Problem):
    """Pairs that only `samples` gives, with alignments."""

    name = "made_aligned"
    vocab_size, aligned, drop_overlap = 60, True, True

    def samples(self, split: str) -> Iterator[tuple[str, str]]:
        for i in range(5000 if split == "train" else 20):
            yield AlignedPair(f"eins zwei {i}", f"one two {i}", [(0, 0), (2, 2)])


@pytest.mark.parametrize(
    "options",
    [{"clean": True, "shared_vocab": False}, {"labelled": True, "keep_whole": "59,no"}],
)
def test_steps_give_the_store_and_the_messages_of_one_process(
    tmp_path: Path, corpus: Path, caplog: pytest.LogCaptureFixture, options: dict[str, Any]
) -> None:
    caplog.set_level(logging.INFO)
    found = []
    for way, beam in (("local", None), ("steps", _ByHand())):
        problem = _problem(corpus, **options)
        problem.drop_overlap = True
        caplog.clear()
        store = prepare(problem, tmp_path / way, num_workers=1, beam=beam)
        store.verify()
        found.append((store.manifest, [record.getMessage() for record in caplog.records]))
    assert found[0] == found[1]
    assert sorted(path.name for path in (tmp_path / "steps").iterdir()) == [".text2text.lock", "text2text"]


def test_chunks_of_samples_and_given_vocabularies(tmp_path: Path, corpus: Path) -> None:
    stores = {
        (problem.name, way): prepare(problem, tmp_path / way, num_workers=1, beam=beam)
        for way, beam in (("local", None), ("steps", _ByHand()))
        for problem in (_Aligned(), _problem(corpus))
    }
    assert stores["made_aligned", "steps"].manifest == stores["made_aligned", "local"].manifest
    assert "train.alignment.ids" in stores["made_aligned", "steps"].manifest["files"]
    vocabulary = stores["made_aligned", "local"].source_vocabulary
    given = {}
    for way, beam in (("local", None), ("steps", _ByHand())):
        problem = _problem(corpus, clean=True)
        given[way] = prepare(
            problem, tmp_path / f"given-{way}", vocabularies=(vocabulary,) * 2, num_workers=1, beam=beam
        )
    assert given["local"].manifest == given["steps"].manifest


@pytest.mark.parametrize("step", ["survey", "lines", "encode"])
def test_finished_parts_are_used_again_and_no_others(
    tmp_path: Path, corpus: Path, caplog: pytest.LogCaptureFixture, step: str
) -> None:
    caplog.set_level(logging.INFO)
    local = prepare(_problem(corpus, clean=True), tmp_path / "local", num_workers=1)
    with pytest.raises(DataError, match=f"failed at {step}"):
        prepare(_problem(corpus, clean=True), tmp_path / "data", beam=_ByHand(fails_before=step))
    folder = tmp_path / "data" / ".text2text.parts"
    left = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert left
    (folder / ".half.npz.1234").write_bytes(b"of a killed process")
    with pytest.raises(DataError, match="failed at train"):  # all but those of `encode` are there then
        prepare(_problem(corpus, clean=True, vocab_size=149), tmp_path / "data", beam=_ByHand(fails_before="train"))
    assert not left.keys() & {path.name for path in folder.iterdir()}  # of other settings: all are made again
    with pytest.raises(DataError, match=f"failed at {step}"):
        prepare(_problem(corpus, clean=True), tmp_path / "data", beam=_ByHand(fails_before=step))
    assert left.keys() == {path.name for path in folder.iterdir()}
    caplog.clear()
    assert prepare(_problem(corpus, clean=True), tmp_path / "data", beam=_ByHand()).manifest == local.manifest
    assert any(record.getMessage().startswith(f"{len(left)} of ") for record in caplog.records)


def test_a_changed_file_leaves_what_was_found_in_others(tmp_path: Path, corpus: Path) -> None:
    extra = _write(tmp_path / "extra", 100, 20)

    def problem() -> Problem:
        return registry.problem("text2text", source_dir=f"{corpus},{extra}", languages="en-de", vocab_size=300)

    with pytest.raises(DataError, match="failed at encode"):
        prepare(problem(), tmp_path / "data", beam=_ByHand(fails_before="encode"))
    folder = tmp_path / "data" / ".text2text.parts"
    before = {path.name for path in folder.glob("survey-*")}
    for code in ("en", "de"):
        with open(extra / f"train.{code}", "a", encoding="utf-8") as file:
            file.write("one more\n")
    with pytest.raises(DataError, match="failed at encode"):
        prepare(problem(), tmp_path / "data", beam=_ByHand(fails_before="encode"))
    after = {path.name for path in folder.glob("survey-*")}
    assert 0 < len(before - after) < 4
    assert len(before & after) > 4


def test_faults_are_kept_for_the_process_that_began(tmp_path: Path, corpus: Path) -> None:
    lines = (corpus / "train.de").read_bytes().split(b"\n")
    lines[500] = b"\xff"
    (corpus / "train.de").write_bytes(b"\n".join(lines))
    with pytest.raises(DataError, match=r"train\.de, line 501: byte 0xff"):
        prepare(_problem(corpus), tmp_path / "data", beam=_ByHand())
    assert (tmp_path / "data" / ".text2text.parts" / "fault.json").is_file()


def test_without_the_package_a_sentence_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    with pytest.raises(UsageError, match=r"pip install 't2t-lite\[beam\]'"):
        Beam().check()
    command = ["--problem=toy_ende", f"--data_dir={tmp_path}"]
    assert datagen.main([*command, "--runner=beam"]) == 2
    assert "pip install 't2t-lite[beam]'" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        datagen.main([*command, "--beam_options=runner=FlinkRunner"])
    assert "--beam_options goes with --runner=beam" in capsys.readouterr().err


# With Beam itself, on its own runner, as whole processes.


def _datagen(data: Path, given: Mapping[str, Any], *more: str) -> subprocess.Popen[str]:
    flags = [f"--{name}={value}" for name, value in given.items()]
    command = [sys.executable, "-m", "t2t_lite.cli.datagen", f"--data_dir={data}", *flags, *more]
    # HOME: where Beam would keep its Prism server
    env = {**os.environ, "HOME": str(data.parent)}
    return subprocess.Popen(command, env=env, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _prepared(data: Path, given: Mapping[str, Any], *more: str) -> dict[str, bytes]:
    process = _datagen(data, given, *more)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    [folder] = [path for path in data.iterdir() if path.is_dir()]
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "origin.json"}


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A corpus of five ranges."""
    pytest.importorskip("apache_beam", reason="apache-beam is not installed (extra beam)")
    return _write(tmp_path / "large", 24_000, 120)


@pytest.mark.nightly
def test_beam_writes_the_bytes_of_the_local_runner(tmp_path: Path, large: Path) -> None:
    raw = tmp_path / "wmt"
    raw.mkdir()
    names = {"europarl-v7.de-en": 12_000, "news-commentary-v9.de-en": 3000, "newstest2013": 30, "newstest2014": 40}
    for name, lines in names.items():
        for code in ("en", "de"):
            text = (large / f"train.{code}").read_text(encoding="utf-8").split("\n")[:lines]
            (raw / f"{name}.{code}").write_text("\n".join([*text, ""]), encoding="utf-8")
    text = {"problem": "text2text", "source_dir": large, "languages": "en-de", "vocab_size": 500}
    cases: dict[str, tuple[dict[str, Any], list[str]]] = {
        "text": (text, ["--clean", "--drop_overlap"]),
        "wmt": ({"problem": "wmt14_ende", "raw_dir": raw, "vocab_size": 500}, []),
        "trees": ({"problem": "toy_parsing"}, []),
    }
    for name, (given, flags) in cases.items():
        local = _prepared(tmp_path / f"{name}-local", given, *flags)
        assert len(local) > 4
        for number, options in enumerate((["--runner=beam"], ["--runner=beam", TWO_PROCESSES])):
            assert _prepared(tmp_path / f"{name}-{number}", given, *flags, *options) == local, (name, options)
    assert not (tmp_path / ".apache_beam").exists()  # nothing was looked for in a network


@pytest.mark.nightly
def test_killed_at_three_points_it_continues_with_its_parts(tmp_path: Path, large: Path) -> None:
    given = {"problem": "text2text", "source_dir": large, "languages": "en-de", "vocab_size": 500}
    beam = ["--clean", "--runner=beam", TWO_PROCESSES]
    data = tmp_path / "data"
    left = 0
    for point in ("survey-*.npz", "choice-*.npz", "encoded-*-000001.npz"):
        process = _datagen(data, given, *beam)
        end = time.monotonic() + 120
        while not any(data.glob(f".text2text.parts/{point}")):
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < end
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)  # its workers end, too, and close the pipe
        assert not (data / "text2text").exists()
        now = len([*data.glob(".text2text.parts/*.npz")])
        assert now > left
        left = now
    process = _datagen(data, given, *beam)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert f"{left} of 17 parts are there already" in err
    assert _prepared(data, given, "--clean") == _prepared(tmp_path / "local", given, "--clean")


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"runer": "FlinkRunner"}, r"Beam has no option 'runer'\. Did you mean 'runner'"),
        ({"runner": "FlinkRuner"}, r"^--beam_options: Unexpected pipeline runner: FlinkRuner\. Valid values are"),
        ({"runner": "missing_package.Runner"}, r"^--beam_options: No module named 'missing_package'\.$"),
        ({"runner": "os.NoRunner"}, r"^--beam_options: module 'os' has no attribute 'NoRunner'\.$"),
        ({"direct_num_workers": "two"}, r"^--beam_options: direct_num_workers: invalid int value: 'two'\.$"),
        ({"direct_running_mode": "fast"}, r"^--beam_options: direct_running_mode: invalid choice: 'fast' \(choose"),
        ({"streaming": "yes"}, r"^--beam_options: streaming: ignored explicit argument 'yes'\.$"),
        (
            {"runner": "DataflowRunner"},
            r"^--beam_options: Pipeline has validations errors:.* Missing required option: reg",
        ),
    ],
)
def test_wrong_options_are_sentences_before_any_work(
    options: dict[str, str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("apache_beam", reason="apache-beam is not installed (extra beam)")
    with pytest.raises(UsageError, match=message):
        Beam(options).check()
    assert not capfd.readouterr().err


@dataclasses.dataclass(frozen=True)
class _Interrupted(ChunkSteps):
    def compute(self, rows: list[Any]) -> Arrays:
        raise KeyboardInterrupt


@pytest.mark.nightly
def test_ctrl_c_in_a_step_is_no_failure(tmp_path: Path) -> None:
    pytest.importorskip("apache_beam", reason="apache-beam is not installed (extra beam)")
    with pytest.raises(KeyboardInterrupt):
        run_chunks(Beam(), _Interrupted(Parts(tmp_path / "parts"), "key"), [["a"], ["b"]])


@pytest.mark.nightly
def test_faults_of_text_are_sentences(tmp_path: Path, large: Path) -> None:
    given = {"problem": "text2text", "source_dir": large, "languages": "en-de", "vocab_size": 20}
    cases = {
        "vocab_size=20 is too small: the text's characters alone need": (2, []),
        "train.de, line 9001: byte 0xff at column 1 is not UTF-8": (1, [TWO_PROCESSES]),
    }
    for message, (status, more) in cases.items():
        if "0xff" in message:
            lines = (large / "train.de").read_bytes().split(b"\n")
            (large / "train.de").write_bytes(b"\n".join([*lines[:9000], b"\xff", *lines[9001:]]))
        process = _datagen(tmp_path / "data", given, "--runner=beam", *more)
        _, err = process.communicate(timeout=120)
        assert process.returncode == status
        assert message in err.splitlines()[-1]
        assert "Traceback" not in err or TWO_PROCESSES in more  # Beam's own worker processes print theirs
