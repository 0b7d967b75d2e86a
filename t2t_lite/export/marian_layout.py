"""Arrays of a Marian model by name, and the weights of a `Transformer` that they are; for import and export.

Heads are blocks of columns and matrices are [inputs, outputs], there and here. A vector has a first axis of size 1.
"""

from __future__ import annotations

KEY = "special:model.yml"  # the array that holds the settings
LOGITS, LOGITS_OF_OLD = "decoder_ff_logit_out_Wt", "decoder_ff_logit_out_W"
SOURCE, TARGET, SOFTMAX = (f"transformer/{name}/table" for name in ("source_embedding", "target_embedding", "softmax"))
BIAS = "transformer/output_bias"

# (stack, sub-layer there) -> (the residual connection here, the layer in it).
_SUBLAYERS = {
    ("encoder", "self"): ("around_attention", "self_attention"),
    ("encoder", "ffn"): ("around_feed_forward", "feed_forward"),
    ("decoder", "self"): ("around_self", "self_attention"),
    ("decoder", "context"): ("around_memory", "memory_attention"),
    ("decoder", "ffn"): ("around_feed_forward", "feed_forward"),
}
_IN_ATTENTION = {
    f"{kind}{letter}": f"{name}{end}"
    for letter, name in zip("qkvo", ("query", "key", "value", "output"), strict=True)
    for kind, end in (("W", ""), ("b", "_bias"))
}
_IN_FEED_FORWARD = {f"{kind}{i}": f"{name}_{i}" for i in "12" for kind, name in (("W", "kernel"), ("b", "bias"))}
_NORM = {"scale": "gamma", "bias": "beta"}


def places(
    layers: tuple[int, int], *, norm: str, one_table: bool, tied: bool, output_bias: bool, logits: str = LOGITS
) -> dict[str, str]:
    """Returns the path here of each array of a model, by its name there.

    Args:
        layers: of encoder and decoder.
        norm: "post" or "pre".
        one_table: source and target have one.
        tied: the softmax has the target's.
        logits: the name of the softmax's own table.
    """
    ending = "_pre" if norm == "pre" else ""
    depths = dict(zip(("encoder", "decoder"), layers, strict=True))
    found: dict[str, str] = {}
    for (stack, part), (around, inside) in _SUBLAYERS.items():
        within, of_norm = (_IN_FEED_FORWARD, "ffn_ln") if part == "ffn" else (_IN_ATTENTION, "Wo_ln")
        for layer in range(depths[stack]):
            there, here = f"{stack}_l{layer + 1}_{part}_", f"transformer/{stack}/layer_{layer}/{around}/"
            found |= {f"{there}{name}": f"{here}{inside}/{path}" for name, path in within.items()}
            found |= {f"{there}{of_norm}_{name}{ending}": f"{here}layer_norm/{path}" for name, path in _NORM.items()}
    if norm == "pre":
        for stack in depths:
            found |= {
                f"{stack}_top_ln_{name}": f"transformer/{stack}/final_norm/{path}" for name, path in _NORM.items()
            }
    if one_table:
        found["Wemb"] = TARGET
    else:
        found |= {"encoder_Wemb": SOURCE, "decoder_Wemb": TARGET}
    if not tied:
        found[logits] = SOFTMAX
    if output_bias:
        found["decoder_ff_logit_out_b"] = BIAS
    return found
