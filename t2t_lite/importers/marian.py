"""A model that Marian trained as the weights of a `Transformer`: each array is used once, or the import fails.

Positions are sines, then cosines, at the rates 10000^(-i / (d_model / 2 - 1)), which are tensor2tensor's; those of
transformers' MarianMTModel are others. Attention and logits have biases, and the decoder starts from zeros. Marian has
no padding: here PAD has a row of zeros, and a bias with which it takes no share of a probability.

Heads are blocks of columns and matrices are [inputs, outputs], there and here.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from t2t_lite.errors import DataError, UsageError
from t2t_lite.export.marian_layout import BIAS, KEY, LOGITS, LOGITS_OF_OLD, SOFTMAX, SOURCE, TARGET, places
from t2t_lite.importers import kept_files
from t2t_lite.importers.imported import Description, Imported
from t2t_lite.importers.marian_files import Arrays, parse_yaml, read_yaml
from t2t_lite.importers.marian_folder import Files, load_vocabularies, trained_to_align
from t2t_lite.importers.marian_settings import Settings
from t2t_lite.importers.opennmt import fold_biases
from t2t_lite.importers.t2t_variables import Variables, join_names
from t2t_lite.text.any_vocabulary import AnyVocabulary

_PAIR = re.compile(r"(?:\[[^\]]*\]|[^,\[])+")  # a list, such as dim-vocabs=[100,100], is one value
_NEVER = -1e4  # the bias of PAD: its probability is 0; a lower one would swell losses with label smoothing


def read(files: Files, hparams: str | None = None) -> tuple[Imported, tuple[AnyVocabulary, AnyVocabulary]]:
    """Reads a model that Marian trained, and the vocabularies of source and target.

    Args:
        hparams: "name=value,..." in Marian's names, for a file that does not hold its settings.

    Raises:
        UsageError, DataError: something is missing, damaged, or cannot be expressed here.
    """
    arrays = Arrays(files.model)
    settings = _settings(arrays, files, hparams)
    of_model = places(
        (settings.count("enc-depth"), settings.count("dec-depth")),
        norm=settings.norm,
        one_table=settings.one_table,
        tied=settings.tied,
        output_bias=not settings.flag("output-omit-bias"),
        logits=LOGITS_OF_OLD if LOGITS_OF_OLD in arrays else LOGITS,
    )
    names = set(arrays) - {KEY}
    if lacking := sorted(set(of_model) - names):
        raise DataError(f"{files.model} is not complete: its settings need {join_names(lacking)}.")
    if unknown := sorted(names - set(of_model)):
        raise DataError(f"{files.model} holds {join_names(unknown)}, which a model of its settings does not use.")
    weights = {}
    for name, path in of_model.items():
        array, size = arrays[name], _size(name, path, settings)
        if array.dtype != np.float32 or not np.isfinite(array).all():
            raise DataError(f"{files.model}: {name} holds {array.dtype} or numbers that are not finite.")
        if array.shape != size:
            raise DataError(f"{files.model} is of other settings than it says: {name} has {array.shape}, not {size}.")
        weights[path] = array[0] if len(array) == 1 and not path.endswith("/table") else array
    _set_tables(weights, settings, LOGITS_OF_OLD in arrays)
    biases = kept_files.biases_before(weights)
    fold_biases(weights)
    description = _describe(weights, settings)
    folder = files.model.parent
    licence, kept = kept_files.find_licence(folder)
    source, target = load_vocabularies(files, settings.vocab_sizes)
    if source is target and not description.shared:
        target = copy.copy(source)  # a run with one vocabulary shares all tables
    imported = Imported(
        "Marian",
        weights,
        description,
        None,
        Variables({name: name for name in of_model}, (), ()),
        settings.values,
        (str(files.model),),
        files.search,
        kept={**kept, **kept_files.read_files(folder, ("preprocess.sh",)), **kept_files.biases_file(biases)},
        licence=licence,
        ignored=files.ignored,
    )
    return imported, (source, target)


def _settings(arrays: Arrays, files: Files, hparams: str | None) -> Settings:
    pairs = [pair.partition("=") for pair in _PAIR.findall(hparams or "")]
    given = {name: re.findall(r"[^,\s]+", value[1:-1]) if value.startswith("[") else value for name, _, value in pairs}
    beside = files.model.with_name(f"{files.model.name}.yml")
    if KEY in arrays:
        found = parse_yaml(arrays[KEY].tobytes().rstrip(b"\0"), f"{KEY} of {files.model}")
    elif beside.is_file():
        names = ("type", "dim-", "enc-", "dec-", "transformer-", "tied-", "version")
        found = {name: value for name, value in read_yaml(beside).items() if name.startswith(names)}
    else:
        found = {}
    if (guided := trained_to_align(files.model)) is not None:
        found["guided-alignment"] = str(guided).lower()
    found |= given
    if lacking := [name for name in ("transformer-heads", "transformer-ffn-activation") if name not in found]:
        raise UsageError(
            f"{files.model} does not say its settings, nor does {beside.name} beside it: {lacking[0]} is missing. Give "
            "--hparams=type=transformer,transformer-heads=N,... as it was trained with."
        )
    return Settings(found)


def _size(name: str, path: str, settings: Settings) -> tuple[int, int]:
    """The shape of an array in the file."""
    d_model, d_ff = settings.count("dim-emb"), settings.count("transformer-dim-ffn")
    if path in (SOURCE, TARGET, SOFTMAX, BIAS):
        rows = settings.vocab_sizes[path != SOURCE]
        return (1, rows) if path == BIAS else (d_model, rows) if name == LOGITS_OF_OLD else (rows, d_model)
    last = path.rpartition("/")[2]
    if last in ("query", "key", "value", "output"):
        return d_model, d_model
    return {"kernel_1": (d_model, d_ff), "bias_1": (1, d_ff), "kernel_2": (d_ff, d_model)}.get(last, (1, d_model))


def _set_tables(weights: dict[str, Any], settings: Settings, transposed: bool) -> None:
    """Adds PAD to the tables and to the bias of logits, and the source's table if only it and the target share one."""
    if transposed:
        weights[SOFTMAX] = weights[SOFTMAX].T
    if settings.one_table and not settings.tied:
        weights[SOURCE] = weights[TARGET]
    rows = len(weights[TARGET])
    weights.setdefault(BIAS, np.zeros(rows, np.float32))
    weights[BIAS] = np.insert(weights[BIAS], 0, _NEVER)
    for path in {SOURCE, TARGET, SOFTMAX} & set(weights):
        weights[path] = np.concatenate([np.zeros_like(weights[path][:1]), weights[path]])


def _describe(weights: Mapping[str, Any], settings: Settings) -> Description:
    d_model, heads = settings.count("dim-emb"), settings.count("transformer-heads")
    if d_model % heads or d_model % 2:
        raise DataError(f"The settings of Marian contradict themselves: {heads} heads, dim-emb={d_model}.")
    shared = settings.one_table and settings.tied
    return Description(
        num_layers=settings.count("enc-depth"),
        num_decoder_layers=settings.count("dec-depth"),
        d_model=d_model,
        d_ff=settings.count("transformer-dim-ffn"),
        num_heads=heads,
        d_k=d_model // heads,
        d_v=d_model // heads,
        norm=settings.norm,
        positions="tensor2tensor",
        max_positions=0,
        max_relative_position=0,
        attention_biases=True,
        source_vector=False,
        source_vocab_size=settings.vocab_sizes[0] + 1,
        target_vocab_size=settings.vocab_sizes[1] + 1,
        shared=shared,
        share_embeddings=settings.tied,
        activation=settings.values["transformer-ffn-activation"],
        alignment_layer=settings.alignment_layer,
        output_bias=True,
    )
