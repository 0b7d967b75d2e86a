"""Students: many layers in the encoder, which reads a sentence once, and two in the decoder, which runs for each piece.

Kasai et al. (2021, arXiv 2006.10369) move layers from the decoder to the encoder, and train on the outputs of a larger
model (sequence-level distillation, Kim and Rush, 2016), which `t2t-lite-synthesize` writes.

They are pre-norm: `multi30k_student` had 16 BLEU on dev after 500 updates, and 6 with post-norm (docs/multi30k.md).
"""

from t2t_lite import config
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.registry import register_hparams

from .tiny import multi30k, small


@register_hparams
def small_student() -> TransformerHParams:
    """small with 12 + 2 layers, pre-norm: for what a larger model, such as base, wrote (Kasai et al., 2021)."""
    return config.replace(small(), num_layers=12, num_decoder_layers=2, norm="pre")


@register_hparams
def multi30k_student() -> TransformerHParams:
    """multi30k with 6 + 2 layers, pre-norm: for what one or several runs of multi30k wrote (Kasai et al., 2021)."""
    return config.replace(multi30k(), num_layers=6, num_decoder_layers=2, norm="pre")
