"""A recipe with a field of its own."""

import dataclasses

from t2t_lite import config, registry
from t2t_lite.errors import UsageError


@dataclasses.dataclass(frozen=True)
class CyclicHParams(config.HParams):
    """HParams, and how many of the `num_layers` layers have weights of their own."""

    unique_layers: int = 1  # M: layer i has the weights of layer i modulo M

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.unique_layers <= self.num_layers:
            raise UsageError(
                f"hparams: unique_layers={self.unique_layers} must be between 1 and num_layers={self.num_layers}."
            )


@registry.register_hparams(model="cyclic_transformer")
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
