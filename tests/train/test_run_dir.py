"""The run's folder: its files come back, it can be moved, what is odd in it is told."""

import dataclasses
import json
import os
from pathlib import Path

import pytest

from t2t_lite import config, registry
from t2t_lite.errors import DataError, UsageError
from t2t_lite.train.run_dir import GivenVocabulary, RunSpec, check_same, has_run, read_run, relative_data_dir, write_run


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
    assert not has_run(folder)
    write_run(folder, _spec())
    assert has_run(folder)
    assert read_run(folder) == _spec()
    assert {path.name for path in folder.iterdir()} == {"hparams.json", "problem.json"}
    problem = read_run(folder).make_problem()
    assert (problem.name, problem.options()) == ("toy_reverse", {"train_size": 50})


def test_a_given_vocabulary_and_the_datas_checksum_come_back(tmp_path: Path) -> None:
    spec = _spec(vocabulary=GivenVocabulary("/runs/first", "ab" * 32, "cd" * 32), data_sha256="ef" * 32)
    write_run(tmp_path, spec)
    assert read_run(tmp_path) == spec
    path = tmp_path / "problem.json"
    path.write_text(path.read_text().replace('"source"', '"sauce"'))
    with pytest.raises(DataError, match=r"problem.json: vocabulary cannot be \{.*; the file is damaged"):
        read_run(tmp_path)


def test_the_files_are_for_people_too(tmp_path: Path) -> None:
    write_run(tmp_path, _spec(options={"source_dir": "/daten/Übung"}))
    assert json.loads((tmp_path / "problem.json").read_text(encoding="utf-8")) == {
        "problem": "toy_reverse",
        "options": {"source_dir": "/daten/Übung"},
        "data_dir": "data",
        "usr_dir": None,
    }
    values = json.loads((tmp_path / "hparams.json").read_text(encoding="utf-8"))
    assert (values["hparams_set"], values["model"]) == ("tiny", "transformer")
    assert values["hparams"] == config.to_dict(_spec().hparams)
    assert "Übung" in (tmp_path / "problem.json").read_text(encoding="utf-8")


def test_writing_again_replaces_the_run_whole(tmp_path: Path) -> None:
    write_run(tmp_path, _spec())
    write_run(tmp_path, _spec(hparams_set="small"))
    assert read_run(tmp_path).hparams_set == "small"
    assert len(list(tmp_path.iterdir())) == 2


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


def test_an_output_dir_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UsageError, match="--output_dir=.*file.* is not a folder"):
            write_run(folder, _spec())


def test_no_run_is_an_error_that_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no run .no hparams.json.* t2t-lite-trainer --problem=... "):
        read_run(tmp_path)


def _remove(path: Path) -> None:
    path.unlink()


def _cut(path: Path) -> None:
    path.write_text(path.read_text()[:40])


def _list(path: Path) -> None:
    path.write_text("[1, 2]\n")


def _rename_entry(path: Path) -> None:
    path.write_text(path.read_text().replace('"options"', '"choices"'))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_remove, "problem.json is missing; this run cannot be opened without it"),
        (_cut, "problem.json is not JSON: "),
        (_list, "problem.json does not hold a JSON object"),
        (_rename_entry, "has no entry 'options'; it is not of this t2t-lite"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, damage: object, message: str) -> None:
    write_run(tmp_path, _spec())
    damage(tmp_path / "problem.json")  # type: ignore[operator]
    with pytest.raises(DataError, match=message):
        read_run(tmp_path)


def test_an_unknown_hparam_in_the_file_is_named(tmp_path: Path) -> None:
    write_run(tmp_path, _spec())
    path = tmp_path / "hparams.json"
    path.write_text(path.read_text().replace('"dropout"', '"dropuot"'))
    with pytest.raises(UsageError, match="there is no 'dropuot'. Did you mean 'dropout'"):
        read_run(tmp_path)


def test_a_run_goes_on_only_with_the_settings_that_decide_its_updates(tmp_path: Path) -> None:
    old = _spec()
    steering = config.replace(
        old.hparams, train_steps=9999, log_every=1, eval_every=7, keep_checkpoints=2, beam_size=1, jit="off"
    )
    check_same(old, _spec(hparams=steering), tmp_path)
    check_same(old, _spec(hparams_set="other", data_dir="elsewhere", usr_dir="there"), tmp_path)
    given, moved, other = (GivenVocabulary(*texts) for texts in (("a", "1", "2"), ("b", "1", "2"), ("a", "3", "2")))
    check_same(_spec(vocabulary=given), _spec(vocabulary=moved), tmp_path)
    with pytest.raises(UsageError, match=r"\n  vocabulary: a \(checksum 1\.\.\.\) -> a \(checksum 3\.\.\.\)\n"):
        check_same(_spec(vocabulary=given), _spec(vocabulary=other), tmp_path)
    changed = _spec(
        problem="toy_ende", options={"train_size": 60}, hparams=config.replace(steering, dropout=0.5, seed=2)
    )
    with pytest.raises(UsageError) as caught:
        check_same(old, changed, tmp_path)
    assert str(caught.value).split("\n") == [
        f"{tmp_path} holds a run that was started with other settings:",
        "  problem: 'toy_reverse' -> 'toy_ende'",
        "  options: {'train_size': 50} -> {'train_size': 60}",
        "  dropout: 0.25 -> 0.5",
        "  seed: 1 -> 2",
        "Go on with the old settings, or give another --output_dir.",
    ]


def test_the_folders_of_a_problem_may_move(tmp_path: Path) -> None:
    def spec(folder: str, languages: str) -> RunSpec:
        return _spec(problem="text2text", options={"source_dir": folder, "languages": languages})

    check_same(spec("/a", "en-de"), spec("/b", "en-de"), tmp_path)
    with pytest.raises(UsageError, match=r"\n  options: \{.*en-de.*\} -> \{.*en-fr.*\}\n"):
        check_same(spec("/a", "en-de"), spec("/b", "en-fr"), tmp_path)


def test_a_run_of_ones_own_problem_imports_it_from_where_it_was_or_has_moved_to(tmp_path: Path) -> None:
    plugin = tmp_path / "mine"
    plugin.mkdir()
    (plugin / "of_the_run_dir_test.py").write_text(
        "from t2t_lite import config, registry\n\n\n"
        "@registry.register_hparams\ndef of_the_run_dir_test():\n    '''A recipe.'''\n"
        "    return config.HParams(d_model=24, num_heads=2)\n"
    )
    spec = _spec(usr_dir=str(tmp_path / "gone"), hparams_set="of_the_run_dir_test")
    write_run(tmp_path / "run", spec)
    with pytest.raises(UsageError, match="gone"):
        read_run(tmp_path / "run")
    assert read_run(tmp_path / "run", str(plugin)).usr_dir == str(plugin)
