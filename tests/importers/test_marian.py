"""Models that Marian trained as a `Transformer`; tests/golden/marian.py made the numbers."""

import dataclasses
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import t2t_lite
from t2t_lite.cli import decoder, exporter, importer
from t2t_lite.errors import DataError, UsageError
from t2t_lite.importers import marian_folder
from tests.importers.marian_golden import GOLDEN, NAMES, changed, errors, lines, log_probs, outputs, read, set_setting

_KEY = "transformer/encoder/layer_0/around_attention/self_attention/"


@pytest.mark.parametrize("name", NAMES)
def test_log_probabilities_are_those_of_marian(name: str) -> None:
    found = errors(*read(GOLDEN / name), name)
    assert len(found) >= 48
    assert np.abs(found).max() <= 2e-5


def test_a_pre_norm_model_computes_what_was_trained() -> None:
    """The cost of each target as Marian's training computes it, printed with six digits."""
    rows = [line.split("\t") for line in lines("prenorm", "costs.txt")]
    texts, targets = [lines("prenorm")[int(line)] for line, _, _ in rows], [pieces.split() for _, pieces, _ in rows]
    found = [-row.sum() for row in log_probs(*read(GOLDEN / "prenorm"), texts, targets)]
    assert len(rows) == 181
    np.testing.assert_allclose(found, [float(cost) for _, _, cost in rows], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "change",
    [
        {"positions": "sinusoidal"},
        {"positions": "opennmt"},
        {"norm_epsilon": 1e-5},
        {"activation": "relu"},
        {"source_end": False},
        {"num_heads": 2, "d_k": 32, "d_v": 32},
    ],
    ids=str,
)
def test_each_setting_of_the_model_counts(change: dict[str, Any]) -> None:
    imported, vocabularies = read(GOLDEN / "toy")
    imported = dataclasses.replace(imported, description=dataclasses.replace(imported.description, **change))
    assert np.abs(errors(imported, vocabularies, "toy")).max() > 2e-5


@pytest.mark.parametrize("kind", ["unscaled", "swapped", "transposed", "ids", "value bias", "padding"])
def test_each_weight_counts(kind: str) -> None:
    imported, vocabularies = read(GOLDEN / "toy")
    weights = dict(imported.weights)
    table = "transformer/target_embedding/table"
    if kind == "unscaled":
        weights[table] = weights[table] / 8  # sqrt(d_model)
    elif kind == "swapped":
        weights[f"{_KEY}key"], weights[f"{_KEY}query"] = weights[f"{_KEY}value"], weights[f"{_KEY}query"]
    elif kind == "transposed":
        weights[f"{_KEY}query"] = weights[f"{_KEY}query"].T
    elif kind == "ids":
        weights[table] = np.roll(weights[table], 1, 0)
    elif kind == "value bias":
        weights[f"{_KEY}output_bias"] = weights[f"{_KEY}output_bias"] * 0
    else:
        weights["transformer/output_bias"] = weights["transformer/output_bias"] * (np.arange(640) > 0)
    assert np.abs(errors(dataclasses.replace(imported, weights=weights), vocabularies, "toy")).max() > 2e-5


def test_old_files_have_the_softmax_by_columns(tmp_path: Path) -> None:
    def old(arrays: dict[str, Any]) -> None:
        arrays["decoder_ff_logit_out_W"] = arrays.pop("decoder_ff_logit_out_Wt").T

    folder = changed(tmp_path / "model", "gelu_untied", old)
    assert np.abs(errors(*read(folder), "gelu_untied")).max() <= 2e-5


def test_a_decoder_may_say_the_size_of_the_encoder(tmp_path: Path) -> None:
    folder = changed(tmp_path / "model", "labels", set_setting("transformer-decoder-dim-ffn", "24"))
    assert np.abs(errors(*read(folder), "labels")).max() <= 2e-5


def _text(pieces: list[str]) -> str:
    """The text of pieces, as Marian's users join them, and as Marian itself joins bytes."""
    joined = "".join(pieces).replace("\u2581", " ").removeprefix(" ")
    return re.sub("(<0x..>)+", lambda run: bytes.fromhex(re.sub("<0x|>", "", run[0])).decode(), joined)


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "equal"), [("toy", 40), ("labels", 12), ("bpe", 10), ("bytes", 12)])
def test_best_outputs_are_those_of_marian(
    tmp_path: Path, name: str, equal: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Marian's beam shrinks as hypotheses end, so where outputs differ, ours has the better score."""
    run = tmp_path / "run"
    assert importer.main([f"--checkpoint={GOLDEN / name}", f"--output_dir={run}"]) == 0
    assert "beam_size=4, length_penalty=1 (power)" in capsys.readouterr().out
    assert exporter.main([f"--output_dir={run}", "--signatures=nbest"]) == 0
    best = {output.line: output for output in reversed(outputs(name))}
    wanted = [best[i] for i in range(len(best))]
    texts = [_text(output.pieces) for output in wanted]
    for folder in (run, run / "export"):
        found = [row[0] for row in t2t_lite.load(folder).nbest(lines(name), 4)]
        better = [ours.score - theirs.score for ours, theirs in zip(found, wanted, strict=True)]
        same = [ours.text == text for ours, text in zip(found, texts, strict=True)]
        assert sum(same) == equal
        assert all(abs(gain) <= 2e-6 if is_same else gain > 0 for gain, is_same in zip(better, same, strict=True))


@pytest.mark.commit
def test_a_target_language_writes_the_label(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert importer.main([f"--checkpoint={GOLDEN / 'labels'}", f"--output_dir={run}"]) == 0
    loaded = t2t_lite.load(run)
    found = {}
    for label in (">>aaa<<", ">>bbb<<"):
        labelled = [line for line in lines("labels") if line.startswith(label)][:4]
        texts = [line.removeprefix(f"{label} ") for line in labelled]
        found[label] = loaded.translate([*texts, ""], target_language=label[2:-2])
        assert found[label] == [*loaded.translate(labelled), ""]
    assert found[">>aaa<<"] != found[">>bbb<<"]
    for language, message in (("aab", "this model writes aaa, bbb. Did you mean 'aaa'"), (">>aaa<<", "aaa, bbb")):
        with pytest.raises(UsageError, match=message):
            loaded.translate(["ro ri."], target_language=language)
    with pytest.raises(DataError, match=r"'ro ri\.' does not begin with the label .* --target_language=CODE"):
        loaded.translate(["ro ri."])


@pytest.mark.nightly
def test_the_form_of_the_length_penalty_counts(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert importer.main([f"--checkpoint={GOLDEN / 'toy'}", f"--output_dir={run}"]) == 0
    loaded = t2t_lite.load(run)
    power, gnmt = (loaded.nbest(lines("toy")[:1], 1, length_penalty_form=form)[0][0] for form in ("power", "gnmt"))
    assert gnmt.score == pytest.approx(power.score * 7 * 6 / (5 + 7))  # seven pieces with </s>


@pytest.mark.nightly
def test_ctranslate2_has_the_same_search(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert importer.main([f"--checkpoint={GOLDEN / 'toy'}", f"--output_dir={run}"]) == 0
    assert exporter.main([f"--output_dir={run}", "--format=ctranslate2"]) == 0
    folder = run / "export_ctranslate2" / "1"
    readme = Path(folder, "README.txt").read_text("utf-8")
    assert "divide a log-probability by length^1.0, the end symbol counted. CTranslate2 also ends" in readme
    indented = re.findall(r"(?m)^    .*\n|^\n", readme.partition("Run in this folder:")[2].partition("CTranslate2")[0])
    program = textwrap.dedent("".join(indented))
    source = Path(GOLDEN, "toy", "test.txt").read_bytes()
    command = [sys.executable, "-c", program]
    found = subprocess.run(command, input=source, cwd=folder, capture_output=True, check=True).stdout.decode()
    ours = t2t_lite.load(run).translate(lines("toy"))
    assert sum(text == line for text, line in zip(ours, found.split("\n"), strict=False)) >= 37


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["relu_tied", "labels"])
def test_outputs_are_cut_where_marian_cuts_them(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The longest length is max-length-factor times the line's pieces with </s>, rounded up."""
    rows = [row.split(" ||| ") for row in Path(GOLDEN, name, "test.short").read_text("utf-8").splitlines()]
    wanted: dict[str, list[str]] = {}
    for factor, pieces in rows:
        wanted.setdefault(factor, []).append(pieces.replace(" ", "").replace("\u2581", " ").removeprefix(" "))
    folder, run = tmp_path / "model", tmp_path / "run"
    shutil.copytree(GOLDEN / name, folder)
    settings = Path(folder, "decoder.yml").read_text("utf-8")
    Path(folder, "decoder.yml").write_text(f"{settings.replace('size: 4', 'size: 1')}max-length-factor: 0.3\n", "utf-8")
    assert importer.main([f"--checkpoint={folder}", f"--output_dir={run}"]) == 0
    assert "max_length_factor=0.3, extra_length=0, inputs" in capsys.readouterr().out
    assert exporter.main([f"--output_dir={run}", "--max_length_factor=0.7"]) == 0
    assert t2t_lite.load(run / "export").translate(lines(name)) == wanted["0.7"]
    loaded = t2t_lite.load(run)
    assert loaded.translate(lines(name)) == wanted["0.3"]
    assert loaded.translate(lines(name), max_length_factor=1.1) == wanted["1.1"]
    assert len({*map(tuple, wanted.values())}) == 3


def test_the_longest_length_is_three_times_the_input_unless_the_folder_says_another(tmp_path: Path) -> None:
    found = marian_folder.find(GOLDEN / "toy").search
    assert (found["max_length_factor"], found["extra_length"]) == (3.0, 0)
    folder = tmp_path / "model"
    shutil.copytree(GOLDEN / "toy", folder)
    Path(folder, "decoder.yml").write_text("max-length-factor: many\n", "utf-8")
    with pytest.raises(DataError, match="decoder.yml says max-length-factor: many, which is no number"):
        marian_folder.find(folder)


def test_each_sentence_of_a_line_has_its_label(tmp_path: Path) -> None:
    """Of a run by the whole command; a sentence without its label would be refused."""
    run, text, out = tmp_path / "run", tmp_path / "in", tmp_path / "out"
    assert importer.main([f"--checkpoint={GOLDEN / 'labels'}", f"--output_dir={run}"]) == 0
    pairs = [
        (">>aaa<<", ["Ro ri.", "Kikeri ladabo!", "Ri."]),
        (">>bbb<<", ["neguka boledi neguka."]),
        (">>aaa<<", ["..."]),
    ]
    text.write_text("".join(f"{label} {' '.join(row)}\n" for label, row in pairs) + "\n", "utf-8")
    flags = [f"--output_dir={run}", f"--input={text}", f"--output={out}"]
    assert decoder.main([*flags, "--split_sentences"]) == 0
    loaded = t2t_lite.load(run)
    of_each = [loaded.translate([f"{label} {sentence}" for sentence in row]) for label, row in pairs]
    assert out.read_text("utf-8").splitlines() == [*(" ".join(filter(None, row)) for row in of_each), ""]
    assert len(set(of_each[0])) == 3
