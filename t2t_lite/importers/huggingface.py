"""A MarianMT model of Hugging Face as the weights of a `Transformer`: each tensor is used once, or the import fails.

It is computed as transformers does, not as Marian. Positions are sines, then cosines, at the paper's rates; here sines
and cosines alternate, so the d_model columns of all weights are put into that order, which changes no result. The
decoder starts from the vector of a piece, which is zero as a rule. PAD is a piece with a probability, unless the search
of the model normalises again without it.

Matrices are [outputs, inputs] there; heads are blocks of rows.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from t2t_lite.errors import DataError
from t2t_lite.importers.huggingface_files import Files, SafeTensors, read_object
from t2t_lite.importers.imported import Description, Imported
from t2t_lite.importers.marian_folder import make_vocabularies, read_bytes
from t2t_lite.importers.marian_vocabulary import PADDING, SPECIAL
from t2t_lite.importers.opennmt import fold_biases
from t2t_lite.importers.t2t_variables import Variables, join_names
from t2t_lite.text.any_vocabulary import AnyVocabulary

_EPSILON = 1e-5  # of torch.nn.LayerNorm
_NEVER = -1e4  # a bias of PAD with which its probability is 0; a lower one would swell losses with label smoothing
# Setting of config.json -> the values that a Transformer of this package has; None: not given.
_EXPRESSED: Mapping[str, tuple[Any, ...]] = {
    "model_type": ("marian",),
    "activation_function": ("relu", "swish", "silu", "gelu"),
    "scale_embedding": (True,),
    "static_position_embeddings": (True, None),
    **dict.fromkeys(("normalize_embedding", "normalize_before", "add_final_layer_norm"), (False, None)),
    **dict.fromkeys(("share_encoder_decoder_embeddings", "tie_word_embeddings"), (True, False, None)),
}
# Settings of generation_config.json that change what a search finds.
_SEARCHED: Mapping[str, tuple[Any, ...]] = {
    "do_sample": (False, None),
    **dict.fromkeys(("repetition_penalty", "encoder_repetition_penalty", "num_beam_groups"), (1, None)),
    **dict.fromkeys(
        ("no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "min_length", "min_new_tokens", "diversity_penalty"),
        (0, None),
    ),
    **dict.fromkeys(
        ("forced_bos_token_id", "suppress_tokens", "begin_suppress_tokens", "sequence_bias", "force_words_ids"), (None,)
    ),
    "exponential_decay_length_penalty": (None,),
    "renormalize_logits": (False, True, None),
}
_SIZES = ("d_model", "encoder_layers", "decoder_layers", "encoder_attention_heads", "encoder_ffn_dim", "vocab_size")
_MOST, _MOST_LAYERS = 10_000_000, 256

# (stack, sub-layer there) -> (the residual connection here, the layer in it).
_ATTENTION = {
    ("encoder", "self_attn"): ("around_attention", "self_attention"),
    ("decoder", "self_attn"): ("around_self", "self_attention"),
    ("decoder", "encoder_attn"): ("around_memory", "memory_attention"),
}
_KINDS = {"weight": "", "bias": "_bias"}
_IN_ATTENTION = {
    f"{letter}_proj.{kind}": f"{name}{end}"
    for letter, name in {"q": "query", "k": "key", "v": "value", "out": "output"}.items()
    for kind, end in _KINDS.items()
}
_IN_FEED_FORWARD = {"fc1.weight": "kernel_1", "fc1.bias": "bias_1", "fc2.weight": "kernel_2", "fc2.bias": "bias_2"}
_NORM = {"weight": "gamma", "bias": "beta"}
# Last part of a path -> its axes: m of the model's columns, h of all heads, f of the inner size, v of pieces.
_AXES = {
    **dict.fromkeys(("query", "key", "value"), "mh"),
    **dict.fromkeys(("query_bias", "key_bias", "value_bias"), "h"),
    **dict.fromkeys(("output_bias", "bias_2", "gamma", "beta"), "m"),
    "output": "hm",
    "kernel_1": "mf",
    "bias_1": "f",
    "kernel_2": "fm",
    "table": "vm",
}
_SOURCE, _TARGET, _SOFTMAX = (
    f"transformer/{name}/table" for name in ("source_embedding", "target_embedding", "softmax")
)
_BIAS, _START = "transformer/output_bias", "transformer/start_vector"
_LOGITS_BIAS = "final_logits_bias"


def read(files: Files) -> tuple[Imported, tuple[AnyVocabulary, AnyVocabulary]]:
    """Reads a model, and the vocabularies of source and target; DataError if it cannot be expressed here."""
    settings = dict(files.settings)
    _check(settings, _EXPRESSED)
    sizes = {name: _count(settings, name) for name in _SIZES}
    d_model, heads = sizes["d_model"], sizes["encoder_attention_heads"]
    if d_model % heads or d_model % 2:
        raise DataError(f"config.json contradicts itself: {heads} heads, d_model={d_model}.")
    for name in ("attention_heads", "ffn_dim"):
        if settings.get(f"decoder_{name}") != sizes[f"encoder_{name}"]:
            raise DataError(
                f"This MarianMT model cannot be expressed here: encoder_{name}={sizes[f'encoder_{name}']}, and "
                f"decoder_{name}={settings.get(f'decoder_{name}')}."
            )
    shared, tied = (
        settings.get(name) is not False for name in ("share_encoder_decoder_embeddings", "tie_word_embeddings")
    )
    rows_of = sizes["vocab_size"], sizes["vocab_size"] if shared else _count(settings, "decoder_vocab_size")
    (source_rows, source_pieces), (target_rows, target_pieces) = (
        _order(path, size) for path, size in zip(files.vocabularies, rows_of, strict=True)
    )
    start = settings.get("decoder_start_token_id")
    said = [settings.get("pad_token_id"), settings.get("eos_token_id")]
    if said != target_rows[:2] or start not in target_rows or (shared and source_rows != target_rows):
        raise DataError(
            f"{files.vocabularies[1]} is of another model than config.json, which says pad_token_id={said[0]}, "
            f"eos_token_id={said[1]}, decoder_start_token_id={start}."
        )
    places = _places(sizes, shared, tied)
    tensors = SafeTensors(files.model)
    found = _read_tensors(tensors, places, sizes, rows_of)
    rows = {_SOURCE: source_rows, **dict.fromkeys((_TARGET, _SOFTMAX, _BIAS), target_rows)}
    weights = {path: _arrange(path, array, rows.get(path)) for path, array in found.items()}
    if shared and not tied:
        weights[_SOURCE] = weights[_TARGET]
    first = weights[_TARGET][target_rows.index(start)] * np.float32(math.sqrt(d_model))
    if first.any():
        weights[_START] = first
    search = _search(files.search, target_rows[0])
    if files.search.get("renormalize_logits"):
        weights[_BIAS][0] = _NEVER
    fold_biases(weights)
    description = _describe(sizes, rows_of, shared, tied, settings["activation_function"], starts=_START in weights)
    models = [read_bytes(path) for path in files.sentencepiece]
    source, target = make_vocabularies((source_pieces, target_pieces), models)
    if source is target and not description.shared:
        target = copy.copy(source)  # a run with one vocabulary shares all tables
    names = {*_SIZES, *_EXPRESSED, "decoder_vocab_size", "pad_token_id", "eos_token_id", "decoder_start_token_id"}
    imported = Imported(
        "MarianMT",
        weights,
        description,
        None,
        Variables({name: name for name in tensors}, (), ()),
        {name: settings[name] for name in sorted(names & set(settings))},
        (str(files.model),),
        search,
    )
    return imported, (source, target)


def _describe(
    sizes: Mapping[str, int], rows: tuple[int, int], shared: bool, tied: bool, activation: str, *, starts: bool
) -> Description:
    """The model's description; `starts`: its start vector is not zero."""
    heads = sizes["encoder_attention_heads"]
    return Description(
        num_layers=sizes["encoder_layers"],
        num_decoder_layers=sizes["decoder_layers"],
        d_model=sizes["d_model"],
        d_ff=sizes["encoder_ffn_dim"],
        num_heads=heads,
        d_k=sizes["d_model"] // heads,
        d_v=sizes["d_model"] // heads,
        norm="post",
        positions="sinusoidal",
        max_positions=0,
        max_relative_position=0,
        attention_biases=True,
        source_vector=False,
        source_vocab_size=rows[0],
        target_vocab_size=rows[1],
        shared=shared and tied,
        share_embeddings=tied,
        norm_epsilon=_EPSILON,
        start_vector=starts,
        output_bias=True,
        activation={"silu": "swish"}.get(activation, activation),
    )


def _check(settings: Mapping[str, Any], expressed: Mapping[str, tuple[Any, ...]]) -> None:
    for name, allowed in expressed.items():
        if settings.get(name) not in allowed:
            raise DataError(
                f"This model of Hugging Face cannot be expressed here: {name}={settings.get(name)!r:.80} (only "
                f"{' or '.join(map(str, allowed))})."
            )


def _count(settings: Mapping[str, Any], name: str) -> int:
    number, most = settings.get(name), _MOST_LAYERS if name.endswith("_layers") else _MOST
    if type(number) is not int or not 0 < number <= most:
        raise DataError(f"config.json says {name}={number!r:.80}, which is no number from 1 to {most:,}.")
    return number


def _search(settings: Mapping[str, Any], padding: int) -> dict[str, Any]:
    """The search of generation_config.json: a score is the log-probability divided by length^length_penalty.

    An output has at most max_new_tokens pieces, or one less than max_length, which counts the start.
    """
    _check(settings, {**_SEARCHED, "bad_words_ids": (None, [], [[padding]])})
    found: dict[str, Any] = {"length_penalty_form": "power"}
    for name, field, usual in (("num_beams", "beam_size", 1), ("length_penalty", "length_penalty", 1.0)):
        value: Any = settings.get(name)
        found[field] = type(usual)(value) if type(value) in (int, type(usual)) else usual
        if value is not None and found[field] != value:
            raise DataError(f"The search of the model says {name}={value!r:.80}, which is no such number.")
    for name, start in (("max_length", 1), ("max_new_tokens", 0)):  # the second one counts if both are there
        value = settings.get(name)
        if value is not None:
            if type(value) is not int or value <= start:
                raise DataError(f"The search of the model says {name}={value!r:.80}, which is no such number.")
            found |= {"max_length_factor": 0.0, "extra_length": value - start}
    return found


def _order(path: Any, size: int) -> tuple[list[int], list[str]]:
    """The id in a vocab.json of each id here, and the pieces but PAD; DataError if it is not the model's."""
    ids = read_object(path)
    if any(type(i) is not int for i in ids.values()) or sorted(ids.values()) != list(range(size)):
        raise DataError(
            f"{path} has {len(ids):,} pieces, and the model {size:,} with ids from 0: it is of another model."
        )
    if lacking := [piece for piece in (PADDING, *SPECIAL) if piece not in ids]:
        raise DataError(f"{path} lacks the piece {lacking[0]}, which a vocabulary of MarianMT has.")
    pieces = {i: piece for piece, i in ids.items()}
    if any("\ud800" <= character <= "\udfff" for piece in ids for character in piece):
        raise DataError(f"{path} has a piece that is no text.")
    first = [ids[piece] for piece in (PADDING, *SPECIAL)]
    rows = first + sorted(set(pieces) - set(first))
    return rows, [pieces[i] for i in rows[1:]]


def _places(sizes: Mapping[str, int], shared: bool, tied: bool) -> dict[str, str]:
    """Name of each tensor that the file may hold -> the path here; of several names for one path one must be there."""
    found: dict[str, str] = {}
    for stack in ("encoder", "decoder"):
        for layer in range(sizes[f"{stack}_layers"]):
            there, here = f"model.{stack}.layers.{layer}.", f"transformer/{stack}/layer_{layer}/"
            parts = {("final_layer_norm", ""): ("around_feed_forward", "feed_forward", _IN_FEED_FORWARD)}
            for (of_stack, part), (around, inside) in _ATTENTION.items():
                if of_stack == stack:
                    parts[f"{part}_layer_norm", f"{part}."] = (around, inside, _IN_ATTENTION)
            for (norm, part), (around, inside, within) in parts.items():
                found |= {f"{there}{part}{name}": f"{here}{around}/{inside}/{path}" for name, path in within.items()}
                found |= {f"{there}{norm}.{name}": f"{here}{around}/layer_norm/{path}" for name, path in _NORM.items()}
    if shared:
        found["model.shared.weight"] = _TARGET
    found["model.encoder.embed_tokens.weight"] = _TARGET if shared else _SOURCE
    found["model.decoder.embed_tokens.weight"] = _TARGET
    found["lm_head.weight"] = _TARGET if tied else _SOFTMAX
    found[_LOGITS_BIAS] = _BIAS
    return found


def _read_tensors(
    tensors: SafeTensors, places: Mapping[str, str], sizes: Mapping[str, int], rows: tuple[int, int]
) -> dict[str, Any]:
    """Path here -> the tensor as it is in the file."""
    positions = {f"model.{stack}.embed_positions.weight" for stack in ("encoder", "decoder")}
    if unknown := sorted(set(tensors) - set(places) - positions):
        raise DataError(f"{tensors.path} holds {join_names(unknown)}, which a MarianMT model of its settings lacks.")
    for name in sorted(positions & set(tensors)):
        _check_positions(tensors, name, sizes["d_model"])
    found: dict[str, Any] = {_BIAS: np.zeros((1, rows[1]), np.float32)} if _LOGITS_BIAS not in set(tensors) else {}
    for name in (name for name in places if name in set(tensors)):
        path = places[name]
        counts = {"m": sizes["d_model"], "h": sizes["d_model"], "f": sizes["encoder_ffn_dim"]}
        axes = [{**counts, "v": rows[path != _SOURCE]}[axis] for axis in _AXES[path.rpartition("/")[2]]]
        wanted = (1, rows[1]) if path == _BIAS else tuple(axes if path.endswith("/table") else axes[::-1])
        if tensors.shape(name) != wanted:
            raise DataError(
                f"{tensors.path} is of other settings than config.json: {name} has {tensors.shape(name)}, not {wanted}."
            )
        array = tensors[name]
        if path in found and not np.array_equal(array, found[path]):
            raise DataError(f"{tensors.path} holds {name}, which differs from the table that config.json says it is.")
        found[path] = array
    if lacking := [name for name, path in places.items() if path not in found]:
        raise DataError(f"{tensors.path} is not complete: its settings need {join_names(lacking)}.")
    return found


def _check_positions(tensors: SafeTensors, name: str, d_model: int) -> None:
    """Raises DataError unless a table of positions, which few files hold, is the one that transformers computes."""
    shape = tensors.shape(name)
    if len(shape) == 2 and shape[1] == d_model:
        angles = np.arange(shape[0])[:, None] * 10000.0 ** (-2 * np.arange(d_model // 2) / d_model)
        wanted = np.concatenate([np.sin(angles), np.cos(angles)], -1)
        if np.abs(tensors[name] - wanted).max() <= (5e-3 if tensors.halved(name) else 1e-6):
            return
    raise DataError(f"{tensors.path} holds {name}, which are other positions than transformers computes.")


def _arrange(path: str, array: Any, rows: list[int] | None) -> Any:
    """A tensor with axes, pieces and columns in the order here."""
    if path == _BIAS:
        return array[0][rows]
    axes = _AXES[path.rpartition("/")[2]]
    array = array.T if rows is None else array[rows]
    if "m" not in axes:
        return array
    axis = axes.index("m")
    return np.take(array, np.arange(array.shape[axis]).reshape(2, -1).T.ravel(), axis)
