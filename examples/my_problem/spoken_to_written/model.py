"""A Transformer whose layers take turns with a few sets of weights (Takase and Kiyono 2021, "CYCLE")."""

import itertools
from typing import Any

from spoken_to_written.hparams import CyclicHParams
from t2t_lite import config, registry
from t2t_lite.models.transformer import Transformer


@registry.register_model
class CyclicTransformer(Transformer):
    """N layers deep with the weights of M: 1, 2, ..., M, 1, 2, ..., in the encoder and in the decoder.

    M = 1 is the weight sharing of the Universal Transformer (Dehghani et al. 2019), without its halting.
    """

    @classmethod
    def from_hparams(
        cls, hparams: CyclicHParams, source_vocab_size: int, target_vocab_size: int, shared: bool
    ) -> "CyclicTransformer":
        """Builds M layers, then goes through them until there are N."""
        unique = config.replace(hparams, num_layers=hparams.unique_layers)
        model = super().from_hparams(unique, source_vocab_size, target_vocab_size, shared)
        model.hparams = hparams  # so that the cost counts all passes
        # Lists of layers with repeats: each place has a cache and a dropout mask of its own.
        model.encoder.blocks = _cycle(model.encoder.blocks, hparams.num_layers)
        model.decoder.blocks = _cycle(model.decoder.blocks, hparams.num_layers)
        return model


def _cycle(layers: list[Any], number: int) -> list[Any]:
    """0, 1, ..., M - 1, 0, 1, ... until there are `number`."""
    return list(itertools.islice(itertools.cycle(layers), number))
