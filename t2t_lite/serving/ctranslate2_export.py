"""A Transformer as a CTranslate2 model: its weights in the layout of that engine's public `ctranslate2.specs`.

The engine computes what our model computes: positions are written as a table (its own sinusoids are laid out and spaced
in another way), the decoder starts from the zero vector, and layer normalisation has our epsilon.

Legend: D = d_model, H heads, K = d_k or d_v.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from t2t_lite.decode.translate import Translator
from t2t_lite.errors import UsageError
from t2t_lite.layers.positions import sinusoids
from t2t_lite.models.decoder import DecoderLayer
from t2t_lite.models.transformer import Transformer
from t2t_lite.serving.export import new_version, write_card
from t2t_lite.text.tag_table import TAGS_FILE
from t2t_lite.text.vocabulary import EOS, PAD, UNK, Vocabulary, by_file

README_FILE = "README.txt"
_MAX_INPUT = 1024  # pieces; CTranslate2's own limit unless its caller says otherwise
_NEVER = -1e4  # a bias under which a piece is never chosen; within float16, in which a GPU may run
_USUAL_LENGTH = 20  # pieces of an output; where the length penalties of README.txt agree


def export(translator: Translator, base: str | os.PathLike[str], card: Mapping[str, Any], *, precision: str) -> Path:
    """Writes a CTranslate2 model as a version of `base`, as `new_version` does, and returns its path.

    Args:
        translator: a float32 model, its vocabularies, and how it decodes, for README.txt.
        card: becomes model_card.json; "ctranslate2" is added.
        precision: "float32", or "int8" for the matrices, with a scale for each row.

    Raises:
        UsageError: CTranslate2 cannot run this model.
        DataError: as `new_version`.
    """
    import ctranslate2

    _check(translator.model)
    spec = _spec(translator)
    spec.validate()
    spec.optimize(quantization=precision)
    text = translator.tree_text
    vocabularies = by_file(translator.source_vocabulary, translator.target_vocabulary)

    def write(folder: Path) -> None:
        spec.save(str(folder))
        for name, vocabulary in vocabularies.items():
            vocabulary.save(folder / name)
        if text is not None and text.table.learned:
            (folder / TAGS_FILE).write_text(text.table.to_json(), encoding="utf-8")
        (folder / README_FILE).write_text(_readme(translator, list(vocabularies)), encoding="utf-8")
        write_card(folder, {**card, "ctranslate2": {"version": ctranslate2.__version__, "precision": precision}})

    return new_version(base, write)


def length_penalty(alpha: float, length: float) -> float:
    """The exponent A for which length^A weighs lengths near `length` as ((5 + length) / 6)^alpha does.

    There the derivatives of A log(length) and alpha log(5 + length) are equal. Both lengths count the end symbol.
    """
    return alpha * length / (length + 5)


def _check(model: Any) -> None:
    name, window = type(model).__name__, getattr(model, "window", 0)
    if type(model) is not Transformer:  # what inherits from it may compute something else
        reason = f"runs the model 'transformer', not {name}"
    elif window:
        reason = f"has no restricted self-attention, with which this model was trained (attention_window={window})"
    else:
        return
    raise UsageError(f"CTranslate2 {reason}; export it with --format=saved_model.")


def _spec(translator: Translator) -> Any:
    from ctranslate2.specs import TransformerDecoderSpec, TransformerEncoderSpec, TransformerSpec

    model, sizes = translator.model, translator.model.cost
    shape = {"pre_norm": bool(model.encoder.final_norm), "head_dim": max(sizes.d_k, sizes.d_v)}
    spec = TransformerSpec(
        TransformerEncoderSpec(sizes.num_layers, sizes.num_heads, **shape),
        TransformerDecoderSpec(sizes.num_layers, sizes.num_heads, **shape),
    )
    spec.encoder.embeddings[0].weight = _array(model.source_embedding.table)
    spec.decoder.embeddings.weight = _array(model.target_embedding.table)
    spec.decoder.start_from_zero_embedding = True
    spec.decoder.projection.weight = _array(model.softmax.table)
    spec.decoder.projection.bias = np.zeros(sizes.target_vocab_size, np.float32)
    spec.decoder.projection.bias[PAD] = _NEVER  # as in our search
    positions = np.arange(max(_MAX_INPUT, translator.max_source_length + translator.extra_length))
    for stack, side, learned in (
        (spec.encoder, model.encoder, model.source_positions),
        (spec.decoder, model.decoder, model.target_positions),
    ):
        table = learned(positions) if learned else sinusoids(positions, sizes.d_model)
        stack.position_encodings.encodings = _array(table)
        for layer, block in zip(stack.layer, side.blocks, strict=True):
            _set_layer(layer, block)
        if side.final_norm:
            _set_norm(stack.layer_norm, side.final_norm)
    spec.register_source_vocabulary(_pieces(translator.source_vocabulary))
    spec.register_target_vocabulary(target := _pieces(translator.target_vocabulary))
    spec.config.unk_token, spec.config.eos_token = target[UNK], target[EOS]
    spec.config.bos_token = spec.config.decoder_start_token = target[PAD]
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = model.encoder.blocks[0].around_feed_forward.layer_norm.epsilon
    return spec


def _pieces(vocabulary: Vocabulary) -> list[str]:
    return vocabulary.pieces(range(vocabulary.size))


def _set_layer(spec: Any, block: Any) -> None:
    """Copies a layer of the encoder or decoder."""
    in_decoder = isinstance(block, DecoderLayer)
    _set_attention(
        spec.self_attention,
        block.self_attention,
        block.around_self if in_decoder else block.around_attention,
        [("query", "key", "value")],
    )
    if in_decoder:
        _set_attention(spec.attention, block.memory_attention, block.around_memory, [("query",), ("key", "value")])
    network = block.feed_forward
    for linear, kernel, bias in (
        (spec.ffn.linear_0, network.kernel_1, network.bias_1),
        (spec.ffn.linear_1, network.kernel_2, network.bias_2),
    ):
        linear.weight, linear.bias = _array(kernel).T, _array(bias)
    _set_norm(spec.ffn.layer_norm, block.around_feed_forward.layer_norm)


def _set_attention(spec: Any, attention: Any, around: Any, projections: list[tuple[str, ...]]) -> None:
    """Copies an attention; `projections`: the matrices that the engine multiplies with at once, as one."""
    _set_norm(spec.layer_norm, around.layer_norm)
    spec.queries_scale = 1 / math.sqrt(attention.d_k)  # else of the filled size
    for linear, names in zip(spec.linear[:-1], projections, strict=True):
        linear.weight = np.concatenate([_filled(_array(getattr(attention, name)).T, attention) for name in names])
    spec.linear[-1].weight = _filled(_array(attention.output_kernel), attention).T


def _filled(rows_HK: np.ndarray, attention: Any) -> np.ndarray:
    """[H * K, D] -> [H * max(d_k, d_v), D]: the engine knows one size of a head, and zeros change no result."""
    heads_HKD = rows_HK.reshape(attention.num_heads, -1, rows_HK.shape[-1])
    missing = max(attention.d_k, attention.d_v) - heads_HKD.shape[1]
    return np.pad(heads_HKD, ((0, 0), (0, missing), (0, 0))).reshape(-1, rows_HK.shape[-1])


def _set_norm(spec: Any, layer_norm: Any) -> None:
    spec.gamma, spec.beta = _array(layer_norm.gamma), _array(layer_norm.beta)


def _array(weight: Any) -> np.ndarray:
    """A copy: `optimize` writes into what it is given."""
    return np.asarray(weight, np.float32).copy()


_README = """\
A Transformer for CTranslate2, written by t2t-lite. It needs neither t2t-lite nor TensorFlow:

    pip install ctranslate2 sentencepiece

What it is and how well it does: model_card.json. Run in this folder:

    import sys
    import ctranslate2
    from sentencepiece import SentencePieceProcessor

    source = SentencePieceProcessor(model_file="{source}")
    target = SentencePieceProcessor(model_file="{target}")
    translator = ctranslate2.Translator(".", device="cpu", intra_threads=2)
    lines = [line.strip() for line in sys.stdin]
    results = translator.translate_batch(
        source.encode(lines, out_type=str),
        beam_size={beam_size},
        length_penalty={penalty:.2f},
        max_input_length={max_input},
        max_decoding_length={max_output},
        min_decoding_length=0,
        max_batch_size=2048,
        batch_type="tokens",
    )
    for result in results:
        print(target.decode(result.hypotheses[0]))

CTranslate2 divides a log-probability by length^A, t2t-lite by ((5 + length) / 6)^alpha, and this model was made for
alpha = {alpha}. A = alpha * L / (L + 5) weighs lengths near L alike; {penalty:.2f} is for L = {length} pieces, the end
symbol counted. CTranslate2 also ends a search with the first {beam_size} finished
outputs (patience=2 looks at more), and takes an end only from the {beam_size} best symbols of a step, t2t-lite from
twice as many. So with length_penalty=0 both find nearly always the same outputs.
"""
_README_OF_TREES = """
This model is a parser. Its sentences are words parted by single spaces, with -LRB- and -RRB- for ( and ). The program
prints the symbols of a tree, such as (S (NP XX )NP (VP XX )VP )S, not the tree, and what a model writes need not be
one: `TreeText` of t2t_lite.text.tree_text makes a tree of any symbols and a sentence; it takes the table that
`load_table` of t2t_lite.text.tag_table reads from this folder. t2t-lite's own export, --format=saved_model,
gives trees.
"""


def _readme(translator: Translator, vocabularies: list[str]) -> str:
    alpha = translator.length_penalty
    readme = _README if translator.tree_text is None else _README + _README_OF_TREES
    return readme.format(
        source=vocabularies[0],
        target=vocabularies[-1],
        beam_size=translator.beam_size,
        penalty=length_penalty(alpha, _USUAL_LENGTH),
        max_input=translator.max_source_length,
        max_output=translator.max_source_length + translator.extra_length,
        alpha=alpha,
        length=_USUAL_LENGTH,
    )
