"""Small recipes: for a first run, for small corpora, for tests.

Their batches hardly fill one GPU. Cut into 8 parts, an update on two CPU cores took 41% more processor time with tiny,
5% with multi30k and 4% with small (medians of updates in turn, 2026-11-23).
"""

from typing import Any

from t2t_lite import config
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.registry import register_hparams

# Batches, updates, evaluations and checkpoints of `tiny`, and of other models' sets of that size.
TINY_RUN: dict[str, Any] = {
    "batch_tokens": 2048,
    "max_length": 64,
    "warmup_steps": 200,
    "train_steps": 1400,
    "log_every": 50,
    "eval_every": 700,
    "save_every": 100,
    "keep_checkpoints": 5,
    "average_checkpoints": 5,
}
# Those of `small`.
SMALL_RUN: dict[str, Any] = {
    "batch_tokens": 8192,
    "max_length": 128,
    "train_steps": 20000,
    "log_every": 50,
    "eval_every": 1000,
    "save_every": 500,
    "keep_checkpoints": 5,
}
# Those of Multi30k, and its search. An epoch is 62 updates: a run evaluates and saves once in each.
MULTI30K_RUN: dict[str, Any] = {
    "batch_tokens": 8192,
    "max_length": 128,
    "warmup_steps": 2000,
    "train_steps": 8000,
    "log_every": 50,
    "eval_every": 62,
    "eval_lines": 100,
    "save_every": 62,
    "keep_checkpoints": 10,
    "average_checkpoints": 10,
    "beam_size": 5,
    "length_penalty": 1.35,
}
# The Transformer of Multi30k, with and without experts: sizes, dropout and optimizer of Wu et al. (ACL 2021).
# fairseq's learning rate, 0.005 at update 2,000, is factor * 128^-0.5 * 2000^-0.5.
MULTI30K_TRANSFORMER: dict[str, Any] = {
    "num_layers": 4,
    "d_model": 128,
    "d_ff": 256,
    "num_heads": 4,
    "dropout": 0.3,
    "learning_rate_factor": 0.005 * (128 * 2000) ** 0.5,
    "adam_epsilon": 1e-8,
    "clip_norm": 25.0,
    **MULTI30K_RUN,
}


@register_hparams
def tiny() -> TransformerHParams:
    """2 layers of 128: learns toy_ende or toy_parsing in three minutes on two CPU cores.

    norm=pre, as the short warm-up needs it: with the paper's order, the loss of toy_parsing does not fall for hundreds
    of updates. No dropout: a dozen epochs of made-up sentences are too few to learn them by heart.
    """
    return TransformerHParams(
        num_layers=2,
        d_model=128,
        d_ff=512,
        num_heads=4,
        norm="pre",
        dropout=0.0,
        learning_rate_factor=0.8,
        **TINY_RUN,
    )


@register_hparams
def small() -> TransformerHParams:
    """3 layers of 256, dropout 0.2: for a corpus of some 100,000 pairs of your own."""
    return TransformerHParams(
        num_layers=3,
        d_model=256,
        d_ff=1024,
        num_heads=4,
        dropout=0.2,
        **SMALL_RUN,
    )


@register_hparams
def multi30k() -> TransformerHParams:
    """4 layers of 128, dropout 0.3: Multi30k En-De, 29,000 pairs, and other corpora of that size.

    As `multi30k_wu2021`, except for two things that were chosen on dev (docs/multi30k.md). First, with fairseq 0.12's
    initial weights the loss falls faster: dev BLEU 42.2 and 41.7 after some 4,500 updates, 40.1 after 4,000 with
    Glorot's. Second, no run stops early: two seeds had 0.5 and 0.3 more dev BLEU at 7,626 and 6,758 updates than at
    4,650.
    """
    return config.replace(multi30k_wu2021(), initial_weights="fairseq012", early_stopping=0)


@register_hparams
def multi30k_wu2021() -> TransformerHParams:
    """The recipe of Wu et al. (ACL 2021) for Multi30k En-De as far as it can be expressed here; see docs/multi30k.md.

    Sizes, dropout, batches, 8,000 updates, the patience of ten epochs and the mean of the last ten are theirs. Their
    search divides by the length; at the usual length of 15 pieces, an alpha of 1.35 gives one more piece the same
    weight.
    """
    return TransformerHParams(initial_weights="fairseq09", early_stopping=10, **MULTI30K_TRANSFORMER)
