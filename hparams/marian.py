"""The recipes of Marian and of transformers' MarianMT, which are not the paper's.

Imported runs are named after them: sizes and search are those of the model, and what only continued training has, such
as the learning rate, is the recipe's.
"""

from t2t_lite import config
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.registry import register_hparams

from .transformer import base


@register_hparams
def marian_base() -> TransformerHParams:
    """Marian's `--task transformer-base`, as release 1.12.42 prints it; OPUS-MT's models have swish, not ReLU.

    Marian chooses batches by its memory, and keeps an exponential average of the weights; here batches are base's, and
    the last checkpoints are averaged.
    """
    return config.replace(
        base(),
        positions="tensor2tensor",  # Marian has these rates, too
        norm_epsilon=1e-6,
        attention_biases=True,
        output_bias=True,
        schedule="inverse_sqrt",  # lr-warmup and lr-decay-inv-sqrt are equal
        learning_rate=3e-4,
        warmup_steps=16000,
        max_length=100,
        beam_size=8,
        length_penalty=1.0,
        length_penalty_form="power",
        unknown_output=False,
        max_length_factor=3.0,
        extra_length=0,
    )


@register_hparams
def marianmt_base() -> TransformerHParams:
    """MarianMT of the same size, with the defaults of transformers 4.57's Seq2SeqTrainingArguments.

    There the learning rate falls to 0, in a straight line; here it stays.
    """
    return config.replace(
        marian_base(),
        positions="sinusoidal",
        norm_epsilon=1e-5,
        activation="swish",
        schedule="constant",
        learning_rate=5e-5,
        warmup_steps=1,
        adam_beta2=0.999,
        adam_epsilon=1e-8,
        clip_norm=1.0,
        label_smoothing=0.0,
        max_length=512,
        beam_size=4,
        unknown_output=True,
        max_length_factor=0.0,
        extra_length=511,
    )
