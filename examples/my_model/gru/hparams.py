"""A recipe of the model `gru`, and the setting that is the model's own."""

import dataclasses

from t2t_lite import config, registry


@dataclasses.dataclass(frozen=True)
class GruHParams(config.HParams):
    """A recipe of an encoder-decoder of two GRUs."""

    model = "gru"

    units: int = config.field(256, "size of embeddings and states", (1, 65_536))


@registry.register_hparams
def gru_tiny() -> GruHParams:
    """GRUs of 256 for short lines, such as those of toy_reverse."""
    return GruHParams(
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
