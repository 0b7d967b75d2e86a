"""A run, its export and a server of that export give the page the same results."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.client.errors import NoAnswerError, ServerError, UnknownModelError
from t2t_lite.decoding.translate import Translator
from t2t_lite.demo.backends import Backend, Export, Run, Server
from t2t_lite.errors import UsageError
from t2t_lite.export.export import write_card
from t2t_lite.export.exported import ExportedTranslator
from t2t_lite.export.saved_model import ServedModel
from t2t_lite.models.rnn import Rnn
from t2t_lite.models.rnn_hparams import RnnHParams
from tests import reference
from tests.demo.conftest import CARD, HPARAMS, LINES
from tests.serving import server as serving_server
from tests.serving.served_model import Fault

pytestmark = pytest.mark.commit


@pytest.fixture(scope="module")
def served(export_base: Path) -> Iterator[serving_server.Server]:
    with serving_server.serve(export_base, "toy") as server:
        yield server


@pytest.fixture(scope="module")
def run(translator: Translator) -> Run:
    return Run(translator, CARD)


@pytest.fixture(scope="module")
def server(served: serving_server.Server) -> Iterator[Server]:
    backend = Server(served.rest, "toy")
    yield backend
    backend.close()


@pytest.fixture(scope="module")
def backends(run: Run, export_base: Path, server: Server) -> dict[str, Backend]:
    return {
        "run": run,
        "export": Export(ExportedTranslator(export_base)),
        "server": server,
    }


@pytest.mark.parametrize("name", ["export", "server"])
def test_all_translate_alike(backends: dict[str, Backend], run: Run, name: str) -> None:
    lines = [LINES[0], "", " \t", *LINES[1:]]
    expected, found = run.translate(lines), backends[name].translate(lines)
    assert [len(outputs) for outputs in found] == [HPARAMS.beam_size] * len(lines)
    for outputs, others in zip(expected, found, strict=True):
        assert [h.text for h in outputs] == [h.text for h in others]
        assert [h.score for h in outputs] == pytest.approx([h.score for h in others], abs=1e-4)
    assert {h.text for h in found[1] + found[2]} == {""}  # type: ignore[operator]
    assert len({h.text for h in found[0]}) == HPARAMS.beam_size


def test_a_server_gets_no_more_lines_at_once_than_it_takes(
    served: serving_server.Server, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served.model, "max_batch_size", 1)
    assert len(server.translate(["a"] * 9)) == 9


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["export", "server"])
@pytest.mark.parametrize("line", LINES)
def test_all_show_the_same_attention_over_the_best_output(
    backends: dict[str, Backend], run: Run, name: str, line: str
) -> None:
    expected, found = run.attention(line), backends[name].attention(line)
    best, (only,) = expected["translations"][0], found["translations"]
    assert (found["text"], found["source"]) == (line, expected["source"])
    assert (only["text"], only["target"], only["score"]) == (best["text"], best["target"], None)
    assert found.keys() == expected.keys()
    assert only.keys() == best.keys()
    for weights, others in (
        (expected["encoder"], found["encoder"]),
        *((best[k], only[k]) for k in ("decoder", "memory")),
    ):
        assert np.array(weights) == pytest.approx(np.array(others), abs=0.0021)
    assert len(expected["translations"]) == HPARAMS.beam_size
    assert np.shape(only["memory"]) == (1, 2, len(only["target"]), len(found["source"]))


def test_cards(backends: dict[str, Backend], served: serving_server.Server) -> None:
    assert backends["run"].card == CARD
    assert backends["export"].card.items() >= CARD.items()
    assert backends["server"].card == {"model": "toy", "server": served.rest, "versions": {1: "AVAILABLE"}}


@pytest.mark.parametrize("name", ["run", "export"])
def test_what_would_be_cut_is_refused(backends: dict[str, Backend], name: str) -> None:
    assert len(backends[name].translate([" ".join("a" * 149)])[0]) == 3
    with pytest.raises(UsageError, match="A line of 150 pieces is too long: the model reads 149. Break it in two"):
        backends[name].translate(["a", " ".join("a" * 150)])


def test_a_paragraph_is_translated_by_sentences(translator: Translator, export_base: Path, run: Run) -> None:
    sentences = [f"{' '.join('abc' * 30)}!", "A cat.", "Two dogs?"]
    of_each = [outputs[0] for outputs in run.translate(sentences)]
    for backend in (Run(translator, CARD, split=True), Export(ExportedTranslator(export_base), split=True)):
        [one], [two, *_] = backend.translate(["A cat."]), backend.translate([" ".join(sentences), "a"])
        assert [h.text for h in one] == [h.text for h in run.translate(["A cat."])[0]]
        assert two[0].text == " ".join(h.text for h in of_each if h.text)
        assert two[0].score == pytest.approx(sum(h.score for h in of_each), abs=1e-3)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("run", "attention is shown for at most 120"),
        ("export", "126 pieces; an export shows attention for at most 64"),
        ("server", "400: attention is given for at most 4 texts of at most 64 pieces. Ask for shorter texts"),
    ],
)
def test_attention_over_too_many_pieces_is_refused(backends: dict[str, Backend], name: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        backends[name].attention(" ".join("a" * 125))


def test_an_export_without_attention(backends: dict[str, Backend], monkeypatch: pytest.MonkeyPatch) -> None:
    export = backends["export"]
    monkeypatch.setattr(export, "_signatures", {})
    with pytest.raises(UsageError, match=r"has no signature attention; export the model again with --signatures="):
        export.attention("a")
    for there, lacking, advice in (
        (("attention",), "nbest", "nbest,attention"),
        (("nbest", "score", "tokens"), "attention", "nbest,score,tokens,attention"),
    ):
        monkeypatch.setattr(export._translator, "model", SimpleNamespace(signatures=("serving_default", *there)))
        assert str(export._translator.lacks(lacking)).endswith(f"again with --signatures={advice}.")


def test_servers_that_cannot_be_used(served: serving_server.Server) -> None:
    with pytest.raises(NoAnswerError, match="cannot be reached"):
        Server("127.0.0.1:1", "toy")
    with pytest.raises(UnknownModelError, match="404"):
        Server(served.rest, "none")
    for answer in (
        b'{"outputs": ["a"]}',
        b'{"outputs": {"other": [1], "outputs": ["a"]}}',
        b'{"outputs": [["a"], ["b"]]}',
    ):
        served.model.faults.append(Fault(body=answer))
        with pytest.raises(ServerError, match="no n-best list; was it exported with t2t-lite-exporter"):
            Server(served.rest, "toy")
    served.model.reset()


@pytest.mark.nightly
def test_a_model_with_attention_to_the_source_alone(translator: Translator, tmp_path: Path) -> None:
    vocabulary = translator.source_vocabulary
    hparams = RnnHParams(num_layers=1, d_model=16, dropout=0.0, beam_size=3, extra_length=4, max_source_length=50)
    model = Rnn.from_hparams(hparams, vocabulary.size, vocabulary.size, True)
    reference.randomise(model, 1, scale=2)
    of_rnn = Translator(model, vocabulary, vocabulary, hparams)
    served = ServedModel(of_rnn, ("serving_default", "nbest", "attention"))
    tf.saved_model.save(served, str(tmp_path / "1"), signatures=served.signatures)
    vocabulary.save(tmp_path / "1" / "assets" / "vocabulary.model")
    write_card(tmp_path / "1" / "assets", CARD)
    run, export = Run(of_rnn, CARD), Export(ExportedTranslator(tmp_path))
    line = LINES[0]
    assert [h.text for h in run.translate([line])[0]] == [h.text for h in export.translate([line])[0]]
    expected, found = run.attention(line), export.attention(line)
    assert found.keys() == expected.keys() == {"text", "source", "translations"}
    best, only = expected["translations"][0], found["translations"][0]
    assert only.keys() == best.keys() == {"text", "score", "target", "memory"}
    assert np.shape(only["memory"]) == (1, 1, len(only["target"]), len(found["source"]))
    assert np.array(only["memory"]) == pytest.approx(np.array(best["memory"]), abs=0.0021)


@pytest.mark.parametrize(
    "change",
    [{"encoder": [[[[1e999]]]]}, {"encoder": [["x"]]}, {"memory": [10**400]}, {"source_pieces": [3]}, {"outputs": []},
     {"target_pieces": None}],
    ids=str,
)  # fmt: skip
def test_an_attention_of_another_form_is_the_servers_fault(
    server: Server, served: serving_server.Server, change: dict[str, object]
) -> None:
    outputs = {"outputs": ["a"], "source_pieces": [["a"]], "target_pieces": [["a"]], "encoder": [[[[1.0]]]]} | change
    served.model.faults.append(Fault(body=json.dumps({"outputs": outputs}).encode()))
    with pytest.raises(ServerError, match="answers no attention that can be drawn"):
        server.attention("a")
