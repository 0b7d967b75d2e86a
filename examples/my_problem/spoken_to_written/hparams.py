"""A recipe with a field of its own."""

import dataclasses

from t2t_lite import config, registry
from t2t_lite.errors import UsageError
from t2t_lite.models.transformer_hparams import TransformerHParams


@dataclasses.dataclass(frozen=True)
class CyclicHParams(TransformerHParams):
    """The Transformer's settings, and how many of the `num_layers` layers have weights of their own."""

    model = "cyclic_transformer"

    unique_layers: int = config.field(1, "M: layer i has the weights of layer i modulo M", (1, 256))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unique_layers > self.num_layers:
            raise UsageError(
                f"hparams: unique_layers={self.unique_layers} must be at most num_layers={self.num_layers}."
            )
        if self.num_decoder_layers:
            raise UsageError(
                "hparams: num_decoder_layers is not for cyclic_transformer, whose stacks are equally deep."
            )


@registry.register_hparams
def cyclic_tiny() -> CyclicHParams:
    """tiny with 4 layers that share the weights of one."""
    return config.from_dict(
        CyclicHParams,
        {
            **config.to_dict(registry.hparams("tiny")),
            "num_layers": 4,
            "norm": "pre",  # post-norm learnt nothing in 250 steps: shared weights get four layers' gradients
            "learning_rate_factor": 1.0,
        },
    )
