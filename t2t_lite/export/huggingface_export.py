"""A Transformer as a MarianMT folder, which transformers opens with `from_pretrained`.

There the decoder starts from the vector of a piece, `<pad>`, whose logit has the same vector where the softmax is tied.
Here it starts from `start_vector` or zeros, and the row of PAD serves the softmax alone. Where the two differ, the
folder has the vector of the start, and a bias with which `<pad>` takes no share of a probability.
"""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t_lite.decoding.translate import Translator
from t2t_lite.export.export import new_version, write_card
from t2t_lite.export.expressible import END, PADDING, UNKNOWN, check_model, check_text, list_pieces, power_penalty
from t2t_lite.export.hub_readme import write_readme
from t2t_lite.export.huggingface_layout import BIAS, SOFTMAX, SOURCE, START, TARGET, places, to_there
from t2t_lite.export.origin import IDS_FILE, Origin
from t2t_lite.ids import EOS, PAD, UNK
from t2t_lite.runs.run_dir import LICENCE_FILE
from t2t_lite.text.any_vocabulary import AnyVocabulary

MODEL_FILE, CONFIG_FILE, SEARCH_FILE, TOKENIZER_FILE = (
    "model.safetensors",
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
)
_log = logging.getLogger("t2t_lite")

_SPM = ("source.spm", "target.spm")
_VOCAB = ("vocab.json", "target_vocab.json")
_NEVER = -1e4  # with this bias a piece is never chosen; fits float16
_LONGEST = 512  # pieces, as in other MarianMT models; their positions have no limit
# What transformers takes for a setting that config.json or generation_config.json does not have.
_USUAL = {
    "share_encoder_decoder_embeddings": True,
    "tie_word_embeddings": True,
    "num_beams": 1,
    "length_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "min_length": 0,
    "repetition_penalty": 1.0,
}
_SAME_ACTIVATION = {"silu": "swish"}


def export_huggingface(
    translator: Translator, base: str | os.PathLike[str], card: Mapping[str, Any], origin: Origin
) -> Path:
    """Writes a MarianMT folder as a version of `base`, as `new_version` does, and returns its path.

    Args:
        translator: a float32 model, its vocabularies, and how it decodes.
        card: becomes model_card.json, and README.md.
        origin: of the run; an import from MarianMT keeps the settings that it came with.

    Raises:
        UsageError: MarianMT cannot compute this model.
        DataError: as `new_version`.
    """
    model = translator.model
    check_model("huggingface", model)
    sides = translator.source_vocabulary, translator.target_vocabulary
    check_text("huggingface", sides, translator.outputs)
    licence = origin.files.get(LICENCE_FILE)
    if origin.toolkit != "MarianMT":
        origin = Origin()
    pieces = [list_pieces(side) for side in sides]
    if len(pieces[0]) != len(pieces[1]):
        _log.warning(
            "warning: source and target have %d and %d pieces; transformers opens such a model from its release 5 on.",
            *(side.size for side in sides),
        )
    rows = _rows(pieces, origin)
    weights, start = _weights(model, rows, pieces, origin)
    shared, tied = SOURCE not in weights, SOFTMAX not in weights
    settings = _settings(model, rows, start, origin, shared=shared, tied=tied)
    search = _search(translator, rows[1], start, origin)
    files = _text_files(sides, pieces, rows, card, origin)
    files |= {CONFIG_FILE: _json(settings), SEARCH_FILE: _json(search)}
    layers = {"encoder": model.hparams.num_layers, "decoder": model.hparams.decoder_layers}
    names = _names(places(layers, shared=shared, tied=tied), copies=shared and not tied)

    def write(folder: Path) -> None:
        write_tensors(folder / MODEL_FILE, _tensors(names, weights, rows))
        for name, data in files.items():
            (folder / name).write_bytes(data)
        write_card(folder, {**card, "huggingface": {"length_penalty": search.get("length_penalty", 1.0)}})
        write_readme(folder, card, "huggingface", licence)

    return new_version(base, write)


def _rows(pieces: Sequence[Sequence[str]], origin: Origin) -> list[list[int]]:
    """The id there of each id here, for source and target.

    Marian's order, <pad> at the end; but <pad> needs one id on both sides, so of different sizes it comes third. An
    import has the ids that it came with.
    """
    special: Mapping[str, Any] = origin.json_object(IDS_FILE)
    found = []
    for side, name in zip(pieces, ("source", "target"), strict=True):
        size = len(side) + len((PADDING, END, UNKNOWN))
        usual = [size - 1 if len(pieces[0]) == len(pieces[1]) else 2, 0, 1]
        first = special.get(name, usual)
        if sorted(set(first) & set(range(size))) != sorted(first) or len(first) != len(usual):
            first = usual
        found.append([*first, *sorted(set(range(size)) - set(first))])
    return found


def _weights(
    model: Any, rows: Sequence[Sequence[int]], pieces: Sequence[Sequence[str]], origin: Origin
) -> tuple[dict[str, Any], int]:
    """The weights by path here, as MarianMT has them, and the id there of the piece that the decoder starts from."""
    weights = {weight.path: np.asarray(weight.value, np.float32) for weight in model.weights}
    origin.restore_biases(weights)
    target = weights[TARGET]
    if np.array_equal(weights.setdefault(SOURCE, target), target) and pieces[0] == pieces[1] and rows[0] == rows[1]:
        del weights[SOURCE]
    scale = np.float32(math.sqrt(model.hparams.d_model))
    vector = weights.pop(START, np.zeros(model.hparams.d_model, np.float32))
    bias = weights.get(BIAS, np.zeros(len(target), np.float32))
    said = origin.json_object(CONFIG_FILE).get("decoder_start_token_id")
    for i in dict.fromkeys((rows[1].index(said) if said in rows[1] else PAD, PAD)):
        if np.array_equal(target[i] * scale, vector):
            return {**weights, BIAS: origin.restored_bias(BIAS, bias)}, rows[1][i]
    weights[TARGET] = np.concatenate([(vector / scale)[None], target[1:]])
    if SOFTMAX not in weights:
        bias = np.concatenate([np.full(1, _NEVER, np.float32), bias[1:]])
    return {**weights, BIAS: bias}, rows[1][PAD]


def _names(of_model: Mapping[str, str], *, copies: bool) -> dict[str, str]:
    """The path here of each tensor that is written: one for each path.

    copies: of a table that both sides share, and the softmax does not, each side has its own copy, too; transformers 5
    ties none where config.json says that the softmax is not tied.
    """
    found: dict[str, str] = {}
    for name, path in of_model.items():
        if path not in found.values() or (copies and name.endswith("embed_tokens.weight")):
            found[name] = path
    return found


def _tensors(
    names: Mapping[str, str], weights: Mapping[str, Any], rows: Sequence[Sequence[int]]
) -> Iterator[tuple[str, Any]]:
    """The tensors, by name, one at a time."""
    columns = len(weights[TARGET][0])
    for name, path in sorted(names.items()):
        of_pieces = path == BIAS or path.endswith("/table")
        array = weights.get(path)
        if array is None:  # a bias that the model here does not have
            array = np.zeros(columns, np.float32)
        yield name, to_there(path, array, list(rows[path != SOURCE]) if of_pieces else None)


def _settings(
    model: Any, rows: Sequence[Sequence[int]], start: int, origin: Origin, *, shared: bool, tied: bool
) -> dict[str, Any]:
    """config.json: an import's own, and what the model says."""
    hparams = model.hparams
    found: dict[str, Any] = {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "activation_function": hparams.activation,
        "d_model": hparams.d_model,
        **{f"{stack}_attention_heads": hparams.num_heads for stack in ("encoder", "decoder")},
        **{f"{stack}_ffn_dim": hparams.d_ff for stack in ("encoder", "decoder")},
        "encoder_layers": hparams.num_layers,
        "decoder_layers": hparams.decoder_layers,
        "vocab_size": len(rows[0]),
        "decoder_vocab_size": len(rows[1]),
        "pad_token_id": rows[1][PAD],
        "eos_token_id": rows[1][EOS],
        "decoder_start_token_id": start,
        "share_encoder_decoder_embeddings": shared,
        "tie_word_embeddings": tied,
        "scale_embedding": True,
    }
    kept = origin.json_object(CONFIG_FILE)
    if not kept:
        of_training = {name: getattr(hparams, name) for name in ("dropout", "attention_dropout")}
        return {
            **found,
            **of_training,
            "activation_dropout": hparams.relu_dropout,
            "is_encoder_decoder": True,
            "max_position_embeddings": _LONGEST,
            "static_position_embeddings": True,
            "normalize_before": False,
            "normalize_embedding": False,
            "add_final_layer_norm": False,
            "forced_eos_token_id": rows[1][EOS],
            "num_hidden_layers": hparams.num_layers,
            "torch_dtype": "float32",
        }
    usual = {**_USUAL, "decoder_vocab_size": kept.get("vocab_size")}
    if _SAME_ACTIVATION.get(kept.get("activation_function", "")) == found["activation_function"]:
        del found["activation_function"]
    del found["architectures"]
    types = {name: "float32" for name in ("torch_dtype", "dtype") if name in kept}  # of the tensors
    return kept | types | {name: value for name, value in found.items() if kept.get(name, usual.get(name)) != value}


def _search(translator: Translator, rows: Sequence[int], start: int, origin: Origin) -> dict[str, Any]:
    """generation_config.json: an import's own, and the run's search."""
    decode, pad = translator.decode, rows[PAD]
    kept = origin.json_object(SEARCH_FILE)
    never = [[pad]] if decode.unknown_output else [[pad], [rows[UNK]]]
    found: dict[str, Any] = {"num_beams": decode.beam_size, "length_penalty": power_penalty(decode)}
    if not decode.max_length_factor:  # the length of the input counts for nothing, as in transformers
        name, counted = ("max_new_tokens", 0) if kept.get("max_new_tokens") else ("max_length", 1)
        found[name] = decode.extra_length + counted
    rules = {
        "no_repeat_ngram_size": decode.no_repeat_ngram_size,
        "min_length": decode.min_length and decode.min_length + 1,  # it counts the start
        "repetition_penalty": decode.repetition_penalty,
    }
    if not kept:
        return {
            "max_length": _LONGEST,
            **found,
            **{name: value for name, value in rules.items() if value != _USUAL[name]},
            "bad_words_ids": never,
            "decoder_start_token_id": start,
            "eos_token_id": rows[EOS],
            "forced_eos_token_id": rows[EOS],
            "pad_token_id": pad,
        }
    if not decode.unknown_output or kept.get("bad_words_ids"):
        found["bad_words_ids"] = never
    kept = {name: value for name, value in kept.items() if name != "min_new_tokens"}  # min_length says the same
    found |= rules
    return kept | {name: value for name, value in found.items() if (kept.get(name) or _USUAL.get(name)) != value}


def _text_files(
    sides: Sequence[AnyVocabulary],
    pieces: Sequence[Sequence[str]],
    rows: Sequence[Sequence[int]],
    card: Mapping[str, Any],
    origin: Origin,
) -> dict[str, bytes]:
    """The files of the tokenizer, by name."""
    ids = [
        dict(sorted(zip([PADDING, END, UNKNOWN, *side], order, strict=True), key=lambda pair: pair[1]))
        for side, order in zip(pieces, rows, strict=True)
    ]
    separate = ids[0] != ids[1]
    problem = card.get("problem", {})
    of_tokenizer = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": problem.get("source_language"),
        "target_lang": problem.get("target_language"),
        "separate_vocabs": separate,
        "model_max_length": _LONGEST,
        "eos_token": END,
        "unk_token": UNKNOWN,
        "pad_token": PADDING,
        **origin.json_object(TOKENIZER_FILE),
    }
    special = {"eos_token": END, "unk_token": UNKNOWN, "pad_token": PADDING}
    return {
        **{name: _json(side) for name, side in zip(_VOCAB[: 1 + separate], ids, strict=False)},
        **{name: side.sentencepiece or b"" for name, side in zip(_SPM, sides, strict=True)},
        TOKENIZER_FILE: _json(of_tokenizer),
        "special_tokens_map.json": _json(special),
    }


def write_tensors(path: Path, tensors: Iterator[tuple[str, Any]]) -> None:
    """Writes a safetensors file: the length of a JSON object in 8 bytes, the object, and the tensors without a gap."""
    arrays = {name: np.ascontiguousarray(array, np.float32) for name, array in tensors}
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    place = 0
    for name, array in arrays.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [place, place + array.nbytes]}
        place += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # the tensors begin at a multiple of 8
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            file.write(array.tobytes())


def _json(values: Any) -> bytes:
    return (json.dumps(values, ensure_ascii=False, indent=2) + "\n").encode()
