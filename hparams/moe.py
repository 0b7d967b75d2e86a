"""Mixtures of experts: Shazeer et al. (2017), and the Transformer with experts."""

from t2t_lite import config
from t2t_lite.models.moe_hparams import MoeHParams
from t2t_lite.models.transformer_moe_hparams import TransformerMoeHParams
from t2t_lite.registry import register_hparams

from .tiny import MULTI30K_RUN, MULTI30K_TRANSFORMER, TINY_RUN


@register_hparams
def moe() -> MoeHParams:
    """Shazeer et al. (2017), appendix E, with flat mixtures: 32 experts, 4 for each position.

    Their translation models had 512 or 2,048 experts in two levels, and gating that depends on the batch (appendix F).
    Here the gating is the noisy top-k gating of section 2.1, with the loss weights of section 4. Their learning rate
    rose for 2,000 updates, was constant for 8,000 and then fell with the root of the updates; here it falls directly
    after the rise. Its maximum and the number of updates are guesses. Batches: 16,000 words on each of 64 GPUs.
    """
    return MoeHParams(
        label_smoothing=0.0,
        adam_beta2=0.999,
        adam_epsilon=1e-8,
        schedule="inverse_sqrt",
        learning_rate=1e-3,
        warmup_steps=2000,
        batch_tokens=64 * 16_000,
        balance_groups=64,
        max_length=128,
    )


@register_hparams
def moe_tiny() -> MoeHParams:
    """LSTM layers of 128 and 4 experts, 2 for each position; batches and updates as in `rnn_tiny`."""
    return MoeHParams(
        d_model=128,
        cells=128,
        d_ff=128,
        num_experts=4,
        experts_per_token=2,
        dropout=0.0,
        clip_norm=5.0,
        learning_rate_factor=0.8,
        **TINY_RUN,
    )


@register_hparams
def multi30k_moe() -> MoeHParams:
    """`moe_tiny` of 256 with 8 experts: Multi30k En-De with the batches, updates and search of `multi30k`."""
    return config.replace(
        moe_tiny(),
        d_model=256,
        cells=256,
        d_ff=256,
        num_experts=8,
        dropout=0.3,
        learning_rate_factor=1.0,
        **MULTI30K_RUN,
    )


@register_hparams
def transformer_moe() -> TransformerMoeHParams:
    """base with 8 experts, 2 for each position, in every second layer (GShard, Lepikhin et al., 2020).

    GShard's networks are larger and have more experts; sizes, batches and schedule here are those of base.
    """
    return TransformerMoeHParams(keep_checkpoints=5, average_checkpoints=5)


@register_hparams
def transformer_moe_tiny() -> TransformerMoeHParams:
    """`tiny` with d_ff = 256 and, in its second layers, 4 experts, 2 for each position."""
    return TransformerMoeHParams(
        num_layers=2,
        d_model=128,
        d_ff=256,
        num_heads=4,
        num_experts=4,
        norm="pre",
        dropout=0.0,
        learning_rate_factor=0.8,
        **TINY_RUN,
    )


@register_hparams
def multi30k_transformer_moe() -> TransformerMoeHParams:
    """`multi30k` with 4 experts, 2 for each position, in every second layer."""
    return TransformerMoeHParams(num_experts=4, initial_weights="fairseq012", **MULTI30K_TRANSFORMER)
