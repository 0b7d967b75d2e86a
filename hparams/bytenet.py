"""ByteNet, of the model `bytenet` (Kalchbrenner et al., 2016), and tensor2tensor's network of that name."""

from t2t_lite import config
from t2t_lite.models.bytenet_hparams import ByteNetHParams
from t2t_lite.registry import register_hparams

from .tensor2tensor import BASIC_PARAMS1
from .tiny import MULTI30K_RUN, TINY_RUN


@register_hparams
def bytenet() -> ByteNetHParams:
    """ByteNet (Kalchbrenner et al., 2016), En-De over characters: 30 + 30 blocks, d = 800; add --vocab_type=char.

    The sizes, a rate of 3e-4 for Adam, 12 hypotheses and no length penalty are theirs. They do not give batches,
    updates and lengths: these are guesses. So are the points that models/bytenet_stacks.py names as left open.
    """
    return ByteNetHParams(
        label_smoothing=0.0,
        adam_beta2=0.999,
        adam_epsilon=1e-8,
        schedule="constant",
        learning_rate=3e-4,
        warmup_steps=1,
        max_length=512,
        train_steps=500_000,
        beam_size=12,
        length_penalty=0.0,
        extra_length=100,
    )


@register_hparams
def t2t_bytenet() -> ByteNetHParams:
    """tensor2tensor's bytenet_base: 4 + 4 blocks of 4 dilated convolutions of 768, dropout 0.2.

    From models/bytenet.py and basic_params1, on one GPU. Deviations: each sentence has its own number of columns, 1.5
    for each symbol, not the batch's number rounded up to a multiple of 50; whole symbols are not dropped
    (symbol_dropout); no weight decay; the learning rate first rises linearly for 3,000 updates, not exponentially.
    """
    return ByteNetHParams(
        wiring="tensor2tensor",
        num_layers=4,
        d_model=768,
        dilations=4,
        unfold_factor=1.5,
        learning_rate=1e-4,  # 0.05, times 0.002 for Adam
        warmup_steps=3000,
        batch_tokens=2048,
        train_steps=250_000,
        **BASIC_PARAMS1,
    )


@register_hparams
def bytenet_tiny() -> ByteNetHParams:
    """5 + 5 blocks, d = 64: BLEU 61 on toy_ende after five minutes of one processor; not trained to its end."""
    return ByteNetHParams(
        num_layers=5,
        d_model=64,
        clip_norm=5.0,
        learning_rate_factor=0.5,
        **TINY_RUN | {"train_steps": 1000, "eval_every": 500},
    )


@register_hparams
def multi30k_bytenet() -> ByteNetHParams:
    """10 + 10 blocks, d = 128, dropout 0.3: Multi30k En-De with the batches, updates and search of `multi30k`."""
    return config.replace(
        bytenet_tiny(),
        num_layers=10,
        d_model=128,
        dropout=0.3,
        learning_rate_factor=1.0,
        **MULTI30K_RUN,
    )
