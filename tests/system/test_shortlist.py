"""t2t-lite-shortlist and t2t-lite-decoder --shortlist as commands, and the same in Python."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import t2t_lite
from t2t_lite.data.vocabulary_files import load_pair
from t2t_lite.errors import UsageError
from t2t_lite.text.shortlist import Shortlist
from tests.system.conftest import Run

MISSING = "has no shortlist.npz. Make it: t2t-lite-shortlist --output_dir=RUN."


@pytest.fixture
def copy(trained: tuple[Path, str], tmp_path: Path) -> Path:
    """A copy of the run that may be written to."""
    return Path(shutil.copytree(trained[0].with_name("as_trained"), tmp_path / "run"))


def _translate(run: Run, folder: Path, corpus: Path, *flags: str) -> list[str]:
    done = run("decoder", f"--output_dir={folder}", f"--input={corpus}/test.en", "--beam_size=3", *flags)
    return done.stdout.splitlines()


@pytest.mark.commit
def test_outputs_have_pieces_of_their_lists(run: Run, copy: Path, corpus: Path) -> None:
    without = _translate(run, copy, corpus)
    failed = run("decoder", f"--output_dir={copy}", f"--input={corpus}/test.en", "--shortlist", status=1)
    assert MISSING in failed.stderr
    done = run("shortlist", f"--output_dir={copy}", "--best=2", "--first=3")
    assert done.stderr == ""
    assert done.stdout.startswith(f"{copy}/shortlist.npz: ")
    assert " pieces for a source piece on average, from 1,000 training pairs.\n" in done.stdout
    assert done.stdout.endswith(f"\nNext: t2t-lite-decoder --output_dir={copy} --shortlist --input=FILE\n")
    model = t2t_lite.load(copy)
    lines = (corpus / "test.en").read_text("utf-8").splitlines()
    vocabulary = model._run.vocabularies[0]
    shortlist = Shortlist.read(copy, vocabulary, vocabulary)
    assert shortlist.of_piece.shape == (vocabulary.size, 3)
    assert len(shortlist.always) == 3
    found = model.nbest(lines, 3, beam_size=3, shortlist=True)
    for line, outputs in zip(lines, found, strict=True):
        [ids] = vocabulary.encode_source([line])
        allowed = set(shortlist.candidates([ids], 1)[0].tolist())
        assert all({*output.ids} <= allowed for output in outputs)
    assert [best.text for best, *_ in found] == _translate(run, copy, corpus, "--shortlist")
    assert model.translate(lines, beam_size=3) == without


@pytest.mark.nightly
def test_with_all_pieces_outputs_stay(run: Run, copy: Path, corpus: Path) -> None:
    vocabulary, _ = load_pair(copy)
    nothing = np.zeros((vocabulary.size, 1), np.int32)
    Shortlist(nothing, np.arange(vocabulary.size, dtype=np.int32)).write(copy, vocabulary, vocabulary)
    assert _translate(run, copy, corpus, "--shortlist") == _translate(run, copy, corpus)


@pytest.mark.nightly
def test_how_many_pairs_are_read(run: Run, copy: Path) -> None:
    done = run("shortlist", f"--output_dir={copy}", "--pairs=100")
    assert " on average, from 100 of 1,000 training pairs.\n" in done.stdout
    few = (copy / "shortlist.npz").read_bytes()
    run("shortlist", f"--output_dir={copy}", "--pairs=1000")
    assert (copy / "shortlist.npz").read_bytes() != few


@pytest.mark.nightly
def test_what_is_refused(run: Run, copy: Path, corpus: Path, tmp_path: Path) -> None:
    failed = run("shortlist", f"--output_dir={copy},{copy}", status=2)
    assert "is an ensemble, which takes that of its first run. Give one." in failed.stderr
    words = tmp_path / "words.txt"
    words.write_text("Hund\n")
    for flag in ("--sampler=random", f"--banned_words={words}", f"--prefix={words}", "--json --word_scores"):
        failed = run("decoder", f"--output_dir={copy}", "--shortlist", *flag.split(), status=2, quick=True)
        name = flag.split()[-1].partition("=")[0]
        assert f"{name} does not go with --shortlist" in failed.stderr
    run("shortlist", f"--output_dir={copy}")
    line = ["a dog"]
    model = t2t_lite.load(copy)
    for given, error in (
        ({"sampler": "random"}, "shortlist does not go with a sampler"),
        ({"banned_words": ["Hund"]}, "shortlist does not go with banned_words"),
        ({"min_length": 3}, "shortlist does not go with min_length"),
        ({"prefixes": ["Der"]}, "shortlist does not go with prefixes"),
    ):
        with pytest.raises(UsageError, match=error):
            model.translate(line, shortlist=True, **given)
    with pytest.raises(UsageError, match="do not add up to a score with a shortlist"):
        model.nbest(line, 1, shortlist=True, word_scores=True)


@pytest.mark.nightly
def test_it_goes_with_other_options(run: Run, copy: Path, corpus: Path) -> None:
    run("shortlist", f"--output_dir={copy}", "--best=3", "--first=20")
    lines = (corpus / "test.en").read_text("utf-8").splitlines()
    model = t2t_lite.load(copy)
    plain = model.nbest(lines, 4, beam_size=4, shortlist=True)
    ranked = model.nbest(lines, 4, beam_size=4, shortlist=True, coverage_penalty=0.2)
    assert [{h.text for h in row} for row in ranked] == [{h.text for h in row} for row in plain]
    chosen = model.nbest(lines, 1, beam_size=4, shortlist=True, decode="mbr")
    assert all(one.text in {h.text for h in row} for [one], row in zip(chosen, plain, strict=True))
    assert model.translate(lines, beam_size=4, shortlist=True, replace_unk=True) == [row[0].text for row in plain]
    split = model.translate(lines, beam_size=4, shortlist=True, split_sentences=True)
    assert len(split) == len(lines)
    ensemble = run("decoder", f"--output_dir={copy},{copy}", f"--input={corpus}/test.en", "--shortlist")
    one = run("decoder", f"--output_dir={copy}", f"--input={corpus}/test.en", "--shortlist")
    assert ensemble.stdout == one.stdout
