"""t2t-lite-synthesize: its pairs are what the decoder writes, and prepared data know where they come from."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from t2t_lite import registry
from t2t_lite.cli import common, decoder, line_source, synthesize
from t2t_lite.data.prepare import prepare
from t2t_lite.decoding.line_translator import Hypothesis
from t2t_lite.decoding.quality import QualityEstimate
from t2t_lite.errors import DataError
from t2t_lite.files import sha256_of
from t2t_lite.runs.run_dir import write_run
from tests.cli import untrained

LINES = ["a small dog", "", "the cat sees\ta dog", 'a "big" cat', "a dog", "the big big big big cat sees a small dog"]
SAMPLES = ["--sampler=nucleus", "--sampler_options=top_p=0.8", "--seed=3"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untrained.make_run(tmp_path_factory.mktemp("run"), 2)


@pytest.fixture(scope="module")
def mono(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mono") / "mono.en"
    path.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return path


def _synthesize(run: Path, mono: Path, corpus: Path, *flags: str) -> list[dict[str, str]]:
    assert synthesize.main([f"--output_dir={run}", f"--input={mono}", f"--corpus={corpus}", *flags]) == 0
    return [json.loads(row) for row in (corpus / "train.jsonl").read_text(encoding="utf-8").splitlines()]


def _decode(run: Path, mono: Path, out: Path, *flags: str) -> list[dict[str, Any]]:
    assert (
        decoder.main([f"--output_dir={run}", f"--input={mono}", f"--output={out}", "--json", "--quality", *flags]) == 0
    )
    rows = [json.loads(row) for row in out.read_text(encoding="utf-8").splitlines()]
    return [{"line": row["input"], **row["outputs"][0]} for row in rows]


def _provenance(corpus: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((corpus / "synthesis.json").read_text())
    return found


@pytest.mark.nightly
@pytest.mark.parametrize("flags", [[], SAMPLES])
def test_pairs_are_lines_and_what_the_decoder_writes(run: Path, mono: Path, tmp_path: Path, flags: list[str]) -> None:
    rows = _decode(run, mono, tmp_path / "out", *flags)
    wanted = [one for one in rows if one["line"].strip() and one["text"].strip()]
    least = sorted(one["quality"]["mean_log_prob"] for one in wanted)[2] - 1e-4
    pairs = _synthesize(run, mono, tmp_path, "--tag", f"--min_log_prob={least}", *flags)
    likely = [one for one in wanted if one["quality"]["mean_log_prob"] > least]
    assert pairs == [{"en": one["line"], "de": f"<BT> {one['text']}"} for one in likely]
    assert 0 < len(pairs) < len(wanted)

    found, [weights] = _provenance(tmp_path), _provenance(tmp_path)["weights"]
    assert found["input"] == {"name": "mono.en", "sha256": sha256_of(mono), "lines": len(LINES)}
    output = {"name": "train.jsonl", "sha256": sha256_of(tmp_path / "train.jsonl"), "pairs": len(pairs)}
    assert found["output"] == output
    checksum = sha256_of(run / "checkpoints/model-7.index")
    assert weights == {"run": str(run), "path": "checkpoints/model-7", "step": 7, "checksum": f"sha256:{checksum}"}
    settings = found["settings"]
    assert settings["pairs"] == {"languages": ["en", "de"], "tag": "<BT>", "min_log_prob": least, "max_ratio": None}
    if flags:
        assert (settings["sampler"], settings["sampler_options"], settings["seed"]) == ("nucleus", {"top_p": "0.8"}, 3)


@pytest.mark.parametrize(
    ("pairs", "line", "output", "quality", "written"),
    [
        ({}, 'a "b"\tc', "d\ne", None, {"en": 'a "b"\tc', "de": "d\ne"}),
        ({"tag": "<X>"}, "a", "b", None, {"en": "a", "de": "<X> b"}),
        ({"tag": "<X>"}, "a", " ", None, None),
        ({}, " ", "b", None, None),
        ({"min_log_prob": -1.0}, "a", "b", -0.9, {"en": "a", "de": "b"}),
        ({"min_log_prob": -1.0}, "a", "b", -1.1, None),
        ({"min_log_prob": 0.0}, "a", "b", -0.1, None),
        ({"max_ratio": 2.0, "tag": "<X>"}, "a", "b c", None, {"en": "a", "de": "<X> b c"}),
        ({"max_ratio": 2.0}, "a", "b c d", None, None),
        ({"max_ratio": 2.0}, "a b c", "d", None, None),
    ],
)
def test_which_pairs_are_written(
    pairs: dict[str, Any], line: str, output: str, quality: float | None, written: dict[str, str] | None
) -> None:
    form = synthesize.Pairs(("en", "de"), **{"tag": "", "min_log_prob": None, "max_ratio": None, **pairs})
    estimate = None if quality is None else QualityEstimate(quality, 1.0)
    found = form.format(line, [Hypothesis(output, -1.0, quality=estimate)])
    assert (json.loads(found) if found else None) == written
    assert found.count("\n") == bool(found)


@pytest.mark.nightly
def test_an_ensemble_and_parts_of_the_input(run: Path, mono: Path, tmp_path: Path) -> None:
    both = Path(f"{run},{untrained.make_run(tmp_path / 'other', 2)}")
    whole = _synthesize(both, mono, tmp_path / "whole", *SAMPLES)
    assert len(_provenance(tmp_path / "whole")["weights"]) == 2
    parts = []
    for i in (1, 2):
        flags = [
            f"--output_dir={both}",
            f"--input={mono}",
            f"--corpus={tmp_path / 'parts'}",
            f"--shard={i}/2",
            *SAMPLES,
        ]
        assert synthesize.main(flags) == 0
        text = (tmp_path / f"parts/{i}-of-2/train.jsonl").read_text(encoding="utf-8")
        parts += [json.loads(row) for row in text.splitlines()]
        assert _provenance(tmp_path / f"parts/{i}-of-2")["settings"]["shard"] == [i, 2]
    assert parts == whole


@pytest.mark.nightly
def test_a_stopped_command_resumes(
    run: Path, mono: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(line_source, "BLOCK", 2)
    wanted = _synthesize(run, mono, tmp_path / "whole", "--tag")
    flags = [f"--output_dir={run}", f"--input={mono}", f"--corpus={tmp_path / 'part'}", "--tag"]
    calls = []

    def stop(interrupts: common.Interrupts) -> None:
        calls.append(1)
        if len(calls) > 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(common.Interrupts, "check", stop)
        assert synthesize.main(flags) == 130
    assert "The same command with --resume continues." in capsys.readouterr().err
    assert not (tmp_path / "part/train.jsonl").exists()
    assert synthesize.main([*flags[:3], "--resume"]) == 2
    assert "begun with other settings:\n  pairs: " in capsys.readouterr().err
    assert _synthesize(run, mono, tmp_path / "part", "--tag", "--resume") == wanted
    assert "Resuming after " in capsys.readouterr().err
    ours, theirs = _provenance(tmp_path / "part"), _provenance(tmp_path / "whole")
    assert ours == theirs


@pytest.mark.commit
def test_prepared_data_know_where_pairs_come_from(
    run: Path, mono: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    real, back = tmp_path / "real", tmp_path / "back"
    real.mkdir()
    for side in ("en", "de"):
        for split in ("train", "dev"):
            (real / f"{split}.{side}").write_text("ein Hund\nein Haus\nder kleine Hund\n")
    number = len(_synthesize(run, mono, back, "--tag"))

    def make(where: str) -> Any:
        options = {"source_dir": f"{real},{back}:2", "languages": "de-en", "vocab_size": 60, "keep_whole": "<BT>"}
        return prepare(registry.PROBLEMS.get("text2text")(**options), tmp_path / where, num_workers=1)

    store = make("data")
    assert store.manifest["synthetic"] == [_provenance(back)]
    assert store.manifest["splits"]["train"]["pairs"] == 3 + 2 * number
    first = store.split("train").source[3].tolist()
    assert "<BT>" in store.source_vocabulary.pieces(first)  # one piece
    with (back / "train.jsonl").open("a") as file:
        file.write('{"de": "x", "en": "y"}\n')
    assert "has changed since t2t-lite-synthesize wrote it" not in caplog.text
    assert make("changed").manifest["synthetic"] == store.manifest["synthetic"]
    assert "train.jsonl has changed since t2t-lite-synthesize wrote it; its synthesis.json is kept." in caplog.text
    (back / "synthesis.json").write_text("{}")
    with pytest.raises(DataError, match="Make the corpus again with t2t-lite-synthesize"):
        make("damaged")
    (back / "synthesis.json").unlink()
    assert "synthetic" not in make("plain").manifest


@pytest.mark.commit
def test_what_is_refused(run: Path, mono: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = [f"--output_dir={run}", f"--corpus={tmp_path / 'corpus'}"]
    with pytest.raises(SystemExit) as ended:
        synthesize.main([*flags, "--input=/dev/null"])
    assert ended.value.code == 2
    assert "--input=/dev/null is no file" in capsys.readouterr().err
    assert synthesize.main([f"--output_dir={run}", f"--input={mono}", f"--corpus={mono}"]) == 2
    assert "mono.en is not a folder" in capsys.readouterr().err
    for problem, options, message in (
        ("toy_parsing", {}, "writes trees; t2t-lite-synthesize makes pairs of texts"),
        ("text2text", {"source_dir": "x", "languages": "en-de,en-fr"}, "en into de+fr, and a corpus has one pair of"),
    ):
        other = tmp_path / problem
        shutil.copytree(run, other)
        write_run(other, dataclasses.replace(untrained.write_spec(other, 2), problem=problem, options=options))
        assert synthesize.main([f"--output_dir={other}", f"--input={mono}", *flags[1:]]) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "corpus").exists()


@pytest.mark.parametrize("least", ["nan", "-inf", "0.5", "low"])
def test_a_limit_that_is_no_log_probability(least: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        synthesize.main(["--output_dir=run", "--input=in", "--corpus=out", f"--min_log_prob={least}"])
    assert ended.value.code == 2
    assert f"{least} is not a mean log-probability, which is at most 0, such as -1.5" in capsys.readouterr().err
