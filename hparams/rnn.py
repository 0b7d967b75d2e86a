"""LSTM encoder-decoders with attention, of the model `rnn` (Luong et al., 2015)."""

from t2t_lite.models.rnn_hparams import RnnHParams
from t2t_lite.registry import register_hparams


@register_hparams(model="rnn")
def rnn_tiny() -> RnnHParams:
    """2 LSTM layers of 128 with attention: learns toy_reverse or toy_ende in a few minutes."""
    return RnnHParams(
        num_layers=2,
        d_model=128,
        dropout=0.0,
        clip_norm=5.0,
        batch_tokens=2048,
        max_length=64,
        learning_rate_factor=0.8,
        warmup_steps=200,
        train_steps=1400,
        log_every=50,
        eval_every=700,
        save_every=100,
        keep_checkpoints=5,
        average_checkpoints=5,
    )


@register_hparams(model="rnn")
def luong() -> RnnHParams:
    """Luong et al. (2015), En-De: 4 LSTM layers of 1000, general score, input feeding, dropout 0.2.

    Theirs was trained with plain gradient descent for 12 epochs, on 50,000 words of each language. Here Adam does it.
    """
    return RnnHParams(
        num_layers=4,
        d_model=1000,
        share_embeddings=False,
        dropout=0.2,
        label_smoothing=0.0,
        clip_norm=5.0,
        batch_tokens=4096,
        max_length=64,
        beam_size=10,
        length_penalty=1.0,
    )
