"""A MarianMT model of Hugging Face as the weights of a `Transformer`: each tensor is used once, or the import fails.

It is computed as transformers does, not as Marian. Positions are sines, then cosines, at the paper's rates; here sines
and cosines alternate, so the d_model columns of all weights are put into that order, which changes no result. The
decoder starts from the vector of a piece, which is zero as a rule. PAD is a piece with a probability, unless the search
of the model normalises again without it.

Matrices are [outputs, inputs] there; heads are blocks of rows.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from t2t_lite.errors import DataError
from t2t_lite.export.huggingface_layout import AXES, BIAS, LOGITS_BIAS, SOFTMAX, SOURCE, START, TARGET, places, to_here
from t2t_lite.export.origin import IDS_FILE
from t2t_lite.ids import PAD, UNK
from t2t_lite.importers import kept_files
from t2t_lite.importers.huggingface_files import Files, SafeTensors, read_object
from t2t_lite.importers.huggingface_settings import EXPRESSED, SIZES, check, count, list_ignored, read_search
from t2t_lite.importers.imported import Description, Imported
from t2t_lite.importers.marian_folder import find_labels, make_vocabularies, read_bytes, trained_to_align
from t2t_lite.importers.marian_vocabulary import PADDING, SPECIAL, check_pieces
from t2t_lite.importers.opennmt import fold_biases
from t2t_lite.importers.t2t_variables import Variables, join_names
from t2t_lite.text.any_vocabulary import AnyVocabulary

_EPSILON = 1e-5  # of torch.nn.LayerNorm
_NEVER = -1e4  # a bias of PAD with which its probability is 0; a lower one would swell losses with label smoothing
_KEPT = ("config.json", "generation_config.json", "tokenizer_config.json")


def read(files: Files) -> tuple[Imported, tuple[AnyVocabulary, AnyVocabulary]]:
    """Reads a model, and the vocabularies of source and target; DataError if it cannot be expressed here."""
    settings = dict(files.settings)
    check(settings, EXPRESSED)
    sizes = {name: count(settings, name) for name in SIZES}
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
    rows_of = sizes["vocab_size"], sizes["vocab_size"] if shared else count(settings, "decoder_vocab_size")
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
    of_model = places({stack: sizes[f"{stack}_layers"] for stack in ("encoder", "decoder")}, shared=shared, tied=tied)
    tensors = SafeTensors(files.model)
    found = _read_tensors(tensors, of_model, sizes, rows_of)
    rows = {SOURCE: source_rows, **dict.fromkeys((TARGET, SOFTMAX, BIAS), target_rows)}
    weights = {path: to_here(path, array, rows.get(path)) for path, array in found.items()}
    if shared and not tied:
        weights[SOURCE] = weights[TARGET]
    first = weights[TARGET][target_rows.index(start)] * np.float32(math.sqrt(d_model))
    if first.any():
        weights[START] = first
    search = read_search(files.search, padding=target_rows[PAD], unknown=target_rows[UNK])
    biases = {**kept_files.biases_before(weights), BIAS: weights[BIAS].copy()}
    if files.search.get("renormalize_logits"):
        weights[BIAS][0] = _NEVER
    fold_biases(weights)
    description = _describe(sizes, rows_of, shared, tied, settings["activation_function"], starts=START in weights)
    if trained_to_align(files.model):
        description = dataclasses.replace(description, alignment_layer=sizes["decoder_layers"])
    models = [read_bytes(path) for path in files.sentencepiece]
    source, target = make_vocabularies((source_pieces, target_pieces), models, find_labels(source_pieces))
    if source is target and not description.shared:
        target = copy.copy(source)  # a run with one vocabulary shares all tables
    names = {*SIZES, *EXPRESSED, "decoder_vocab_size", "pad_token_id", "eos_token_id", "decoder_start_token_id"}
    licence, kept = kept_files.find_licence(files.model.parent)
    special = {"source": source_rows[: UNK + 1], "target": target_rows[: UNK + 1]}
    kept |= kept_files.read_files(files.model.parent, _KEPT) | kept_files.biases_file(biases)
    kept[IDS_FILE] = kept_files.json_bytes(special)
    imported = Imported(
        "MarianMT",
        weights,
        description,
        None,
        Variables({name: name for name in tensors}, (), ()),
        {name: settings[name] for name in sorted(names & set(settings))},
        (str(files.model),),
        search,
        kept=kept,
        licence=licence,
        ignored=list_ignored(files.settings, files.search),
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
    first = [ids[piece] for piece in (PADDING, *SPECIAL)]
    rows = first + sorted(set(pieces) - set(first))
    found = [pieces[i] for i in rows[1:]]
    check_pieces(found, str(path))
    return rows, found


def _read_tensors(
    tensors: SafeTensors, of_model: Mapping[str, str], sizes: Mapping[str, int], rows: tuple[int, int]
) -> dict[str, Any]:
    """Path here -> the tensor as it is in the file."""
    positions = {f"model.{stack}.embed_positions.weight" for stack in ("encoder", "decoder")}
    if unknown := sorted(set(tensors) - set(of_model) - positions):
        raise DataError(f"{tensors.path} holds {join_names(unknown)}, which a MarianMT model of its settings lacks.")
    for name in sorted(positions & set(tensors)):
        _check_positions(tensors, name, sizes["d_model"])
    found: dict[str, Any] = {BIAS: np.zeros((1, rows[1]), np.float32)} if LOGITS_BIAS not in set(tensors) else {}
    for name in (name for name in of_model if name in set(tensors)):
        path = of_model[name]
        counts = {"m": sizes["d_model"], "h": sizes["d_model"], "f": sizes["encoder_ffn_dim"]}
        axes = [{**counts, "v": rows[path != SOURCE]}[axis] for axis in AXES[path.rpartition("/")[2]]]
        wanted = (1, rows[1]) if path == BIAS else tuple(axes if path.endswith("/table") else axes[::-1])
        if tensors.shape(name) != wanted:
            raise DataError(
                f"{tensors.path} is of other settings than config.json: {name} has {tensors.shape(name)}, not {wanted}."
            )
        array = tensors[name]
        if path in found and not np.array_equal(array, found[path]):
            raise DataError(f"{tensors.path} holds {name}, which differs from the table that config.json says it is.")
        found[path] = array
    if lacking := [name for name, path in of_model.items() if path not in found]:
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
