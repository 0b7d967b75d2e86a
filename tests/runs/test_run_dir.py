"""The run's folder: its files come back, it can be moved, and errors in it are reported."""

import dataclasses
import json
import os
from pathlib import Path

import pytest

from t2t_lite import config, registry
from t2t_lite.errors import DataError, UsageError
from t2t_lite.runs.resume import check_settings
from t2t_lite.runs.run_dir import (
    GivenVocabulary,
    RunSpec,
    read_code_folder,
    read_run,
    relative_data_dir,
    write_run,
)

NOT_UTF_8 = os.fsdecode(b"/\xfcbung")


def _spec(**changes: object) -> RunSpec:
    spec = RunSpec(
        problem="toy_reverse",
        options={"train_size": 50},
        data_dir="data",
        usr_dir=None,
        hparams_set="tiny",
        model="transformer",
        hparams=config.replace(registry.hparams("tiny"), dropout=0.25, norm="pre", packing=True),
    )
    return dataclasses.replace(spec, **changes)  # type: ignore[arg-type]


def test_a_run_comes_back_as_it_was_written(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "run"
    vocabulary = GivenVocabulary("/runs/first", "ab" * 32, "cd" * 32)
    for spec in (_spec(), _spec(vocabulary=vocabulary, data_sha256="ef" * 32, usr_dir=None, options={"a": NOT_UTF_8})):
        write_run(folder, spec)
        assert read_run(folder) == spec
    assert {path.name for path in folder.iterdir()} == {"hparams.json", "problem.json"}


def test_the_files_are_for_people_too(tmp_path: Path) -> None:
    write_run(tmp_path, _spec(options={"source_dir": "/daten/Übung"}))
    problem = json.loads((tmp_path / "problem.json").read_text(encoding="utf-8"))
    assert len(problem.pop("sha256")) == 64
    assert problem == {
        "format": 1,
        "problem": "toy_reverse",
        "options": {"source_dir": "/daten/Übung"},
        "data_dir": "data",
        "usr_dir": None,
        "vocabulary": None,
        "data_sha256": None,
        "files": {},
    }
    values = json.loads((tmp_path / "hparams.json").read_text(encoding="utf-8"))
    assert (values["hparams_set"], values["model"]) == ("tiny", "transformer")
    assert values["hparams"] == config.to_dict(_spec().hparams)
    assert "Übung" in (tmp_path / "problem.json").read_text(encoding="utf-8")


def test_data_inside_the_run_moves_with_it(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert relative_data_dir(None, run) == "data"
    assert relative_data_dir(run / "my" / "data", run) == os.path.join("my", "data")
    outside = relative_data_dir(tmp_path / "data", run)
    assert outside == str((tmp_path / "data").resolve())
    write_run(run, _spec(data_dir=relative_data_dir(run / "my" / "data", run)))
    os.rename(run, tmp_path / "moved")
    moved = read_run(tmp_path / "moved")
    assert moved.data_folder(tmp_path / "moved") == tmp_path / "moved" / "my" / "data"
    assert _spec(data_dir=outside).data_folder(tmp_path / "moved") == tmp_path.resolve() / "data"


def test_a_run_goes_on_only_with_the_settings_that_decide_its_updates(tmp_path: Path) -> None:
    old = _spec()
    steering = config.replace(
        old.hparams, train_steps=9999, log_every=1, eval_every=7, keep_checkpoints=2, beam_size=1, jit="off"
    )
    check_settings(old, _spec(hparams=steering), tmp_path)
    check_settings(old, _spec(hparams_set="other", data_dir="elsewhere", usr_dir="there"), tmp_path)
    given, moved, other = (GivenVocabulary(*texts) for texts in (("a", "1", "2"), ("b", "1", "2"), ("a", "3", "2")))
    check_settings(_spec(vocabulary=given), _spec(vocabulary=moved), tmp_path)
    with pytest.raises(UsageError, match=r"\n  vocabulary: a \(checksum 1\.\.\.\) -> a \(checksum 3\.\.\.\)\n"):
        check_settings(_spec(vocabulary=given), _spec(vocabulary=other), tmp_path)
    changed = _spec(
        problem="toy_ende", options={"train_size": 60}, hparams=config.replace(steering, dropout=0.5, seed=2)
    )
    with pytest.raises(UsageError) as caught:
        check_settings(old, changed, tmp_path)
    assert str(caught.value).split("\n") == [
        f"{tmp_path} holds a run that was started with other settings:",
        "  problem: 'toy_reverse' -> 'toy_ende'",
        "  options: {'train_size': 50} -> {'train_size': 60}",
        "  dropout: 0.25 -> 0.5",
        "  seed: 1 -> 2",
        "Resume with the old settings, or give another --output_dir.",
    ]


def test_the_folders_of_a_problem_may_move(tmp_path: Path) -> None:
    def spec(folder: str, languages: str) -> RunSpec:
        return _spec(problem="text2text", options={"source_dir": folder, "languages": languages})

    check_settings(spec("/a", "en-de"), spec("/b", "en-de"), tmp_path)
    with pytest.raises(UsageError, match=r"\n  options: \{.*en-de.*\} -> \{.*en-fr.*\}\n"):
        check_settings(spec("/a", "en-de"), spec("/b", "en-fr"), tmp_path)


PLUGIN = (
    "from pathlib import Path\nfrom t2t_lite import registry\n"
    "from t2t_lite.models.transformer_hparams import TransformerHParams\n\n\n"
    "Path(__file__).with_suffix('.was_run').touch()\n\n\n"
    "@registry.register_hparams\ndef NAME():\n    '''A recipe.'''\n"
    "    return TransformerHParams(d_model=24, num_heads=2)\n"
)


def test_the_code_that_a_run_names_is_imported_only_when_it_is_given_again(tmp_path: Path) -> None:
    plugin = tmp_path / "mine"
    plugin.mkdir()
    (plugin / "of_the_run_dir_test.py").write_text(PLUGIN.replace("NAME", "of_the_run_dir_test"))
    write_run(tmp_path / "run", _spec(usr_dir=str(plugin), hparams_set="of_the_run_dir_test"))
    with pytest.raises(UsageError) as caught:
        read_run(tmp_path / "run")
    assert not (plugin / "of_the_run_dir_test.was_run").exists()
    assert str(caught.value) == (
        f"{tmp_path}/run was trained with code of its own, from {plugin}. Code can do whatever you can, so it is "
        f"imported only when you say so: --usr_dir={plugin} (read it first if the run is not yours), or --trust_run "
        "for the folder that the run names."
    )
    assert read_code_folder(tmp_path / "run") == str(plugin)
    os.rename(plugin, tmp_path / "moved")
    assert read_run(tmp_path / "run", str(tmp_path / "moved")).usr_dir == str(tmp_path / "moved")
    assert (tmp_path / "moved" / "of_the_run_dir_test.was_run").exists()


@pytest.mark.nightly
def test_a_flipped_bit_is_never_taken_for_a_setting(tmp_path: Path) -> None:
    """Flips each bit of both files: the run is refused, or it is the same run."""
    write_run(tmp_path, _spec(data_sha256="ef" * 32, files={"vocabulary.model": "ab" * 32}))
    good = read_run(tmp_path)
    refused = 0
    for path in (tmp_path / "hparams.json", tmp_path / "problem.json"):
        content = path.read_bytes()
        for place in range(len(content)):
            bad = bytearray(content)
            bad[place] ^= 1 << place % 8
            path.write_bytes(bad)
            try:
                assert read_run(tmp_path) == good
            except (DataError, UsageError):
                refused += 1
        path.write_bytes(content)
    assert refused > 1000


def test_the_damaged_file_is_named_and_the_order_of_entries_is_free(tmp_path: Path) -> None:
    write_run(tmp_path, _spec())
    path = tmp_path / "hparams.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps(dict(reversed(values.items()))))
    assert read_run(tmp_path) == _spec()
    path.write_text(json.dumps({**values, "hparams": {**values["hparams"], "seed": 7}}))
    with pytest.raises(DataError, match=r"hparams.json is damaged or was edited by hand\."):
        read_run(tmp_path)
    path.write_text(json.dumps(values)[:40])
    with pytest.raises(DataError, match=r"hparams.json is damaged \(JSONDecodeError: "):
        read_run(tmp_path)
    path.write_text(json.dumps({**values, "format": 2}))
    with pytest.raises(DataError, match="has the format number 2; this version of t2t-lite reads format 1"):
        read_run(tmp_path)
    (tmp_path / "problem.json").unlink()
    with pytest.raises(DataError, match="problem.json is missing; this run cannot be opened without it"):
        read_run(tmp_path)


def test_a_folder_without_hparams_json_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no run .no hparams.json.* t2t-lite-trainer --problem=... "):
        read_run(tmp_path)
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "model-3.index").touch()
    with pytest.raises(
        DataError, match=r"holds checkpoints, but no hparams.json.*t2t-lite-trainer with the flags that"
    ):
        read_run(tmp_path)
