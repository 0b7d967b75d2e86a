"""Sizes and kinds of a tensor2tensor model, from the shapes in its checkpoint, compared with the hparams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from t2t_lite.errors import DataError
from t2t_lite.importers import t2t_hparams
from t2t_lite.importers.imported import Description, count_layers, shape_of
from t2t_lite.importers.t2t_variables import Embeddings, join_names

Shapes = Mapping[str, tuple[int, ...]]

_ATTENTION = "body/{}/layer_0/self_attention/multihead_attention/"
_RELATIVE = _ATTENTION + "dot_product_attention_relative/relative_positions_keys/embeddings"


def describe(shapes: Shapes, tables: Embeddings, hparams: Mapping[str, Any]) -> Description:
    """Derives the description; hparams give the number of heads and the kind of positions if shapes do not.

    Args:
        shapes: of the weights, by their names without the scope.
        hparams: tensor2tensor's, as far as they are known.

    Raises:
        DataError: hparams and shapes contradict each other, or the number of heads is not known.
    """
    t2t_hparams.check(hparams)
    keys, values = _widths(shapes)
    relative = shapes.get(_RELATIVE.format("encoder"))
    heads = _heads(shapes, hparams, keys, relative)
    if keys % heads or values % heads:
        raise DataError(
            f"num_heads={heads} does not divide the {keys} columns of keys and the {values} of values of the model of "
            "tensor2tensor."
        )
    learned = shapes.get("body/inputs_positional_embedding")
    if learned:
        positions = "learned"
    elif relative and "pos" not in hparams:
        raise DataError(
            "This model of tensor2tensor has relative positions, and nothing beside the checkpoint says whether "
            "sinusoids are added, too. Give --hparams=pos=None, as of transformer_relative, or --hparams=pos=timing."
        )
    else:
        positions = "none" if hparams.get("pos", "timing") in (None, "none") else "tensor2tensor"
    found = Description(
        num_layers=count_layers(shapes, "body/encoder"),
        num_decoder_layers=count_layers(shapes, "body/decoder"),
        d_model=tables.d_model,
        d_ff=shape_of(shapes, "body/encoder/layer_0/ffn/conv1/kernel")[-1],
        num_heads=heads,
        d_k=keys // heads,
        d_v=values // heads,
        norm="pre" if "body/encoder/layer_prepostprocess/layer_norm/layer_norm_scale" in shapes else "post",
        positions=positions,
        max_positions=learned[0] + 1 if learned else 0,  # and a row of zeros
        max_relative_position=relative[0] // 2 if relative else 0,
        attention_biases=_ATTENTION.format("encoder") + "q/bias" in shapes,
        source_vector="body/target_space_embedding/kernel" in shapes,
        source_vocab_size=tables.source_vocab_size,
        target_vocab_size=tables.target_vocab_size,
        shared=tables.shared,
        share_embeddings=tables.tied,
        norm_epsilon=hparams.get("norm_epsilon", 1e-6),
    )
    _compare(found, hparams)
    return found


def _widths(shapes: Shapes) -> tuple[int, int]:
    """Columns of keys and values, over all heads."""
    attention = _ATTENTION.format("encoder")
    found = []
    for name in ("k", "v"):
        shape = shapes.get(f"{attention}{name}/kernel") or shape_of(shapes, attention + name)
        found.append(shape[1] if len(shape) == 2 else shape[1] * shape[2])
    return found[0], found[1]


def _heads(shapes: Shapes, hparams: Mapping[str, Any], keys: int, relative: tuple[int, ...] | None) -> int:
    """The number of heads: from a shape that has an axis of heads, or of one head; else from the hparams."""
    three = shapes.get(_ATTENTION.format("encoder") + "k")
    heads = three[1] if three else keys // relative[1] if relative else hparams.get("num_heads")
    if heads is None:
        raise DataError(
            "The checkpoint of tensor2tensor does not say how many heads its attention has, and no hparams.json or "
            "flags.txt beside it does. Give --hparams_set=NAME, the set that it was trained with, or "
            "--hparams=num_heads=N."
        )
    if not isinstance(heads, int) or heads < 1:
        raise DataError(f"num_heads={heads!r} is no number of heads that a model of tensor2tensor could have.")
    return heads


def _compare(found: Description, hparams: Mapping[str, Any]) -> None:
    """Raises DataError if the hparams are those of another model."""
    layers = hparams.get("num_hidden_layers")
    wanted = {
        "hidden_size": (hparams.get("hidden_size"), found.d_model),
        "filter_size": (hparams.get("filter_size"), found.d_ff),
        "num_encoder_layers": (hparams.get("num_encoder_layers") or layers, found.num_layers),
        "num_decoder_layers": (hparams.get("num_decoder_layers") or layers, found.num_decoder_layers),
        "num_heads": (hparams.get("num_heads"), found.num_heads),
        "attention_key_channels": (hparams.get("attention_key_channels") or None, found.num_heads * found.d_k),
        "attention_value_channels": (hparams.get("attention_value_channels") or None, found.num_heads * found.d_v),
        "the place of layer normalisation": (t2t_hparams.norm(hparams), found.norm),
        "self_attention_type": (
            hparams.get("self_attention_type"),
            "dot_product_relative" if found.max_relative_position else "dot_product",
        ),
        "pos=emb": (hparams["pos"] == "emb" if "pos" in hparams else None, found.positions == "learned"),
    }
    wrong = [f"{name} {said} and {there}" for name, (said, there) in wanted.items() if said not in (None, there)]
    if wrong:
        raise DataError(
            f"The hparams are of another model than the checkpoint: they say, and it has, {join_names(wrong)}."
        )
