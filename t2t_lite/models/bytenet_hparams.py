"""The model group of the recipes of `bytenet`."""

from __future__ import annotations

import dataclasses
from typing import Literal

from t2t_lite.config import HParams, field
from t2t_lite.errors import UsageError
from t2t_lite.fields import COUNT_OR_NONE, FRACTION

_MOST_APART = 10**6  # positions; a search keeps as many inputs of a convolution


@dataclasses.dataclass(frozen=True)
class ByteNetHParams(HParams):
    """A recipe of ByteNet (Kalchbrenner et al., 2016); the defaults are its English-German model's.

    Raises:
        UsageError: also convolutions whose inputs are too far apart, or a factor that is not whole thousandths.
    """

    model = "bytenet"

    num_layers: int = field(30, "residual blocks, of the encoder and of the decoder", (1, 256))
    d_model: int = field(
        800, "d, channels of wide convolutions; paper: 2 d between blocks and in embeddings", (1, 65_536)
    )
    kernel_width: int = field(3, "k, inputs of a wide convolution", (1, 1000))
    dilations: int = field(
        5, "n: rates are 1, 2, 4, ..., 2^(n-1); blocks take them in turn, each of tensor2tensor's has all", (1, 20)
    )
    wiring: Literal["paper", "tensor2tensor"] = field(
        "paper", "blocks, and where the decoder is given the encoder's columns; models/bytenet_stacks.py"
    )
    unfold_factor: float = field(1.2, "a: for n source symbols there are a n + b columns to read, rounded up", (1, 10))
    unfold_extra: int = field(0, "b of the same", COUNT_OR_NONE)
    dropout: float = field(0.0, "share of what a block adds that training drops", FRACTION)

    def __post_init__(self) -> None:
        super().__post_init__()
        if (apart := (self.kernel_width - 1) * 2 ** (self.dilations - 1)) > _MOST_APART:
            raise UsageError(
                f"hparams: kernel_width={self.kernel_width}, dilations={self.dilations} give a convolution over "
                f"{apart + 1:,} positions; at most {_MOST_APART + 1:,} are taken. Choose smaller ones."
            )

        if self.unfold_factor != round(self.unfold_factor, 3):
            raise UsageError(
                f"hparams: unfold_factor={self.unfold_factor} has more than three digits after the point, so that "
                f"lengths would depend on rounding. Give {round(self.unfold_factor, 3)}."
            )

    def parameters(self, vocab_size: int = 0) -> int:
        """A lower bound on the number of parameters: only matrices are counted."""
        if self.wiring == "paper":
            block, width = (4 + self.kernel_width) * self.d_model**2, 2 * self.d_model
        else:
            block, width = self.dilations * self.kernel_width * self.d_model**2, self.d_model
        return 2 * self.num_layers * block + 3 * vocab_size * width
