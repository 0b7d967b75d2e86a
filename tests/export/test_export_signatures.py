"""Answers of an exported model in a session, as the server runs it: the translator's outputs, row by row."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import config
from t2t_lite.cli import decode, decoder
from t2t_lite.decoding.score import score_outputs
from t2t_lite.decoding.translate import Translator
from t2t_lite.errors import UsageError
from t2t_lite.export.export_folder import CARD_FILE, SIGNATURES
from t2t_lite.export.exported import ExportedTranslator
from t2t_lite.export.saved_model import ATTENTION_PIECES, ATTENTION_ROWS, ServedModel
from t2t_lite.export.text_ops import GraphText
from t2t_lite.ids import EOS, PAD, UNK
from tests.export.conftest import EXPORTED, Exported, decoded, run
from tests.serving.served_model import RefusalError, Version

pytestmark = pytest.mark.commit

K = EXPORTED.beam_size
BLANK = ["", " ", "\t \r", "\u3000\u2028\u0085\u00a0"]


def _padded(*rows: list[int]) -> np.ndarray:
    """The rows as wide as the signature `tokens` wants them."""
    ids = np.zeros((len(rows), EXPORTED.max_source_length), np.int32)
    for row, values in zip(ids, rows, strict=True):
        row[: len(values)] = values
    return ids


def test_the_best_and_the_n_best_are_the_translators(exported: Exported, version: Version) -> None:
    lines = [*exported.lines, *BLANK, exported.lines[0]]
    one, many = (exported.translator.translate(lines, nbest=n) for n in (1, K))
    best, nbest = run(version, "serving_default", lines), run(version, "nbest", lines)
    assert decoded(best["outputs"]) == [h[0].text for h in one]
    np.testing.assert_allclose(best["scores"], [h[0].score for h in one], rtol=1e-4)
    assert decoded(nbest["outputs"]) == [[h.text for h in row] for row in many]
    np.testing.assert_allclose(nbest["scores"], [[h.score for h in row] for row in many], rtol=1e-4)
    assert len({h[0].text for h in one}) > len(exported.lines) / 2  # or the comparison would say little
    assert decoded(nbest["outputs"])[-5] == [""] * K
    assert not nbest["scores"][-5:-1].any()


def test_a_line_of_which_only_the_end_symbol_is_left_is_not_blank(exported: Exported) -> None:
    """Checks max_source_length=1, which the translator accepts, too."""
    encoded = GraphText(exported.served.vocabularies[0]).encode(tf.constant([exported.lines[0], " "]), 1)
    assert encoded.to_list() == [[EOS], []]


def test_tokens_go_in_and_out(exported: Exported, version: Version) -> None:
    source, target = exported.served.vocabularies
    encoded = [source.encode(line) for line in exported.lines[:3]]
    width = EXPORTED.max_source_length
    rows = [ids + [PAD] * (width - len(ids)) for ids in encoded]
    rows += [[*encoded[0], EOS] + [PAD] * (width - 1 - len(encoded[0])), [PAD] * width]
    rows += [[-5, source.size, 2**31 - 1] + [PAD] * (width - 3), [UNK] * 3 + [PAD] * (width - 3)]
    answer = version.run("tokens", {"ids": np.array(rows, np.int32)}, 60)
    best = run(version, "serving_default", exported.lines[:3])
    texts = [target.decode(ids.tolist()) for ids in answer["ids"]]
    assert texts[:3] == decoded(best["outputs"])
    np.testing.assert_allclose(answer["scores"][:3], best["scores"], rtol=1e-4)
    assert answer["ids"][3].tolist() == answer["ids"][0].tolist()  # with an end symbol or without
    assert not answer["ids"][4].any()
    assert answer["scores"][4] == 0
    assert answer["ids"][5].tolist() == answer["ids"][6].tolist()  # ids that do not exist count as unknown
    assert answer["ids"].shape[1] == EXPORTED.max_source_length + EXPORTED.extra_length
    with pytest.raises(RefusalError, match="not compatible with expected shape"):
        version.run("tokens", {"ids": np.array(rows, np.int32)[:, :-1]}, 60)


def test_a_score_is_the_log_probability_of_a_given_target(exported: Exported, version: Version) -> None:
    source, target = exported.served.vocabularies
    lines = [*exported.lines[:4], "", exported.lines[4]]
    targets = [*(line[:25] for line in exported.lines[4:8]), "Hund", " "]
    answer = run(version, "score", lines, targets)
    for line, other, log_prob, tokens in zip(lines[:4], targets, answer["log_probs"], answer["tokens"], strict=False):
        ids = np.array([[*target.encode(other), EOS]])
        batch = {"source": np.array([[*source.encode(line), EOS]]), "target": ids}
        logits = np.asarray(exported.translator.model(batch))[0].astype(np.float64)
        logp = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        assert tokens == ids.size
        np.testing.assert_allclose(log_prob, logp[np.arange(ids.size), ids[0]].sum(), rtol=1e-5)
    assert (answer["log_probs"][4], answer["tokens"][4]) == (0, 0)  # a blank input
    # A blank target. The first position does not see the second.
    batch = {"source": np.array([[*source.encode(lines[5]), EOS]]), "target": np.array([[EOS, EOS]])}
    logits = np.asarray(exported.translator.model(batch))[0, 0].astype(np.float64)
    assert answer["tokens"][5] == 1
    np.testing.assert_allclose(answer["log_probs"][5], logits[EOS] - np.log(np.exp(logits).sum()), rtol=1e-5)
    for _ in range(50):  # operations run side by side: which fails first may be chance
        with pytest.raises(RefusalError, match="inputs and targets must be equally many") as refusal:
            run(version, "score", lines, targets[:2])
        assert refusal.value.code == "INVALID_ARGUMENT"


def test_a_long_target_is_scored_as_far_as_an_output_may_go(exported: Exported, version: Version) -> None:
    limit, target = EXPORTED.max_source_length + EXPORTED.extra_length, exported.served.vocabularies[1]
    ids = target.encode("Hund " * limit)
    assert len(ids) >= limit
    longer, as_long = target.text_of(ids), target.text_of(ids[: limit - 1])
    assert target.encode(as_long) == ids[: limit - 1]
    answer = run(version, "score", [exported.lines[0]] * 2, [longer, as_long])
    assert answer["tokens"].tolist() == [limit, limit]
    np.testing.assert_allclose(*answer["log_probs"], rtol=1e-5)


def test_attention_comes_with_its_pieces(exported: Exported, version: Version) -> None:
    source, target = exported.served.vocabularies
    lines = [exported.lines[0], "", exported.lines[1]]
    answer = run(version, "attention", lines)
    assert decoded(answer["outputs"]) == decoded(run(version, "serving_default", lines)["outputs"])
    ids = {}
    for row, line in enumerate(lines):
        ids["source"] = [*source.encode(line), EOS] if line else []
        pieces = [piece for piece in decoded(answer["source_pieces"][row]) if piece]
        assert pieces == source.pieces(ids["source"])
        pieces = [piece for piece in decoded(answer["target_pieces"][row]) if piece]
        ids["target"] = [target._processor.piece_to_id(piece) for piece in pieces]
        s, t = len(ids["source"]), len(ids["target"])
        if not line:
            assert t == 0
            assert not any(answer[name][row].any() for name in ("encoder", "decoder", "memory"))
            continue
        maps = exported.translator.model.attention_maps({side: np.array([v]) for side, v in ids.items()})
        for name, (rows, columns) in {"encoder": (s, s), "decoder": (t, t), "memory": (t, s)}.items():
            np.testing.assert_allclose(answer[name][row][..., :rows, :columns], maps[name][0], atol=1e-5)


@pytest.mark.parametrize(
    "lines", [["a"] * (ATTENTION_ROWS + 1), ["a small dog " * ATTENTION_PIECES]], ids=["rows", "pieces"]
)
def test_attention_is_refused_beyond_its_limits(exported: Exported, lines: list[str]) -> None:
    hparams = config.replace(EXPORTED, max_source_length=2 * ATTENTION_PIECES)
    translator = Translator(exported.translator.model, *exported.served.vocabularies, hparams)
    attention = ServedModel(translator, ("attention",)).signatures["attention"]
    with pytest.raises(tf.errors.InvalidArgumentError, match="at most 4 texts of at most 64 pieces"):
        attention(tf.constant(lines))


def test_a_row_is_the_same_alone_and_in_any_company(exported: Exported, version: Version) -> None:
    long = " ".join(exported.lines)  # is cut, and its search goes on to the last step
    lines = [long, *exported.lines[:5], ""]
    together = [run(version, name, lines) for name in ("serving_default", "nbest")]
    for row, line in enumerate(lines):
        for name, all_rows in zip(("serving_default", "nbest"), together, strict=True):
            alone = run(version, name, [line])
            assert decoded(alone["outputs"])[0] == decoded(all_rows["outputs"])[row]
            np.testing.assert_allclose(alone["scores"][0], all_rows["scores"][row], rtol=1e-4)


def test_long_inputs_are_cut_as_the_translator_cuts_them(
    exported: Exported, version: Version, caplog: pytest.LogCaptureFixture
) -> None:
    lines = [" ".join(exported.lines), "x" * 100_000, exported.lines[0] + " " * 100_000, "日本" * 50_000]
    answer = run(version, "serving_default", lines)
    best = [h[0] for h in exported.translator.translate(lines)]
    assert decoded(answer["outputs"]) == [h.text for h in best]
    np.testing.assert_allclose(answer["scores"], [h.score for h in best], rtol=1e-4)
    assert "inputs are longer than max_source_length=40 pieces" in caplog.text
    pieces = run(version, "attention", lines[:1])["source_pieces"][0]
    assert (len(pieces), pieces[-1]) == (EXPORTED.max_source_length, b"</s>")
    assert run(version, "score", lines[:1], lines[:1])["tokens"] == [EXPORTED.max_source_length + 4]


def test_alignments_are_those_of_the_translator(exported: Exported, version: Version) -> None:
    lines = [exported.lines[0], "", exported.lines[1]]
    answer = run(version, "alignments", lines)
    translator = exported.translator.with_limits(exported.translator.decode)
    translator.start_aligning()
    for row, (best,) in enumerate(translator.translate(lines)):
        found = best.alignment
        assert decoded(answer["outputs"])[row] == best.text
        for side in ("source", "target"):
            assert [piece for piece in decoded(answer[f"{side}_pieces"][row]) if piece] == getattr(found, side)
        assert answer["scores"][row] == pytest.approx(best.score, abs=1e-5)
        target, source = found.weights.shape
        np.testing.assert_allclose(answer["alignments"][row, :target, :source], found.weights, atol=1e-5)
        assert np.count_nonzero(answer["alignments"][row]) == target * source


def test_word_scores_are_those_of_the_translator(exported: Exported, version: Version) -> None:
    lines = [*exported.lines[:4], "", " ".join(exported.lines)]  # the last is cut
    answer = run(version, "word_scores", lines)
    found = score_outputs(exported.translator, lines, exported.translator.translate(lines), words=True, quality=False)
    through = ExportedTranslator(exported.version).with_word_scores().translate(lines)
    for row, ((best,), (read,)) in enumerate(zip(found, through, strict=True)):
        assert best.words
        assert read.words
        assert decoded(answer["outputs"])[row] == read.text == best.text
        number = len(best.ids)
        pieces = [piece for piece, _ in best.words.pieces]
        assert decoded(answer["target_pieces"][row])[:number] == pieces
        assert [text for text, _ in read.words.words] == [text for text, _ in best.words.words]
        for name in ("pieces", "words"):
            values = [[value for _, value in getattr(one.words, name)] for one in (read, best)]
            np.testing.assert_allclose(*values, rtol=1e-4, atol=1e-5)
        assert answer["log_probs"][row].sum() == pytest.approx(best.words.log_prob, abs=1e-4)
        assert not answer["log_probs"][row, number:].any()
        assert not answer["ids"][row, number:].any()


@pytest.mark.nightly
def test_outputs_begin_with_prefixes(exported: Exported, version: Version) -> None:
    target, lines = exported.served.vocabularies[1], [*exported.lines[:6], "", exported.lines[0]]
    prefixes = ["Der Hund", "", "  ", "Katzen und", "D", exported.lines[0][:9], "Der", "Der Hund"]
    answer = run(version, "prefix", lines, prefixes)
    found, through = (
        translator.translate(lines, nbest=K, prefixes=prefixes)
        for translator in (exported.translator, ExportedTranslator(exported.version))
    )
    free = exported.translator.translate(lines, nbest=K)
    for row, prefix, outputs in zip(found, prefixes, decoded(answer["outputs"]), strict=True):
        assert [one.text for one in row] == outputs
        assert all(one.text.startswith(target.decode(target.encode(prefix)).strip()) for one in row if one.text)
    assert [row.text for row in through[0]] == [row.text for row in found[0]]
    np.testing.assert_allclose(answer["scores"], [[one.score for one in row] for row in found], rtol=1e-4, atol=1e-5)
    for i in (1, 2, 6):  # nothing is forced
        assert [one.text for one in found[i]] == [one.text for one in free[i]]
    assert [one.text for one in found[0]] == [one.text for one in found[7]] != [one.text for one in free[0]]


def test_prefixes_that_no_output_can_have(exported: Exported, version: Version) -> None:
    line = exported.lines[0]
    for prefixes, message in (
        (["Hund " * 60], "a prefix has more pieces than an output of its input may have"),
        (["日本"], "a prefix has symbols that the model cannot write"),
        (["Hund", "Hund"], "inputs and prefixes must be equally many"),
    ):
        with pytest.raises(RefusalError, match=message):
            run(version, "prefix", [line], prefixes)
    for translator in (exported.translator, ExportedTranslator(exported.version)):
        for prefixes, message in (
            (
                ["Hund " * 60],
                r"The prefix Hund Hund .* has \d+ pieces, and an output of its line at most \d+, the end sy",
            ),
            (["Hund 日本"], "The prefix Hund 日本 has '日', '本', which the model cannot write"),
            (["Hund", "Hund"], "Of 1 lines, 2 have a prefix; prefix N is of line N"),
        ):
            with pytest.raises(UsageError, match=message):
                translator.translate([line], prefixes=prefixes)


@pytest.mark.parametrize("lines", [[], BLANK], ids=["empty", "blank"])
@pytest.mark.parametrize("signature", SIGNATURES)
def test_an_empty_batch_and_blank_rows(version: Version, signature: str, lines: list[str]) -> None:
    if signature == "tokens":
        answer = version.run("tokens", {"ids": _padded(*([] for _ in lines))}, 60)
    else:
        answer = run(version, signature, *([lines] * (2 if signature in ("score", "prefix") else 1)))
    assert {len(value) for value in answer.values()} == {len(lines)}
    assert not any(value.any() for value in answer.values())


@pytest.mark.parametrize(
    ("signature", "inputs"),
    [
        ("serving_default", {"inputs": np.array(b"one string", object)}),
        ("nbest", {"inputs": np.array([[b"two", b"axes"]], object)}),
        ("tokens", {"ids": np.array([1, 2], np.int32)}),
        ("score", {"inputs": np.array(b"x", object), "targets": np.array(b"y", object)}),
        ("attention", {"inputs": np.array(b"x", object)}),
    ],
)
def test_another_shape_is_refused(version: Version, signature: str, inputs: dict[str, np.ndarray]) -> None:
    with pytest.raises(RefusalError, match="is not compatible with expected shape") as refusal:
        version.run(signature, inputs, 60)
    assert refusal.value.code == "INVALID_ARGUMENT"


def test_odd_bytes_harm_no_one(exported: Exported, version: Version) -> None:
    """Bytes that are not UTF-8 are read as U+FFFD; answers are UTF-8; a neighbour's answer does not change."""
    odd = [b"\xff\xfe", b"na\xefve", b"cut \xe4\xb8", b"\xed\xa0\x80", b"a\0b", b"\xef\xbb\xbfBOM", b"a\nb"]
    odd += ["👩‍👩‍👧 🇩🇪".encode(), exported.lines[0].encode()]
    answer = version.run("serving_default", {"inputs": np.array(odd, object)}, 60)
    read_as = [text.decode("utf-8", "replace") if text[:1] != b"\xed" else "\ufffd" * 3 for text in odd]
    assert decoded(answer["outputs"]) == [h[0].text for h in exported.translator.translate(read_as)]


def test_lines_through_an_export_are_lines_through_the_run(exported: Exported) -> None:
    lines = [*exported.lines, *BLANK, "日本 🌍", exported.lines[0]]
    translator = ExportedTranslator(exported.version.parent, batch_tokens=60)
    assert translator.folder == exported.version
    done: list[int] = []
    for nbest in (1, 2):
        done.clear()
        theirs = translator.translate(lines, nbest=nbest, progress=lambda number, _: done.append(number))
        ours = exported.translator.translate(lines, nbest=nbest)
        assert len(done) > 1
        assert [[h.text for h in row] for row in theirs] == [[h.text for h in row] for row in ours]
        scores = [[[h.score for h in row] for row in results] for results in (theirs, ours)]
        np.testing.assert_allclose(*scores, rtol=1e-4)


@pytest.mark.nightly
def test_an_output_goes_on_with_an_export_of_the_same_search_alone(exported: Exported, tmp_path: Path) -> None:
    """The weights of both exports are equal; only the model card tells their searches apart."""
    out, other = tmp_path / "out", Path(shutil.copytree(exported.version, tmp_path / "2"))
    card = json.loads((other / "assets" / CARD_FILE).read_text())
    card["hparams"]["beam_size"] = 1
    (other / "assets" / CARD_FILE).write_text(json.dumps(card))

    def begin(version: Path, *flags: str) -> Any:
        flags = (f"--saved_model={version}", f"--output={out}", *flags)
        request = decoder.decode_request(decoder.make_parser().parse(flags))
        return decode._open_output(request, decode._open(request, None)[1])

    with begin(exported.version) as stream:
        stream.write(["a"], b"b\n")
    with pytest.raises(UsageError, match=r"begun with other settings:\n  beam_size: 3 -> 1\nGive the same"):
        begin(other, "--resume")
    with begin(exported.version, "--resume") as stream:
        assert stream.done == 1
