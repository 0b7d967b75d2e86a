"""Convolutional encoder-decoders, of the model `convs2s` (Gehring et al., 2017)."""

from t2t_lite import config
from t2t_lite.models.convs2s_hparams import ConvS2SHParams
from t2t_lite.registry import register_hparams

from .tiny import MULTI30K_RUN, TINY_RUN


@register_hparams
def convs2s_ende() -> ConvS2SHParams:
    """Gehring et al. (2017), En-De: 15 layers each, 768; with their gradient descent (Nesterov's, momentum 0.99).

    Layers, dropout, rate, clipping, batches and label smoothing are those of fairseq's `fconv_wmt_en_de` and of the
    command that goes with it; the paper had a rate of 0.25 and no label smoothing. There the rate is constant for 50
    epochs and is then divided by 10 in each; here it is halved after an evaluation without a lower dev loss. An epoch
    of 4.5 million pairs is about 34,000 updates.
    """
    return ConvS2SHParams(
        dropout=0.2,
        optimizer="nesterov",
        momentum=0.99,
        schedule="plateau",
        learning_rate=0.5,
        clip_norm=0.1,
        batch_tokens=4000,
        train_steps=1_700_000,
        eval_every=34_000,
        beam_size=5,
        length_penalty=1.0,
    )


@register_hparams
def convs2s_enfr() -> ConvS2SHParams:
    """Gehring et al. (2017), En-Fr: 15 layers each, up to 4096 channels, dropout 0.1; on 8 devices.

    As `convs2s_ende`, with fairseq's `fconv_wmt_en_fr`: 3,000 tokens on each of the 8 GPUs that the paper names. An
    epoch of 36 million pairs is about 45,000 updates.
    """
    layers = "6x512x3+4x768x3+3x1024x3+1x2048x1+1x4096x1"
    return config.replace(
        convs2s_ende(),
        encoder_layers=layers,
        decoder_layers=layers,
        dropout=0.1,
        batch_tokens=24_000,
        eval_every=45_000,
    )


@register_hparams
def convs2s_small() -> ConvS2SHParams:
    """4 and 3 layers of 256, dropout 0.2: for a corpus of some 100,000 pairs (fairseq's `fconv_iwslt_de_en`)."""
    return config.replace(
        convs2s_ende(),
        encoder_layers="4x256x3",
        decoder_layers="3x256x3",
        d_model=256,
        d_out=256,
        learning_rate=0.25,
        train_steps=50_000,
        eval_every=1000,
        save_every=500,
        keep_checkpoints=5,
    )


@register_hparams
def convs2s_tiny() -> ConvS2SHParams:
    """3 layers of 128 each: learns toy_reverse or toy_ende in a few minutes. With Adam and equation (3)."""
    return ConvS2SHParams(
        encoder_layers="3x128x3",
        decoder_layers="3x128x3",
        d_model=128,
        d_out=128,
        max_positions=256,
        dropout=0.0,
        clip_norm=5.0,
        learning_rate_factor=0.4,
        **TINY_RUN,
    )


@register_hparams
def multi30k_convs2s() -> ConvS2SHParams:
    """4 layers of 128 each, dropout 0.3: Multi30k En-De, 29,000 pairs, with the batches and steps of `multi30k`.

    With Adam and equation (3), at less than half the rate: nothing normalises the output of a layer.
    """
    return config.replace(
        convs2s_tiny(),
        encoder_layers="4x128x3",
        decoder_layers="4x128x3",
        max_positions=1024,
        dropout=0.3,
        learning_rate_factor=1.0,
        **MULTI30K_RUN,
    )
