"""Golden outputs and gradients of `bytenet`, by a second implementation: writes torch_bytenet.npz.

    python3.11 -m venv torch
    torch/bin/pip install torch==2.14.1 numpy==2.4.6
    torch/bin/python tests/golden/torch_bytenet.py

tests/models/test_golden.py reads it. This is a second implementation of ours, written from Kalchbrenner et al. (2016)
with torch's modules: nn.Conv1d, nn.LayerNorm, nn.Embedding and autograd, in float64, with random weights, no
dropout. Each pair of sentences is computed alone, so nothing here knows of padding. "paper" is the paper's network:
columns from section 3.2, masked convolutions from 3.3, dilations from 3.4, and blocks as in Figure 3, left. What the
paper leaves open is chosen as `models/bytenet_stacks.py` says: the normalised columns are added to the target's
embeddings, and the softmax layer is given ReLU(LayerNorm(x)). "tensor2tensor" is what models/bytenet.py of
tensor2tensor 1.15.7 calls ByteNet, where each sentence has its own number of columns.

The weights are stored under the names of our checkpoints, and with them the gradients of the loss: the cross entropy
per target symbol with label smoothing of 0.1, over all symbols ("paper") or over the others ("tensor2tensor").
Embeddings are multiplied by sqrt(channels), as ours; symbol 0, which begins a target, is the zero vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

D, K = 5, 3
SOURCE_SIZE, TARGET_SIZE, SMOOTHING = 13, 11, 0.1
# With 6 columns for 5 symbols: 8, 4, 2 and 6 columns, fewer or more than target symbols; 9 are more than any has.
SOURCE = [[5, 9, 3, 12, 7, 1], [7, 7, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0], [4, 6, 8, 10, 1, 0]]
TARGET = [
    [4, 8, 2, 1, 0, 0, 0, 0, 0],
    [6, 5, 4, 3, 9, 10, 2, 7, 1],
    [3, 1, 0, 0, 0, 0, 0, 0, 0],
    [7, 2, 2, 5, 8, 3, 1, 0, 0],
]


class Convolution(nn.Module):
    """A convolution over positions [T, I] -> [T, O], with zeros outside; masked: no output sees a later input."""

    def __init__(self, inputs: int, outputs: int, width: int, dilation: int, masked: bool, bias: bool) -> None:
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, width, dilation=dilation, bias=bias)
        span = (width - 1) * dilation
        self.zeros = (span, 0) if masked else (span // 2, span // 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(functional.pad(x.T, self.zeros)).T


class Block(nn.Module):
    """x + the convolutions of x, each of which is given ReLU(LayerNorm(.)) of what is below it."""

    def __init__(self, sizes: Sequence[tuple[int, int, int, int]], masked: bool, last_norm: bool) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(inputs, eps=1e-6) for inputs, *_ in sizes])
        self.convolutions = nn.ModuleList([Convolution(*size, masked, bias=not last_norm) for size in sizes])
        self.last_norm = nn.LayerNorm(sizes[-1][1], eps=1e-6) if last_norm else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x
        for norm, convolution in zip(self.norms, self.convolutions, strict=True):
            y = convolution(torch.relu(norm(y)))
        return x + (y if self.last_norm is None else self.last_norm(y))


class ByteNet(nn.Module):
    """Logits [T, V] of one source [S] and one target [T], without padding."""

    def __init__(self, paper: bool) -> None:
        super().__init__()
        self.paper, size = paper, 2 * D if paper else D
        self.source, self.target = nn.Embedding(SOURCE_SIZE, size), nn.Embedding(TARGET_SIZE, size)
        self.output = nn.Linear(size, TARGET_SIZE, bias=False)
        if paper:
            rates = [1, 2, 4, 1]  # as 3.4's, which begin again after 16
            sizes = [[(2 * D, D, 1, 1), (D, D, K, rate), (D, 2 * D, 1, 1)] for rate in rates]
        else:
            sizes = [[(D, D, K, rate) for rate in (1, 2, 4)]] * 2
        self.encoder, self.decoder = (
            nn.ModuleList([Block(each, masked, not paper) for each in sizes]) for masked in (False, True)
        )
        self.encoder_norm, self.decoder_norm = (nn.LayerNorm(size, eps=1e-6) for _ in range(2))
        self.join, self.join_norm = Convolution(2 * D, D, K, 1, True, bias=False), nn.LayerNorm(D, eps=1e-6)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        size = self.output.in_features
        tenths = 12 if self.paper else 15
        count = (tenths * len(source) + 9) // 10  # a |s|, rounded up
        columns = functional.pad(self.source(source) * size**0.5, (0, 0, 0, count - len(source)))
        for block in self.encoder:
            columns = block(columns)
        if self.paper:
            columns = self.encoder_norm(columns)
        columns = functional.pad(columns, (0, 0, 0, max(len(target) - count, 0)))[: len(target)]
        before = functional.pad(self.target(target[:-1]) * size**0.5, (0, 0, 1, 0))
        x = columns + before if self.paper else self.join_norm(self.join(torch.relu(torch.cat([columns, before], 1))))
        for block in self.decoder:
            x = block(x)
        return self.output(torch.relu(self.decoder_norm(x)) if self.paper else x)


def loss_of(logits: torch.Tensor, target: torch.Tensor, paper: bool) -> torch.Tensor:
    """The cross entropy of a sentence, summed over its symbols."""
    if paper:
        return functional.cross_entropy(logits, target, label_smoothing=SMOOTHING, reduction="sum")
    wanted = torch.full_like(logits, SMOOTHING / (TARGET_SIZE - 1)).scatter_(1, target[:, None], 1 - SMOOTHING)
    return functional.cross_entropy(logits, wanted, reduction="sum")


def ours(model: ByteNet, gradients: bool) -> dict[str, np.ndarray]:
    """The weights, or their gradients, by their names in our checkpoints."""
    found: dict[str, Any] = {}

    def norm(path: str, module: nn.LayerNorm) -> None:
        found[f"{path}/gamma"], found[f"{path}/beta"] = module.weight, module.bias

    def convolution(path: str, module: Convolution) -> None:
        found[f"{path}/kernel"] = module.conv.weight
        if module.conv.bias is not None:
            found[f"{path}/bias"] = module.conv.bias

    for side in ("encoder", "decoder"):
        for i, block in enumerate(getattr(model, side)):
            for n, (each, given) in enumerate(zip(block.convolutions, block.norms, strict=True)):
                convolution(f"{side}/block_{i}/convolution_{n}", each)
                norm(f"{side}/block_{i}/norm_{n}", given)
            if block.last_norm is not None:
                norm(f"{side}/block_{i}/last_norm", block.last_norm)
        if model.paper:
            norm(f"{side}/norm", getattr(model, f"{side}_norm"))
    if not model.paper:
        convolution("decoder/join", model.join)
        norm("decoder/join_norm", model.join_norm)
    found["source_embedding/table"], found["target_embedding/table"] = model.source.weight, model.target.weight
    found["softmax/table"] = model.output.weight

    def array(weight: Any) -> np.ndarray:
        values = (weight.grad if gradients else weight.detach()).numpy()
        # [O, I, k] is [k I, O] of ours.
        return values if values.ndim < 3 else values.transpose(2, 1, 0).reshape(-1, len(values))

    return {path: array(weight).astype(np.float32) for path, weight in found.items()}


def main() -> None:
    """Writes the golden file beside this script."""
    torch.manual_seed(1)
    arrays: dict[str, Any] = {"source": np.array(SOURCE, np.int32), "target": np.array(TARGET, np.int32)}
    pairs = [[torch.tensor([n for n in side if n]) for side in pair] for pair in zip(SOURCE, TARGET, strict=True)]
    for name in ("paper", "tensor2tensor"):
        model = ByteNet(name == "paper")
        for weight in model.parameters():
            fan_in = weight[0].numel() if weight.ndim > 1 else 9
            weight.data = torch.randn(weight.shape) * fan_in**-0.5  # in float32, as they are stored
        for module in model.modules():
            if isinstance(module, nn.LayerNorm):
                module.weight.data += 1
        model.double()
        logits = [model(source, target) for source, target in pairs]
        losses = [loss_of(each, target, model.paper) for each, (_, target) in zip(logits, pairs, strict=True)]
        loss = sum(losses) / sum(len(target) for _, target in pairs)
        loss.backward()
        arrays |= {f"{name}/logits": torch.cat(logits).detach().numpy(), f"{name}/loss": loss.detach().numpy()}
        for kind, values in (("weights", ours(model, False)), ("gradients", ours(model, True))):
            arrays |= {f"{name}/{kind}/{path}": value for path, value in values.items()}
    np.savez_compressed(Path(__file__).with_suffix(".npz"), **arrays)


if __name__ == "__main__":
    main()
