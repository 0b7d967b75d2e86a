"""English constituency parsing (section 6.3).

The paper: 4 layers, d_model 1024, beam 21, alpha 0.3, outputs of at most input + 300; "a small number of experiments"
on section 22 chose dropout, learning rate and beam, and all else is base's. The paper does not give all chosen values.
Here they are those of its authors' code, tensor2tensor's release 1.0. Its set for WSJ alone,
transformer_parsing_base_dr6, has dropout and attention dropout 0.2 and a warm-up of 16,000. Its set for the
semi-supervised setting, transformer_parsing_big, has dropout 0.1, no attention dropout and a warm-up of 4,000, as base.
The learning rate is five times base's in both (0.5 to base's 0.1; a later release made the setting inert).
"""

from t2t_lite import config
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.registry import register_hparams

from .transformer import base


@register_hparams
def parsing() -> TransformerHParams:
    """The paper's parser on WSJ alone (Table 4, "WSJ only, discriminative"): 4 layers of 1024."""
    return config.replace(
        base(),
        num_layers=4,
        d_model=1024,
        dropout=0.2,
        attention_dropout=0.2,
        learning_rate_factor=5.0,
        warmup_steps=16000,
        max_length=512,  # symbols: all but a handful of WSJ's trees
        eval_lines=500,  # of section 22's 1,700: a beam of 21 is slow
        beam_size=21,
        length_penalty=0.3,
        extra_length=300,
        decode_batch_tokens=512,
    )


@register_hparams
def parsing_semi() -> TransformerHParams:
    """The paper's parser with 17M more trees (Table 4, "semi-supervised"): parsing, with base's dropout and warm-up."""
    return config.replace(parsing(), dropout=0.1, attention_dropout=0.0, warmup_steps=4000)


@register_hparams
def parsing_small() -> TransformerHParams:
    """3 layers of 128, norm=pre: a treebank of a few thousand trees, on two CPU cores."""
    return config.replace(
        parsing(),
        num_layers=3,
        d_model=128,
        d_ff=512,
        num_heads=4,
        norm="pre",
        dropout=0.2,
        attention_dropout=0.0,
        learning_rate_factor=0.8,
        warmup_steps=800,
        batch_tokens=4096,
        max_length=256,
        train_steps=8000,
        log_every=50,
        eval_every=500,
        eval_lines=0,
        save_every=250,
        keep_checkpoints=10,
        beam_size=4,
        decode_batch_tokens=2048,
    )
