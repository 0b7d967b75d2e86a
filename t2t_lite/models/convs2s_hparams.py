"""The model group of the recipes of `convs2s`."""

from __future__ import annotations

import dataclasses
import re
from typing import NamedTuple

from t2t_lite.config import HParams, field
from t2t_lite.errors import UsageError
from t2t_lite.fields import FRACTION

_PART = re.compile(r"(?:([0-9]{1,3})x)?([0-9]{1,5})x([0-9]{1,3})")
_MOST_LAYERS = 256


class Convolution(NamedTuple):
    """The size of one layer: its output channels and its width, in positions."""

    channels: int
    width: int


def parse_layers(name: str, text: str) -> tuple[Convolution, ...]:
    """Reads "9x512x3+2x2048x1": 9 layers of 512 channels and width 3, then 2 of 2048 and width 1.

    Args:
        name: name of the field, for errors.

    Raises:
        UsageError: another form, a size of 0, or too many layers.
    """
    layers: list[Convolution] = []
    for part in text.split("+"):
        found = _PART.fullmatch(part.strip())
        sizes = [int(size) for size in found.groups(default="1")] if found else [0]
        if 0 in sizes:
            raise UsageError(
                f"hparams: {name}={text:.60} is not a list of layers. Give NUMBERxCHANNELSxWIDTH, all at least 1, with "
                "a + between parts, such as 9x512x3+2x2048x1."
            )
        number, channels, width = sizes
        layers += [Convolution(channels, width)] * number
    if len(layers) > _MOST_LAYERS:
        raise UsageError(f"hparams: {name}={text:.60} is {len(layers)} layers; at most {_MOST_LAYERS} are taken.")
    return tuple(layers)


@dataclasses.dataclass(frozen=True)
class ConvS2SHParams(HParams):
    """A recipe of the convolutional encoder-decoder (Gehring et al., 2017); the defaults are their En-De model's.

    Raises:
        UsageError: also layers that `parse_layers` cannot read.
    """

    model = "convs2s"

    encoder_layers: str = field("9x512x3+4x1024x3+2x2048x1", "NUMBERxCHANNELSxWIDTH + ..., from the source up")
    decoder_layers: str = field("9x512x3+4x1024x3+2x2048x1", "the same of the decoder")
    d_model: int = field(768, "size of embeddings, and of what attention compares", (1, 65_536))
    d_out: int = field(512, "size of what the softmax layer multiplies", (1, 65_536))
    max_positions: int = field(1024, "rows of each table of learned positions", (1, 10_000_000))
    dropout: float = field(0.1, "share of embeddings and of inputs of layers that training drops", FRACTION)

    def parameters(self, vocab_size: int = 0) -> int:
        """A lower bound on the number of parameters: only convolutions, attention and embeddings are counted."""
        total = 2 * (vocab_size + self.max_positions) * self.d_model
        for name in ("encoder_layers", "decoder_layers"):
            inputs = 0
            for channels, width in parse_layers(name, getattr(self, name)):
                total += 2 * width * (inputs or channels) * channels
                total += 2 * channels * self.d_model * (name == "decoder_layers")
                inputs = channels
        return total
