"""A Transformer as a CTranslate2 model: its weights in the layout of that engine's public `ctranslate2.specs`.

The engine computes what our model computes. Positions are written as a table, as the engine's own sinusoids are ordered
and spaced in another way. The table includes the vector that belongs to all positions of the source. The decoder starts
from the zero vector, and layer normalisation has the model's epsilon.

Legend: D = d_model, H heads, K = d_k or d_v.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from t2t_lite import config
from t2t_lite.data.vocabulary_files import by_file
from t2t_lite.decoding.translate import Translator
from t2t_lite.errors import UsageError
from t2t_lite.export.ctranslate2_readme import readme
from t2t_lite.export.export import new_version, write_card
from t2t_lite.export.hub_readme import write_readme
from t2t_lite.ids import EOS, PAD
from t2t_lite.models.decoder import DecoderLayer
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.recipe_text import value_text
from t2t_lite.text.any_vocabulary import AnyVocabulary

README_FILE = "README.txt"
_MAX_INPUT = 1024  # pieces; CTranslate2's own limit unless its caller says otherwise
# Settings of the model with any value.
_EXPRESSED = {
    *("num_layers", "num_decoder_layers", "d_model", "d_ff", "num_heads", "d_k", "d_v", "norm", "norm_epsilon"),
    *("positions", "max_positions", "max_relative_position", "source_vector", "source_end", "start_vector"),
    *("output_bias", "attention_biases", "share_embeddings", "share_between_vocabularies", "activation"),
    "alignment_layer",
}
_NOT_EXPRESSED = {"positions": "rotary", "norm": "deep"}  # values of these that it has not
# Settings that change no output.
_OF_TRAINING = {"initial_weights", "dropout", "attention_dropout", "relu_dropout", "remat", "guided_alignment"}
_NEVER = -1e4  # with this bias a piece is never chosen; fits float16, in which a GPU may run


def export_ctranslate2(
    translator: Translator,
    base: str | os.PathLike[str],
    card: Mapping[str, Any],
    *,
    precision: str,
    licence: bytes | None = None,
) -> Path:
    """Writes a CTranslate2 model as a version of `base`, as `new_version` does, and returns its path.

    Args:
        translator: a float32 model, its vocabularies, and how it decodes, for README.txt.
        card: becomes README.md and model_card.json; "ctranslate2" is added.
        precision: "float32", or "int8" for the matrices, with a scale for each row.
        licence: the text that an imported model came with.

    Raises:
        UsageError: CTranslate2 cannot run this model.
        DataError: as `new_version`.
    """
    import ctranslate2

    _check(translator.model)
    decode = translator.decode
    if decode.repetition_penalty > 1 and decode.beam_size > 1:
        raise UsageError(
            f"A beam search of CTranslate2 penalises logits, and this one, with repetition_penalty="
            f"{decode.repetition_penalty:g} and beam_size={decode.beam_size}, log-probabilities. Export with "
            "--repetition_penalty=1, with --beam_size=1, where both penalise logits, or as a SavedModel."
        )
    spec = _spec(translator)
    spec.validate()
    spec.optimize(quantization=precision)
    vocabularies = by_file(translator.source_vocabulary, translator.target_vocabulary)

    def write(folder: Path) -> None:
        spec.save(str(folder))
        for name, vocabulary in vocabularies.items():
            vocabulary.save(folder / name)
        for name, text in translator.outputs.files().items():
            (folder / name).write_text(text, encoding="utf-8")
        (folder / README_FILE).write_text(readme(translator, list(vocabularies)), encoding="utf-8")
        write_card(folder, {**card, "ctranslate2": {"version": ctranslate2.__version__, "precision": precision}})
        write_readme(folder, card, "ctranslate2", licence)

    return new_version(base, write)


def _check(model: Any) -> None:
    if type(model) is not Transformer:  # a subclass may compute something else
        reason = f"runs the model 'transformer', not {type(model).__name__}"
    elif others := _list_unknown(model.hparams):
        reason = f"cannot compute {', '.join(others)}"
    elif model.hparams.max_relative_position and model.hparams.positions != "none":
        reason = f"leaves out positions={model.hparams.positions} where a model has relative positions"
    else:
        return
    raise UsageError(f"CTranslate2 {reason}; export it with --format=saved_model.")


def _list_unknown(hparams: TransformerHParams) -> list[str]:
    """The settings of the model that this file does not know, and that are not at their default."""
    found = {field: getattr(hparams, field.name) for field in config.model_fields(type(hparams))}
    return [
        f"{field.name}={value_text(value)}"
        for field, value in found.items()
        if (value != field.default and field.name not in _EXPRESSED | _OF_TRAINING)
        or value == _NOT_EXPRESSED.get(field.name)
    ]


def _spec(translator: Translator) -> Any:
    from ctranslate2.specs import TransformerDecoderSpec, TransformerEncoderSpec, TransformerSpec
    from ctranslate2.specs.common_spec import Activation

    model = translator.model
    hparams: TransformerHParams = model.hparams
    d_model, relative = hparams.d_model, bool(hparams.max_relative_position)
    shape = {
        "pre_norm": hparams.norm == "pre",
        "head_dim": max(hparams.head_sizes),
        "relative_position": relative,
        "activation": Activation[hparams.activation.upper()],
    }
    spec = TransformerSpec(
        TransformerEncoderSpec(hparams.num_layers, hparams.num_heads, **shape),
        TransformerDecoderSpec(
            hparams.decoder_layers, hparams.num_heads, **shape, alignment_layer=hparams.aligning_layer - 1
        ),
    )
    spec.encoder.embeddings[0].weight = _array(model.source_embedding.table)
    if relative:  # then it adds nothing to embeddings; it multiplies them by sqrt(D), as we do
        everywhere = _array(model.position_encoding("source", np.zeros((), np.int32)))
        spec.encoder.embeddings[0].weight += everywhere / math.sqrt(d_model)
    spec.decoder.embeddings.weight = _array(model.target_embedding.table)
    spec.decoder.start_from_zero_embedding = True
    if relative and model.start_vector is not None:  # no positions to add it to
        spec.decoder.start_from_zero_embedding = False
        spec.decoder.embeddings.weight[PAD] = _array(model.start_vector) / math.sqrt(d_model)
    spec.decoder.projection.weight = _array(model.softmax.table)
    no_bias = np.zeros(len(spec.decoder.projection.weight), np.float32)
    spec.decoder.projection.bias = no_bias if model.output_bias is None else _array(model.output_bias)
    spec.decoder.projection.bias[PAD] = _NEVER  # as in our search
    positions = np.arange(max(_MAX_INPUT, translator.longest_output(translator.decode.max_source_length)))
    for name, stack, side in (("source", spec.encoder, model.encoder), ("target", spec.decoder, model.decoder)):
        if not relative:
            table = _array(model.position_encoding(name, positions))
            stack.position_encodings.encodings = np.broadcast_to(table, (len(positions), d_model)).copy()
        for layer, block in zip(stack.layer, side.blocks, strict=True):
            _set_layer(layer, block)
        if side.final_norm:
            _set_norm(stack.layer_norm, side.final_norm)
    source, target = (_pieces(side) for side in (translator.source_vocabulary, translator.target_vocabulary))
    source[EOS] = target[EOS] = _end(source, target)
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    # A vocabulary without an unknown piece can write every text, but the engine needs a name for one.
    spec.config.unk_token = target[translator.target_vocabulary.unknown or PAD]
    spec.config.eos_token = target[EOS]
    spec.config.bos_token = spec.config.decoder_start_token = target[PAD]
    spec.config.add_source_eos = hparams.source_end
    spec.config.layer_norm_epsilon = hparams.norm_epsilon
    return spec


def _pieces(vocabulary: AnyVocabulary) -> list[str]:
    """Names of pieces by id. The engine needs a distinct name for each, which tensor2tensor's pieces may lack."""
    pieces = vocabulary.pieces(range(vocabulary.size))
    names: dict[str, None] = {}
    for i, piece in enumerate(pieces):
        taken = not piece or piece in names
        names[_spare(i, pieces) if taken else piece] = None
    return [*names]


def _end(source: list[str], target: list[str]) -> str:
    """A name of EOS for both sides: the engine looks the target's name up in the source vocabulary, too."""
    others = {*source[:EOS], *source[EOS + 1 :], *target[:EOS], *target[EOS + 1 :]}
    return _spare(EOS, others) if target[EOS] in others else target[EOS]


def _spare(i: int, taken: Collection[str]) -> str:
    """A name for the piece `i` that is not `taken`."""
    return next(name for n in itertools.count() if (name := f"<{i}.{n}>") not in taken)


def _set_layer(spec: Any, block: Any) -> None:
    """Copies a layer of the encoder or decoder."""
    in_decoder = isinstance(block, DecoderLayer)
    _set_attention(
        spec.self_attention,
        block.self_attention,
        block.self_attention_residual,
        [("query", "key", "value")],
    )
    if in_decoder:
        _set_attention(
            spec.attention, block.cross_attention, block.cross_attention_residual, [("query",), ("key", "value")]
        )
    network = block.feed_forward
    for linear, kernel, bias in (
        (spec.ffn.linear_0, network.kernel_1, network.bias_1),
        (spec.ffn.linear_1, network.kernel_2, network.bias_2),
    ):
        linear.weight, linear.bias = _array(kernel).T, _array(bias)
    _set_norm(spec.ffn.layer_norm, block.feed_forward_residual.layer_norm)


def _set_attention(spec: Any, attention: Any, around: Any, projections: list[tuple[str, ...]]) -> None:
    """Copies an attention; `projections`: groups of matrices that the engine joins into one."""
    _set_norm(spec.layer_norm, around.layer_norm)
    spec.queries_scale = 1 / math.sqrt(attention.d_k)  # else the engine takes the filled size
    for linear, names in zip(spec.linear[:-1], projections, strict=True):
        linear.weight = np.concatenate([_fill(_array(getattr(attention, name)).T, attention) for name in names])
    spec.linear[-1].weight = _fill(_array(attention.output_kernel), attention).T
    if attention.query_bias is not None:
        query_bias = _fill(_array(attention.query_bias)[:, None], attention)[:, 0]
        for linear, bias in ((spec.linear[0], query_bias), (spec.linear[-1], _array(attention.output_bias))):
            linear.bias = np.pad(bias, (0, len(linear.weight) - len(bias)))
    if attention.relative_keys is not None:
        spec.relative_position_keys, spec.relative_position_values = (
            np.pad(table, ((0, 0), (0, max(attention.d_k, attention.d_v) - table.shape[1])))
            for table in (_array(attention.relative_keys), _array(attention.relative_values))
        )


def _fill(rows_HK: np.ndarray, attention: Any) -> np.ndarray:
    """[H * K, D] -> [H * max(d_k, d_v), D]: the engine has one size for all heads, and zeros change no result."""
    heads_HKD = rows_HK.reshape(attention.num_heads, -1, rows_HK.shape[-1])
    missing = max(attention.d_k, attention.d_v) - heads_HKD.shape[1]
    return np.pad(heads_HKD, ((0, 0), (0, missing), (0, 0))).reshape(-1, rows_HK.shape[-1])


def _set_norm(spec: Any, layer_norm: Any) -> None:
    spec.gamma, spec.beta = _array(layer_norm.gamma), _array(layer_norm.beta)


def _array(weight: Any) -> np.ndarray:
    """A copy: `optimize` writes into what it is given."""
    return np.asarray(weight, np.float32).copy()
