"""A Transformer as a folder of Marian, as OPUS-MT releases it: model.npz, vocabulary, SentencePiece models, settings.

Marian has no padding: its row in the tables and its bias are left out, so that it takes no share of a probability.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t_lite.decoding.rules import NO_RULES, Rules
from t2t_lite.decoding.translate import Translator
from t2t_lite.errors import UsageError
from t2t_lite.export.export import new_version, write_card
from t2t_lite.export.expressible import END, UNKNOWN, check_model, check_text, list_pieces, power_penalty
from t2t_lite.export.hub_readme import write_readme
from t2t_lite.export.marian_layout import BIAS, KEY, SOFTMAX, SOURCE, TARGET, places
from t2t_lite.export.origin import Origin
from t2t_lite.export.preprocessing import script_of
from t2t_lite.runs.run_dir import LICENCE_FILE
from t2t_lite.text.any_vocabulary import AnyVocabulary

MODEL_FILE, DECODER_FILE, SCRIPT_FILE = "model.npz", "decoder.yml", "preprocess.sh"
_SPM = ("source.spm", "target.spm")
_NORMS = {
    "post": {"transformer-preprocess": "", "transformer-postprocess": "dan", "transformer-postprocess-top": ""},
    "pre": {"transformer-preprocess": "n", "transformer-postprocess": "da", "transformer-postprocess-top": "n"},
}
_TIED = ("tied-embeddings", "tied-embeddings-src", "tied-embeddings-all")
# Settings of all models written here, besides those that the model's sizes give.
_SETTINGS: Mapping[str, Any] = {
    "type": "transformer",
    "input-types": [],
    "right-left": "false",
    "transformer-attention-mask": "default",
    "transformer-decoder-autoreg": "self-attention",
    "transformer-decoder-dim-ffn": "0",
    "transformer-decoder-ffn-depth": "0",
    "transformer-ffn-depth": "2",
    "transformer-guided-alignment-layer": "last",
    "transformer-postprocess-emb": "d",
    "transformer-tied-layers": [],
    **dict.fromkeys(
        (
            "transformer-no-affine",
            "transformer-no-bias",
            "transformer-no-projection",
            "transformer-train-position-embeddings",
        ),
        "false",
    ),
    "ulr": "false",
    "version": "v1.12.0 (of the format; written by t2t-lite)",
}
_PLAIN = re.compile(r"[A-Za-z0-9][\w.+-]*")


def export_marian(
    translator: Translator, base: str | os.PathLike[str], card: Mapping[str, Any], origin: Origin
) -> Path:
    """Writes a folder of Marian as a version of `base`, as `new_version` does, and returns its path.

    Args:
        translator: a float32 model, its vocabularies, and how it decodes.
        card: becomes model_card.json, and README.md.
        origin: of the run; an import from Marian keeps the settings that it came with.

    Raises:
        UsageError: Marian cannot run this model.
        DataError: as `new_version`.
    """
    model = translator.model
    check_model("marian", model)
    sides = translator.source_vocabulary, translator.target_vocabulary
    check_text("marian", sides, translator.outputs)
    for name, value in Rules.of(translator.decode).changed().items():
        usual = getattr(NO_RULES, name)
        raise UsageError(
            f"Marian's search has no {name}={value:g}. Export with --{name}={usual:g}, or as a SavedModel."
        )
    pieces = [[END, UNKNOWN, *list_pieces(side)] for side in sides]
    licence = origin.files.get(LICENCE_FILE)
    if origin.toolkit != "Marian":
        origin = Origin()
    arrays = _arrays(model, pieces, origin)
    files = _text_files(sides, pieces, origin)
    names = [name for name in files if name.endswith("vocab.yml")]
    files[DECODER_FILE] = _decoder(translator, [names[0], names[-1]]).encode()

    def write(folder: Path) -> None:
        np.savez(folder / MODEL_FILE, **arrays)
        for name, data in files.items():
            (folder / name).write_bytes(data)
        write_card(folder, {**card, "marian": {"length_penalty": power_penalty(translator.decode)}})
        write_readme(folder, card, "marian", licence)

    return new_version(base, write)


def _arrays(model: Any, pieces: Sequence[Sequence[str]], origin: Origin) -> dict[str, Any]:
    """The arrays of model.npz, by name."""
    weights = {weight.path: np.asarray(weight.value, np.float32) for weight in model.weights}
    origin.restore_biases(weights)
    target, tied = weights[TARGET], SOFTMAX not in weights
    one_table = np.array_equal(weights.setdefault(SOURCE, target), target) and pieces[0] == pieces[1]
    bias = weights.get(BIAS, np.zeros(len(target), np.float32))[1:]
    hparams = model.hparams
    without_bias = origin.settings.get("output-omit-bias") == "true" and not bias.any()
    settings = {
        **_SETTINGS,
        **_NORMS[hparams.norm],
        **dict(zip(_TIED, _tied_flags(one_table, tied), strict=True)),
        "transformer-guided-alignment-layer": str(hparams.aligning_layer or "last"),
        **origin.settings,
        "dim-vocabs": [str(len(side)) for side in pieces],
        "dim-emb": str(hparams.d_model),
        "enc-depth": str(hparams.num_layers),
        "dec-depth": str(hparams.decoder_layers),
        "transformer-heads": str(hparams.num_heads),
        "transformer-dim-ffn": str(hparams.d_ff),
        "transformer-ffn-activation": hparams.activation,
        "output-omit-bias": "true" if without_bias else "false",
    }
    found = {}
    of_model = places(
        (hparams.num_layers, hparams.decoder_layers),
        norm=hparams.norm,
        one_table=one_table,
        tied=tied,
        output_bias=not without_bias,
    )
    for name, path in of_model.items():
        array = bias if path == BIAS else weights.get(path)
        if array is None:  # a bias that the model here does not have
            array = np.zeros(hparams.d_model, np.float32)
        found[name] = array[1:] if path.endswith("/table") else array.reshape(-1, array.shape[-1])
    text = "".join(f"{name}:{_yaml(value)}\n" for name, value in sorted(settings.items())).encode()
    return {**found, KEY: np.frombuffer(text + b"\0", np.int8)}


def _tied_flags(one_table: bool, tied: bool) -> tuple[str, ...]:
    return tuple(
        "true" if flag else "false" for flag in (tied and not one_table, one_table and not tied, one_table and tied)
    )


def _yaml(value: Any) -> str:
    """A setting as Marian writes it: after "name:" of its line."""
    if isinstance(value, list):
        return "".join(f"\n  - {_scalar(each)}" for each in value) or "\n  []"
    return f" {_scalar(value)}"


def _scalar(value: Any) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text)


def _text_files(sides: Sequence[AnyVocabulary], pieces: Sequence[Sequence[str]], origin: Origin) -> dict[str, bytes]:
    """What belongs to the model besides its weights and its search, by file name."""
    names = ("vocab.yml",) if pieces[0] == pieces[1] else ("source.vocab.yml", "target.vocab.yml")
    files = {
        name: "".join(f"{_piece(piece)}: {i}\n" for i, piece in enumerate(side)).encode()
        for name, side in zip(names, pieces, strict=False)
    }
    files |= {name: side.sentencepiece or b"" for name, side in zip(_SPM, sides, strict=True)}
    if sides[0].replacements:
        files[SCRIPT_FILE] = origin.files.get(SCRIPT_FILE) or script_of(sides[0].replacements).encode()
    return files


def _piece(piece: str) -> str:
    r"""A piece in double quotes: YAML has JSON's escapes, and a line has no other character that ends it."""
    text = json.dumps(piece, ensure_ascii=False)
    return re.sub("[\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]", lambda match: f"\\u{ord(match[0]):04x}", text)


def _decoder(translator: Translator, vocabularies: Sequence[str]) -> str:
    """decoder.yml: the search, and the files by their names in the folder."""
    decode = translator.decode
    lines = [
        "relative-paths: true",
        "models:",
        f"  - {MODEL_FILE}",
        "vocabs:",
        *(f"  - {name}" for name in vocabularies),
    ]
    if not decode.extra_length:  # Marian has no such limit; without the next line, its own is 3
        lines.append(f"max-length-factor: {decode.max_length_factor:g}")
    lines += [
        f"beam-size: {decode.beam_size}",
        f"normalize: {power_penalty(decode):g}",
        "word-penalty: 0",
        f"allow-unk: {'true' if decode.unknown_output else 'false'}",
        "mini-batch: 16",
        "maxi-batch: 100",
        "maxi-batch-sort: src",
    ]
    return "".join(f"{line}\n" for line in lines)
