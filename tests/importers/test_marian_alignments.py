"""Alignments of models that Marian trained with guided alignment; tests/golden/marian.py made the files."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import t2t_lite
from t2t_lite.cli import decoder, exporter, importer
from t2t_lite.cli.output import Form
from t2t_lite.decoding.alignments import BLANK, Alignment, check_aligns
from t2t_lite.decoding.line_translator import Hypothesis
from t2t_lite.decoding.translate import Translator
from t2t_lite.errors import UsageError
from t2t_lite.importers import huggingface, huggingface_files, run_folder, t2t_model
from t2t_lite.models.ensemble import Ensemble
from tests.importers.marian_golden import GOLDEN, changed, lines, outputs, read, refused, set_setting

_TRAINED = "guided-alignment: corpus.align\n"


def _rows(text: str) -> list[tuple[str, str]]:
    return [(line, alignment) for line, _, alignment in (row.rpartition(" ||| ") for row in text.splitlines())]


def _weights(alignment: str) -> np.ndarray:
    return np.array([[float(weight) for weight in row.split(",")] for row in alignment.split()])


def _golden(name: str, form: str) -> list[str]:
    return [alignment for _, alignment in _rows(Path(GOLDEN, name, f"test.{form}").read_text("utf-8"))]


def _import(name: str, folder: Path, **files: str) -> str:
    """Imports a golden model as `folder`/run, with further files of text beside it."""
    source = changed(folder / "model", name, lambda arrays: None)
    for file, text in files.items():
        (source / file.replace("_", ".")).write_text(text, "utf-8")
    assert importer.main([f"--checkpoint={source}", f"--output_dir={folder / 'run'}"]) == 0
    return str(folder / "run")


def _decode(capfdbinary: pytest.CaptureFixture[bytes], *flags: str) -> str:
    capfdbinary.readouterr()
    assert decoder.main([*flags]) == 0
    return capfdbinary.readouterr().out.decode()


@pytest.mark.parametrize(("name", "layer"), [("aligned", 2), ("aligned_first", 1)])
def test_the_head_that_aligns_is_that_of_marian(name: str, layer: int) -> None:
    imported, (source, target) = read(GOLDEN / name)
    assert imported.description.alignment_layer == layer

    model = t2t_model.build(imported, run_folder.recipe(imported, {}))
    best = {one.line: one for one in reversed(outputs(name))}
    errors = np.zeros((2, 2))  # of each layer and head: the largest difference from what Marian found
    for number, (text, wanted) in enumerate(zip(lines(name)[:4], _golden(name, "soft")[:4], strict=True)):
        ids = {
            "source": [*source.encode(text), 1],
            "target": [target.ids[piece] for piece in best[number].pieces] + [1],
        }
        maps = model.attention_maps({side: np.array([row], np.int32) for side, row in ids.items()})
        errors = np.maximum(errors, np.abs(np.asarray(maps["memory"])[0] - _weights(wanted)).max((2, 3)))
    assert errors[layer - 1, 0] <= 3e-6
    assert np.count_nonzero(errors > 0.5) == 3


@pytest.mark.nightly
def test_the_decoder_writes_what_marian_writes(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    run = _import("aligned_first", tmp_path, opus_npz_yml=_TRAINED)
    assert b"alignments:    of layer 1 of the decoder, first head\n" in capfdbinary.readouterr().out
    text = f"--input={GOLDEN / 'aligned_first' / 'test.txt'}"
    hard = _rows(_decode(capfdbinary, f"--output_dir={run}", text, "--alignments=hard"))
    assert [ours for _, ours in hard] == _golden("aligned_first", "hard")
    assert hard[0][0] == "gö dälá."
    model = t2t_lite.load(run)
    [[best]] = model.nbest(["ro ri."], 1, alignments=True)
    assert " ".join(f"{i}-{j}" for i, j in best.alignment.links()) == hard[0][1]
    assert best.alignment.source == ["▁ro", "▁ri", ".", "</s>"]
    assert model.nbest(["ro ri."], 1)[0][0].alignment is None
    assert model.translate(["ro ri. Ro ri."], split_sentences=True) == ["gö dälá. " + model.translate(["Ro ri."])[0]]
    with pytest.raises(UsageError, match="Sentences that are translated one by one, and joined, have no alignment"):
        model.nbest(["ro ri."], 1, alignments=True, split_sentences=True)


@pytest.mark.nightly
def test_weights_in_text_and_in_an_export_are_those_of_marian(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    run, text = _import("aligned", tmp_path), f"--input={GOLDEN / 'aligned' / 'test.txt'}"
    base = str(tmp_path / "export")
    assert exporter.main([f"--output_dir={run}", f"--export_dir={base}", "--signatures=alignments"]) == 0
    for model in (f"--output_dir={run}", f"--saved_model={base}"):
        soft = _rows(_decode(capfdbinary, model, text, "--alignments=soft"))
        for (_, ours), wanted in zip(soft, _golden("aligned", "soft"), strict=True):
            np.testing.assert_allclose(_weights(ours), _weights(wanted), rtol=0, atol=3e-6)
    exported = t2t_lite.load(base)
    assert exported.nbest(["ro ri."], 1, alignments=True)[0][0].alignment.links()
    assert exported.nbest(["ro ri."], 1)[0][0].alignment is None
    rows = _decode(capfdbinary, f"--saved_model={base}", text, "--alignments=hard", "--json").splitlines()
    found = [json.loads(row) for row in rows]
    links = [" ".join(f"{i}-{j}" for i, j in one["outputs"][0]["alignment"]) for one in found]
    assert links == _golden("aligned", "hard")
    assert found[0]["source_pieces"] == ["▁ro", "▁ri", ".", "</s>"]
    assert found[0]["outputs"][0]["target_pieces"] == ["▁gö", "▁dälá", ".", "</s>"]
    in_8_bits = _rows(_decode(capfdbinary, f"--output_dir={run}", text, "--alignments=hard", "--precision=int8"))
    assert [ours for _, ours in in_8_bits] == _golden("aligned", "hard")
    assert decoder.main([f"--saved_model={base}", text, "--alignments=hard", "--nbest=2"]) == 2


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["aligned", "aligned_first"])
def test_ctranslate2_aligns_by_the_same_head(name: str, tmp_path: Path) -> None:
    ctranslate2 = pytest.importorskip("ctranslate2")
    run = _import(name, tmp_path)
    assert exporter.main([f"--output_dir={run}", "--format=ctranslate2", f"--export_dir={tmp_path / 'export'}"]) == 0
    engine = ctranslate2.Translator(str(tmp_path / "export" / "1"), inter_threads=1, intra_threads=1)
    source = read(GOLDEN / name)[1][0]
    pieces = [source.pieces(source.encode(text)) for text in lines(name)[:3]]
    # One at a time: of several lines, CTranslate2 4.8 gives one the first row of another.
    found = engine.translate_batch(pieces, beam_size=4, return_attention=True, max_batch_size=1)
    for one, wanted in zip(found, _golden(name, "soft")[:3], strict=True):
        without_ends = _weights(wanted)[:-1, :-1]
        np.testing.assert_allclose(one.attention[0], without_ends, rtol=0, atol=1e-5)


def test_lists_and_blank_lines_have_alignments(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    run, text = _import("aligned", tmp_path), tmp_path / "text"
    assert b"(if it was trained with guided alignment, which its files do not say)" in capfdbinary.readouterr().out
    text.write_text("ro ri.\n\n")
    flags = (f"--output_dir={run}", f"--input={text}", "--alignments=hard", "--nbest=2", "--json")
    first, blank = map(json.loads, _decode(capfdbinary, *flags).splitlines())
    assert first["outputs"][0]["alignment"] == [[0, 1], [1, 0], [2, 2], [3, 3]]
    assert len(first["outputs"][1]["alignment"]) == len(first["outputs"][1]["target_pieces"]) == 4
    assert blank["source_pieces"] == blank["outputs"][1]["alignment"] == blank["outputs"][1]["target_pieces"] == []


def test_alignments_as_text() -> None:
    weights = np.array([[0.25, 0.75, 0], [1e-5, 0, 1], [1, 0, 0]], np.float32)
    alignment = Alignment(["a", "b", "</s>"], ["x", "y", "</s>"], weights)
    assert Form(alignments="soft").format("in", [Hypothesis("x y", -1.0, alignment=alignment)]) == (
        "x y ||| 0.25,0.75,0 1e-05,0,1 1,0,0\n"
    )
    assert Form(scores=True, alignments="hard").format("", [Hypothesis("", 0.0, alignment=alignment)]) == (
        "0.0000\t ||| 0-2 1-0 2-1\n"  # sorted by source, as Marian does
    )
    assert Form(alignments="hard").format("", [Hypothesis("", 0.0, alignment=BLANK)]) == " ||| \n"


def test_a_model_without_such_a_head_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = _import("aligned", tmp_path, opus_npz_yml="guided-alignment: none\n")
    assert "alignments:" not in capfd.readouterr().out
    text = f"--input={GOLDEN / 'aligned' / 'test.txt'}"
    assert decoder.main([f"--output_dir={run}", text, "--alignments=hard"]) == 2
    assert "This Transformer gives no alignments" in capfd.readouterr().err
    assert exporter.main([f"--output_dir={run}", "--signatures=alignments"]) == 2
    assert "This Transformer gives no alignments" in capfd.readouterr().err
    assert not list(Path(run, "export").glob("*"))
    model = t2t_model.build(*read(GOLDEN / "aligned")[:1])
    check_aligns(model)
    with pytest.raises(UsageError, match="This Ensemble gives no alignments"):
        check_aligns(Ensemble([model]))


@pytest.mark.parametrize(
    ("file", "text", "layer"),
    [
        ("README.md", "* model: transformer-align\n", 2),
        ("opus.npz.yml", 'guided-alignment: "none"\n', 0),
        ("opus.npz.yml", _TRAINED, 2),
        ("notes.txt", "guided-alignment: none\n", 2),
    ],
)
def test_files_beside_a_model_say_whether_it_aligns(file: str, text: str, layer: int, tmp_path: Path) -> None:
    folder = changed(tmp_path / "model", "aligned", lambda arrays: None)
    (folder / file).write_text(text)
    assert read(folder)[0].description.alignment_layer == layer


@pytest.mark.parametrize(("text", "layer"), [("* model: transformer-align\n", 1), ("* model: transformer\n", 0)])
def test_the_card_of_a_marianmt_model_says_whether_it_aligns(text: str, layer: int, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(GOLDEN.parent / "huggingface" / "tied", folder)
    for name in ("source.spm", "target.spm"):
        shutil.copy(GOLDEN / "toy" / name, folder)
    (folder / "README.md").write_text(text)
    description = huggingface.read(huggingface_files.find(folder))[0].description
    assert description.alignment_layer == layer * description.num_decoder_layers


@pytest.mark.nightly
def test_xla_aligns_the_same(tmp_path: Path) -> None:
    imported, vocabularies = read(GOLDEN / "aligned")
    hparams = run_folder.recipe(imported, {})
    found = []
    for jit in (False, True):
        translator = Translator(t2t_model.build(imported, hparams), *vocabularies, hparams.decode, jit=jit)
        translator.start_aligning()
        found.append([row[0].alignment.weights for row in translator.translate(lines("aligned")[:3])])
        assert translator.search_graph.jit is jit
    for plain, compiled in zip(*found, strict=True):
        np.testing.assert_allclose(plain, compiled, rtol=0, atol=1e-6)


@pytest.mark.parametrize("value", ["3", "0", "first", "-1", "[1]"])
def test_an_odd_layer_is_refused(value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = changed(tmp_path / "model", "aligned", set_setting("transformer-guided-alignment-layer", value))
    assert "neither last nor a number from 1 to 2" in refused(folder, capsys)
