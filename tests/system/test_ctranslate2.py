"""t2t-lite-exporter --format=ctranslate2 on a trained run, and the program of its README.txt."""

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import pytest
from sentencepiece import SentencePieceProcessor

from tests.checkpoints import default_weights

pytestmark = pytest.mark.nightly

Run = Callable[..., subprocess.CompletedProcess[str]]
INT8_DIFFERS = 0.1  # limit of the mean difference of log-probabilities per piece, from rounding the weights
PAD_SHARE = 1e-3  # of a score: here padding keeps its share of the probability, CTranslate2 gives it none
SEARCH = {"length_penalty": 0, "min_decoding_length": 0, "return_scores": True}


def test_ctranslate2_translates_as_the_run_does(
    run: Run, trained: tuple[Path, str], corpus: Path, tmp_path: Path
) -> None:
    folder = trained[0]
    flags = [f"--output_dir={folder}", "--length_penalty=0", "--beam_size=4"]
    lines = (corpus / "test.en").read_text().split("\n")[:-1] + (corpus / "valid.en").read_text().split("\n")[:-1]
    for precision in ("float32", "int8"):
        to = ["--format=ctranslate2", f"--precision={precision}", f"--export_dir={tmp_path / precision}"]
        done = run("exporter", *flags, *to)
        assert done.stderr == ""
        assert f"{tmp_path / precision}/1: " in done.stdout
    for precision in ("float32", "int8"):
        card = json.loads((tmp_path / precision / "1" / "model_card.json").read_text())
        assert (card["checkpoint"], card["ctranslate2"]["precision"]) == (default_weights(folder), precision)
        assert card["scores_note"].startswith("not scored: CTranslate2 searches, and rounds to int8, in its own way;")
    bytes_of = {name: (tmp_path / name / "1" / "model.bin").stat().st_size for name in ("float32", "int8")}
    saved = bytes_of["float32"] - bytes_of["int8"]
    assert 2.5 < saved / card["parameters"] < 3  # bytes; positions and vectors stay float32

    vocabulary = SentencePieceProcessor(model_file=str(tmp_path / "float32" / "1" / "vocabulary.model"))
    pieces = vocabulary.encode(lines, out_type=str)
    engine = _engine(tmp_path, "float32")
    source = "".join(f"{line}\n" for line in lines).encode()
    for beam_size in (1, 4):
        to = [f"--beam_size={beam_size}", "--extra_length=200", "--json"]  # CTranslate2 has one limit for all lines
        decoded = run("decoder", *flags[:2], *to, input=source).stdout.split("\n")[:-1]
        ours = [json.loads(line)["outputs"][0] for line in decoded]
        theirs = engine.translate_batch(pieces, beam_size=beam_size, **SEARCH)
        scores = [result.scores[0] for result in theirs]
        # CTranslate2 ends an output only if its end is among the beam_size best of a step; here it may be among
        # twice as many. So one of the 28 lines may have a better output here, by CTranslate2's own score.
        better = [i for i, output in enumerate(ours) if output["text"] != vocabulary.decode(theirs[i].hypotheses[0])]
        assert len(better) <= (1 if beam_size > 1 else 0)
        for i in better:
            output = vocabulary.encode(ours[i]["text"], out_type=str)
            score = sum(engine.score_batch([pieces[i]], [output])[0].log_probs)
            assert scores[i] < score
            scores[i] = score
        np.testing.assert_allclose(scores, [output["score"] for output in ours], rtol=PAD_SHARE)
    plain, divided = (engine.translate_batch(pieces, beam_size=1, **SEARCH | {"length_penalty": a}) for a in (0, 1))
    for before, after in zip(plain, divided, strict=True):
        assert after.scores[0] == pytest.approx(before.scores[0] / (len(after.hypotheses[0]) + 1))  # 1: the end symbol
    _check_the_program(tmp_path / "float32" / "1", source, [vocabulary.decode(r.hypotheses[0]) for r in theirs])

    targets = [result.hypotheses[0] for result in theirs]

    def log_probs(precision: str, compute_type: str) -> np.ndarray:
        results = _engine(tmp_path, precision, compute_type).score_batch(pieces, targets)
        return np.concatenate([result.log_probs for result in results])

    np.testing.assert_array_equal(log_probs("int8", "default"), log_probs("float32", "int8"))  # as CTranslate2 rounds
    assert 0 < np.abs(log_probs("int8", "float32") - log_probs("float32", "float32")).mean() < INT8_DIFFERS


def _engine(base: Path, precision: str, compute_type: str = "default") -> Any:
    return ctranslate2.Translator(str(base / precision / "1"), compute_type=compute_type, intra_threads=1)


def _check_the_program(version: Path, source: bytes, wanted: list[str]) -> None:
    """Runs the program in README.txt unchanged, in its folder, and checks that blank lines stay blank."""
    readme = (version / "README.txt").read_text(encoding="utf-8")
    program = textwrap.dedent(readme[readme.index("    import sys\n") : readme.index("\nCTranslate2 divides")])
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=version, input=source + b"\n \n", capture_output=True, check=True, timeout=120)
    assert done.stdout.decode("utf-8").split("\n")[:-1] == [*wanted, "", ""]
