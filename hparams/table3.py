"""The rows of Table 3: base with one thing changed. What a row leaves open is base's.

Scores of the rows are in the paper: perplexity and BLEU on newstest2013, 100,000 steps, without averaging.
"""

from t2t_lite import config
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.registry import register_hparams

from .transformer import base


@register_hparams
def base_h1() -> TransformerHParams:
    """Table 3 row (A): 1 head, d_k = d_v = 512."""
    return config.replace(base(), num_heads=1)


@register_hparams
def base_h4() -> TransformerHParams:
    """Table 3 row (A): 4 heads, d_k = d_v = 128."""
    return config.replace(base(), num_heads=4)


@register_hparams
def base_h16() -> TransformerHParams:
    """Table 3 row (A): 16 heads, d_k = d_v = 32."""
    return config.replace(base(), num_heads=16)


@register_hparams
def base_h32() -> TransformerHParams:
    """Table 3 row (A): 32 heads, d_k = d_v = 16."""
    return config.replace(base(), num_heads=32)


@register_hparams
def base_dk16() -> TransformerHParams:
    """Table 3 row (B): d_k = 16; d_v stays 64."""
    return config.replace(base(), d_k=16, d_v=64)


@register_hparams
def base_dk32() -> TransformerHParams:
    """Table 3 row (B): d_k = 32; d_v stays 64."""
    return config.replace(base(), d_k=32, d_v=64)


@register_hparams
def base_n2() -> TransformerHParams:
    """Table 3 row (C): 2 layers."""
    return config.replace(base(), num_layers=2)


@register_hparams
def base_n4() -> TransformerHParams:
    """Table 3 row (C): 4 layers."""
    return config.replace(base(), num_layers=4)


@register_hparams
def base_n8() -> TransformerHParams:
    """Table 3 row (C): 8 layers."""
    return config.replace(base(), num_layers=8)


@register_hparams
def base_d256() -> TransformerHParams:
    """Table 3 row (C): d_model = 256, d_k = d_v = 32."""
    return config.replace(base(), d_model=256)


@register_hparams
def base_d1024() -> TransformerHParams:
    """Table 3 row (C): d_model = 1024, d_k = d_v = 128."""
    return config.replace(base(), d_model=1024)


@register_hparams
def base_ff1024() -> TransformerHParams:
    """Table 3 row (C): d_ff = 1024."""
    return config.replace(base(), d_ff=1024)


@register_hparams
def base_ff4096() -> TransformerHParams:
    """Table 3 row (C): d_ff = 4096."""
    return config.replace(base(), d_ff=4096)


@register_hparams
def base_drop0() -> TransformerHParams:
    """Table 3 row (D): P_drop = 0."""
    return config.replace(base(), dropout=0.0)


@register_hparams
def base_drop2() -> TransformerHParams:
    """Table 3 row (D): P_drop = 0.2."""
    return config.replace(base(), dropout=0.2)


@register_hparams
def base_ls0() -> TransformerHParams:
    """Table 3 row (D): no label smoothing."""
    return config.replace(base(), label_smoothing=0.0)


@register_hparams
def base_ls2() -> TransformerHParams:
    """Table 3 row (D): label smoothing 0.2."""
    return config.replace(base(), label_smoothing=0.2)


@register_hparams
def base_learned_pos() -> TransformerHParams:
    """Table 3 row (E): learned positions instead of sinusoids."""
    return config.replace(base(), positions="learned")
