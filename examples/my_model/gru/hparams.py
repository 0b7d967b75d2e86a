"""A recipe of the model `gru`."""

from t2t_lite import config, registry


@registry.register_hparams(model="gru")
def gru_tiny() -> config.HParams:
    """GRUs of 256 without attention: learns short lines of toy_reverse in a few minutes."""
    return config.HParams(
        d_model=256,
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
    )
