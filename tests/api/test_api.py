"""The Python interface compared with the commands: a run gives the same translations, scores and attention."""

import json
import logging
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import t2t_lite
from t2t_lite import registry
from t2t_lite.api.load import LoadedExport, LoadedRun
from t2t_lite.decoding.translate import pad
from t2t_lite.errors import DataError, UsageError
from t2t_lite.ids import EOS
from tests import commands
from tests.api.conftest import LINES, RECIPE

pytestmark = pytest.mark.commit


def _decoded(folder: Path, *flags: str) -> list[str]:
    done = commands.run("t2t_lite.cli.decoder", f"--output_dir={folder}", *flags, input="\n".join(LINES).encode())
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().split("\n")[: len(LINES)]


def test_translations_are_the_commands(run: LoadedRun, folder: Path) -> None:
    found = run.translate(LINES)
    assert found == _decoded(folder)
    assert found[1] == ""
    assert any(found)
    assert run.translate(LINES, beam_size=1) == _decoded(folder, "--beam_size=1")
    assert run.translate([]) == []


@pytest.mark.nightly
def test_prefixes_are_the_commands(run: LoadedRun, folder: Path, tmp_path: Path) -> None:
    prefixes = ["The", *[""] * (len(LINES) - 1)]
    file, lines = tmp_path / "prefixes", tmp_path / "lines"
    file.write_text("\n".join(prefixes) + "\n")
    lines.write_text("\n".join(LINES) + "\n")
    found = run.translate(LINES, prefixes=prefixes)
    assert found == _decoded(folder, f"--prefix={file}", f"--input={lines}")
    assert found[0].startswith("The")
    assert found[1:] == run.translate(LINES)[1:]
    file.write_text("The\n")
    done = commands.run("t2t_lite.cli.decoder", f"--output_dir={folder}", f"--prefix={file}", f"--input={lines}")
    assert done.returncode == 1
    assert f"prefixes has 1 lines, and the input {len(LINES)}; line N is for line N." in done.stderr.decode()
    with pytest.raises(UsageError, match="Prefixes are of lines; with split_sentences"):
        run.translate(LINES, prefixes=prefixes, split_sentences=True)


@pytest.mark.nightly
def test_minimum_bayes_risk_is_the_commands(run: LoadedRun, folder: Path, tmp_path: Path) -> None:
    assert run.translate(LINES, decode="mbr") == _decoded(folder, "--decode=mbr")
    how: dict[str, Any] = {"decode": "mbr", "mbr_samples": 8, "mbr_utility": "bleu", "seed": 4}
    found = run.nbest(LINES, 2, **how, temperature=2)
    flags = ["--decode=mbr", "--mbr_samples=8", "--mbr_utility=bleu", "--seed=4", "--sampler_options=temperature=2"]
    for row, best in zip(_decoded(folder, *flags, "--nbest=2", "--json"), found, strict=True):
        outputs = json.loads(row)["outputs"]
        assert [output["text"] for output in outputs] == [one.text for one in best]
        assert [output["score"] for output in outputs] == pytest.approx([one.score for one in best], abs=1e-3)
    lines, out = tmp_path / "in", tmp_path / "out"
    lines.write_text("".join(f"{line}\n" for line in LINES))
    flags = [
        f"--output_dir={folder}",
        f"--input={lines}",
        f"--output={out}",
        "--sampler_options=temperature=2",
        *flags[:4],
    ]
    assert commands.run("t2t_lite.cli.decoder", *flags).returncode == 0
    assert out.read_text().split("\n")[:-1] == run.translate(LINES, **how, temperature=2)
    assert run.translate(LINES, **how, sampler="random") != run.translate(LINES, **{**how, "seed": 5}, sampler="random")


@pytest.mark.nightly
def test_minimum_bayes_risk_that_is_none(run: LoadedRun, export: Path) -> None:
    for how, message in (
        ({"mbr_samples": 4}, "there is only decode='mbr', and mbr_samples and mbr_utility go with it"),
        ({"decode": "beam"}, "there is only decode='mbr'"),
        ({"decode": "mbr", "mbr_samples": 0}, "mbr_samples=0 is not a positive integer"),
        ({"decode": "mbr", "mbr_samples": 1001}, "n=1001: a sampler draws at most 1,000"),
        ({"decode": "mbr", "sampler": "random"}, "A sampler with decode='mbr' needs mbr_samples=N"),
        ({"decode": "mbr", "mbr_utility": "blue"}, "There is no metric called 'blue'"),
    ):
        with pytest.raises(UsageError, match=message):
            run.translate(LINES, **how)
    with pytest.raises(UsageError, match="the search of an export is fixed"):
        t2t_lite.load(export).translate(LINES, decode="mbr")


def test_numbers_of_numpy_are_settings(run: LoadedRun) -> None:
    found = run.nbest(LINES[:1], np.int64(2), beam_size=np.arange(4)[2], length_penalty=np.linspace(0, 1, 6)[1])
    assert found == run.nbest(LINES[:1], 2, beam_size=2, length_penalty=0.2)


def test_limits_need_no_graph_of_their_own(run: LoadedRun, caplog: pytest.LogCaptureFixture) -> None:
    wanted, before = run.translate(LINES), len(run._made)
    own = run._run.translator
    for limit in (300, 310):
        same: dict[str, Any] = {name: getattr(own.decode, name) for name in ("beam_size", "length_penalty")}
        assert run.translate(LINES, decode_batch_tokens=limit, max_source_length=limit, **same) == wanted
    assert (len(run._made), own.search_graph.traces) == (before, 1)
    assert run.translate(LINES, max_source_length=2) != wanted
    assert "inputs are longer than max_source_length=2 pieces" in caplog.text
    assert run.translate(LINES) == wanted


@pytest.mark.nightly
def test_runs_in_a_list_are_an_ensemble(run: LoadedRun, folder: Path, export: Path) -> None:
    both = t2t_lite.load([folder / "best", str(folder / "best")])
    one = t2t_lite.load([folder / "best"])
    assert isinstance(both, LoadedRun)
    assert isinstance(one, LoadedRun)
    assert both.checkpoint == f"{one.checkpoint}, {one.checkpoint}"
    assert both.translate(LINES, max_source_length=20) == one.translate(LINES, max_source_length=20)
    for found, wanted in zip(both.score(PAIRS), one.score(PAIRS), strict=True):
        assert found.log_prob == pytest.approx(wanted.log_prob, abs=1e-4)
    with pytest.raises(UsageError, match="An Ensemble has no attention to show"):
        both.attention(LINES[0])
    for paths, message in (
        ([folder, folder / "best"], "give the runs, or the same kind of checkpoint of each"),
        ([export, folder], r"An ensemble is made of runs; t2t-lite-exporter --output_dir=A,B exports one"),
        ([], r"load takes a path, or a list of the runs of an ensemble, not \[\]"),
        (3, "load takes a path, or a list of the runs of an ensemble, not 3"),
    ):
        with pytest.raises(UsageError, match=message):
            t2t_lite.load(paths)  # type: ignore[arg-type]


@pytest.mark.nightly
def test_runs_opened_and_trained_one_after_the_other_bring_no_advice_of_tensorflow(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("tensorflow"), "propagate", True)
    for steps in range(1, 6):
        recipe = RECIPE | {"train_steps": steps, "save_every": 1, "eval_every": 1}
        t2t_lite.train("toy_ende", "tiny", folder.parent / "again", overrides=recipe, num_workers=1)
        t2t_lite.load(folder).score(PAIRS)
    assert "retracing" not in caplog.text


def test_as_many_outputs_as_the_beam_has(run: LoadedRun) -> None:
    beam = run._run.translator.decode.beam_size
    assert [len(best) for best in run.nbest(LINES[:2], 2, beam_size=2)] == [2, 2]
    for n, search in ((beam + 1, {}), (0, {}), (-1, {}), (3, {"beam_size": 2})):
        size = search.get("beam_size", beam)
        with pytest.raises(UsageError, match=rf"n={n} must be from 1 to the beam size, {size}\. For a run, give beam_"):
            run.nbest(LINES[:2], n, **search)


def test_lines_and_pairs_that_come_one_by_one(run: LoadedRun, tmp_path: Path) -> None:
    (tmp_path / "in.de").write_text("".join(f"{line}\n" for line in LINES))
    with open(tmp_path / "in.de") as lines:
        assert run.translate(lines) == run.translate(LINES)
    assert run.score(zip(*zip(*PAIRS, strict=True), strict=True)) == run.score(PAIRS) != []


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_end_of_a_line_is_not_read(run: LoadedRun, tmp_path: Path, end: str) -> None:
    """In the lines of open files, and in the command's files."""
    files = [tmp_path / "in.de", tmp_path / "in.en"]
    for path, side in zip(files, zip(*PAIRS, strict=True), strict=True):
        path.write_text("".join(f"{line}\n" for line in side), newline=end)
    with open(files[0], newline="") as sources, open(files[1], newline="") as targets:
        found = run.score(zip(sources, targets, strict=True))
    assert found == run.score(PAIRS)
    flags = [f"--output_dir={Path(run.checkpoint).parents[1]}", f"--sources={files[0]}", f"--targets={files[1]}"]
    done = commands.run("t2t_lite.cli.eval", "--score", "--json", *flags)
    rows = [json.loads(row) for row in done.stdout.splitlines()]
    assert [row["tokens"] for row in rows] == [pair.tokens for pair in found]
    np.testing.assert_allclose([row["log_prob"] for row in rows], [pair.log_prob for pair in found], rtol=1e-5)
    with open(files[0], newline="") as lines:
        assert run.nbest(lines, 2) == run.nbest(LINES, 2)
    plain, read = (run.attention(*(f"{side}{last}" for side in PAIRS[3])) for last in ("", end))
    assert (read.source, read.translations[0].target) == (plain.source, plain.translations[0].target)


@pytest.mark.parametrize("line", [None, 1, b"ein Haus", ["ein Haus"]])
def test_a_line_that_is_no_string_is_said(run: LoadedRun, line: Any) -> None:
    calls = [
        lambda: run.translate(["ein Haus", line]),
        lambda: run.nbest([line], 2),
        lambda: run.score([("ein Haus", line)]),
        lambda: run.attention(line),
    ]
    for call in calls + [lambda: run.attention("ein Haus", line)] * (line is not None):  # None: no target
        with pytest.raises(UsageError, match=rf"of the type {type(line).__name__}, but a line of text is expected"):
            call()


def test_half_a_character_is_said(run: LoadedRun) -> None:
    half = "ein \ud800 Haus"  # as JSON may hold it
    for call in (
        lambda: run.translate(["ein Haus", half]),
        lambda: run.score([("ein Haus", half)]),
        lambda: run.score([(half, "a house")]),
        lambda: run.attention(half),
        lambda: run.attention("ein Haus", half),
    ):
        with pytest.raises(UsageError, match=r"'\\ud800' in a line is not a character"):
            call()


PAIRS = [("ein Haus", "a house"), ("", "a house"), ("der Hund schläft", ""), (LINES[3], "the small cat sees the dog")]


@pytest.mark.nightly
def test_scores_of_words_are_the_commands(run: LoadedRun, folder: Path, tmp_path: Path) -> None:
    rows = [json.loads(row) for row in _decoded(folder, "--json", "--nbest=2", "--word_scores", "--quality")]
    for row, found in zip(rows, run.nbest(LINES, 2, word_scores=True, quality=True), strict=True):
        for output, one in zip(row["outputs"], found, strict=True):
            assert one.words is not None
            assert output.get("quality") == (one.quality and pytest.approx(one.quality.as_dict(), abs=1e-4))
            assert (one.quality is None) == (row["input"] == "")
            assert [text for text, _ in output["words"]] == [text for text, _ in one.words.words]
            for name, pairs in (("words", one.words.words), ("pieces", one.words.pieces)):
                np.testing.assert_allclose([v for _, v in output[name]], [v for _, v in pairs], atol=1e-4)
                assert sum(v for _, v in output[name]) == pytest.approx(output["log_prob"], abs=1e-4)
    sides = [tmp_path / "sources", tmp_path / "targets"]
    for path, side in zip(sides, zip(*PAIRS, strict=True), strict=True):
        path.write_text("".join(f"{line}\n" for line in side))
    flags = [f"--output_dir={folder}", "--score", f"--sources={sides[0]}", f"--targets={sides[1]}", "--word_scores"]
    done = commands.run("t2t_lite.cli.eval", *flags, "--json")
    for text, pair in zip(done.stdout.splitlines(), run.score(PAIRS, word_scores=True), strict=True):
        row = json.loads(text)
        assert pair.words is not None
        assert [text for text, _ in row["words"]] == [text for text, _ in pair.words.words]
        assert sum(v for _, v in row["words"]) == pytest.approx(row["log_prob"], abs=1e-4)
    done = commands.run("t2t_lite.cli.eval", *flags)
    assert done.returncode == 2
    assert b"--word_scores goes with --json" in done.stderr


def test_given_targets_score_as_the_models_logits_have_it(run: LoadedRun) -> None:
    """Scores are sums of log-probabilities of pieces, each given the ones before it, here in float64.

    A blank target counts as its end symbol, a blank source as no tokens.
    """
    translator = run._run.translator
    sides = (translator.source_vocabulary, translator.target_vocabulary)
    batch = [
        [[*vocabulary.encode(vocabulary.line(line)), EOS] for line in lines]
        for vocabulary, lines in zip(sides, zip(*PAIRS, strict=True), strict=True)
    ]
    logits = run.model(dict(zip(("source", "target"), map(pad, batch), strict=True))).numpy().astype(np.float64)
    by_piece = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    for (source, _), ids, values, found in zip(PAIRS, batch[1], by_piece, run.score(PAIRS), strict=True):
        assert found.tokens == (len(ids) if source else 0)
        total = values[np.arange(len(ids)), ids].sum() if source else 0.0
        assert found.log_prob == pytest.approx(total, abs=1e-4)


def test_a_checkpoint_is_opened_by_its_path(run: LoadedRun, folder: Path) -> None:
    step = t2t_lite.load(folder / "checkpoints" / "model-40")
    assert isinstance(step, LoadedRun)
    assert step.checkpoint.endswith("checkpoints/model-40")
    assert Path(t2t_lite.load(folder / "averaged").checkpoint).parent.name == "averaged"  # type: ignore[union-attr]
    chosen = Path(run.checkpoint)
    for path in (chosen, chosen.with_name(f"{chosen.name}.index")):
        assert t2t_lite.load(path).checkpoint == run.checkpoint  # type: ignore[union-attr]
    with pytest.raises(DataError, match=rf"model-7 is not there, or no longer: \S+ holds {chosen.name}\."):
        t2t_lite.load(chosen.with_name("model-7"))  # as after further updates
    same = t2t_lite.load(folder)
    assert same.translate(LINES) == run.translate(LINES)
    assert same.model.count_params() == run.model.count_params() > 0


@pytest.mark.nightly
def test_a_path_may_begin_with_the_home_folder(
    run: LoadedRun, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(folder, tmp_path / "run")
    (tmp_path / "my_code").mkdir()
    (tmp_path / "my_code" / "__init__.py").write_text("")
    monkeypatch.setenv("HOME", str(tmp_path))
    trained = t2t_lite.train("toy_ende", "tiny", "~/run", overrides=RECIPE, num_workers=1, usr_dir="~/my_code")
    for found in (trained, t2t_lite.load("~/run", usr_dir="~/my_code")):
        assert isinstance(found, LoadedRun)
        assert Path(found.checkpoint).parents[1] == tmp_path / "run"
        assert found.translate(LINES[:1]) == run.translate(LINES[:1])


@pytest.mark.nightly
def test_an_export_translates_as_the_run_does(run: LoadedRun, export: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for path in (export, export / "1"):
        capfd.readouterr()
        loaded = t2t_lite.load(path)
        assert isinstance(loaded, LoadedExport)
        assert capfd.readouterr() == ("", "")
        assert loaded.translate(LINES) == run.translate(LINES)
    for call in (lambda: loaded.model, lambda: loaded.score([("a", "b")]), lambda: loaded.attention("a")):
        with pytest.raises(UsageError, match=r"is an export, which has no .* Load the run instead\."):
            call()
    with pytest.raises(UsageError, match="the search of an export is fixed"):
        loaded.translate(LINES, beam_size=2)
    with pytest.raises(
        UsageError, match=r"n=5 must be from 1 to the beam size, 4\..* an export has the --beam_size of"
    ):
        loaded.nbest(LINES, 5)


@pytest.mark.usefixtures("int8_machine")
def test_a_run_in_int8_shows_no_attention_and_is_not_saved(folder: Path, tmp_path: Path) -> None:
    run = t2t_lite.load(folder, precision="int8")
    assert any(run.translate(LINES))
    with pytest.raises(UsageError, match="attention is not for a run loaded with precision='int8'"):
        run.attention(LINES[0])
    for save in (
        lambda: run.model.save(tmp_path / "x.keras"),
        lambda: run.model.save_weights(tmp_path / "x.weights.h5"),
    ):
        with pytest.raises(UsageError, match="Keras would save a Transformer without its int8 matrices"):
            save()


def test_wrong_arguments_are_said(run: LoadedRun, folder: Path, tmp_path: Path) -> None:
    def train(**settings: Any) -> None:
        t2t_lite.train("toy_ende", "tiny", tmp_path, **settings)

    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: run.translate("ein Haus"), "takes a list of lines, not one string"),
        (lambda: run.translate(None), "takes a list of lines, not None"),  # type: ignore[arg-type]
        *(
            (lambda given=given: run.translate(LINES, constraints=given), "takes a list of phrases for each line, such")
            for given in ("Hund", 5, ["Hund"] * len(LINES), [None] * len(LINES))
        ),
        *((lambda pairs=pairs: run.score(pairs), "takes a list of pairs") for pairs in (["ab"], [1], None)),
        (lambda: run.translate(LINES, sampler="random", top_k=3), "The sampler 'random' has no option 'top_k'"),
        (lambda: run.translate(LINES, sampler="random", beam_size=3), "beam_size is a setting of beam search, and"),
        (lambda: run.nbest(LINES, 1001, sampler="random"), "n=1001: a sampler draws at most 1,000 outputs of each"),
        (lambda: run.nbest(LINES, 1.5), r"n=1\.5 is not an integer"),  # type: ignore[arg-type]
        (lambda: run.translate(LINES, beam_size=[4]), r"beam_size=\[4\] is not an integer"),
        (lambda: run.translate(LINES, beam=3), r"beam is no setting of the search\. There are: .*beam_size"),
        (lambda: t2t_lite.load(tmp_path), "is neither a run, nor a checkpoint of one, nor an export"),
        (lambda: t2t_lite.load(folder / "data"), "is no checkpoint of"),
        (lambda: t2t_lite.load(folder / "checkpoints" / "model-41"), "There is no checkpoint '41'"),
        (lambda: train(vocabsize=3), r"takes no setting 'vocabsize'.*vocab_size"),
        (lambda: train(options={"train_size": 3}), "takes no setting 'options'"),
        (lambda: train(train_steps=0, accumulate="auto"), "hparams: train_steps=0 must be "),
        (lambda: train(shared_vocab=False, vocabulary="a"), "shared_vocab=False is about a vocabulary that is trained"),
        (lambda: t2t_lite.train("toy_end", "tiny", tmp_path), "toy_end"),
    ]
    for call, message in calls:
        with pytest.raises((UsageError, DataError), match=message):
            call()


def test_a_cell_that_runs_again_registers_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry.PROBLEMS, "_things", dict(registry.PROBLEMS._things))
    cell = "import t2t_lite\n@t2t_lite.register_problem('cell')\nclass Cell(t2t_lite.Problem):\n    vocab_size = {}"
    for size in (50, 60):
        exec(cell.format(size), {"__name__": "__main__"})
        assert registry.problem("cell").vocab_size == size


def test_the_package_is_light_and_names_what_it_offers() -> None:
    code = "import sys, t2t_lite; print({'tensorflow', 'numpy', 'keras'} & set(sys.modules), 'load' in dir(t2t_lite))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set() True\n"
    with pytest.raises(AttributeError, match="has no attribute 'lode'"):
        t2t_lite.lode  # noqa: B018


@pytest.mark.nightly
def test_the_notebook_runs_from_top_to_bottom(tmp_path: Path) -> None:
    notebook = Path(__file__).resolve().parents[2] / "examples" / "notebook.py"
    done = subprocess.run([sys.executable, notebook, tmp_path / "run"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "['four two', 'nine zero one']" in done.stdout
    assert done.stdout.rstrip().endswith("['four two']")
