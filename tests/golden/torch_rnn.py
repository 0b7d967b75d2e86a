"""Golden outputs and gradients of all kinds of `rnn`, by a second implementation: writes torch_rnn.npz.

    python3.11 -m venv torch
    torch/bin/pip install torch==2.13.0 numpy
    torch/bin/python tests/golden/torch_rnn.py

tests/models/test_golden.py reads it. This is a second implementation of ours, from the equations, with torch's modules:
nn.LSTM on packed sequences (in both directions where they are read both ways), nn.LSTMCell where attention feeds the
next position, nn.Linear, nn.Embedding and autograd. It runs in float64, with random weights and without dropout. The
bi-directional encoder is torch's, with one layer ("gnmt") or two stacks ("both_ways"). "gnmt_v2" is wired and scored as
tensorflow/nmt's GNMT, "tied" has one table for source, target and softmax, as the small sets. The weights are stored
under the names of our checkpoints. So are the gradients of the sum of -log p over all target symbols. These differences
are handled as follows:

    forget gate   ours adds 1 to its input: 1 is subtracted from the stored bias
    biases        torch has two for each gate: their sum is stored. Its gradient equals that of either one
    embeddings    ours multiplies them by sqrt(units): they are stored divided by it, their gradients multiplied by it.
                  Symbol 0, which begins a target, is the zero vector in both
    context       the decoder's cells read it through columns of their input matrices. Ours stores the columns of the
                  bottom layer as decoder/feed
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

UNITS, SOURCE_SIZE, TARGET_SIZE = 6, 13, 11
SOURCE = [[5, 9, 3, 12, 7, 1], [7, 7, 1, 0, 0, 0], [2, 1, 0, 0, 0, 0], [4, 6, 8, 10, 1, 0]]
TARGET = [[4, 8, 2, 1, 0, 0, 0], [6, 5, 4, 3, 9, 10, 1], [1, 0, 0, 0, 0, 0, 0], [7, 2, 2, 1, 0, 0, 0]]
# fed: the bottom layer is given the context, or the attentional vector, of the previous position
ADDITIVE = {"score": "additive", "fed": True}
CASES: dict[str, dict[str, Any]] = {
    "mlperf": {"kind": "gnmt", "layers": 4, "fed": False, "score": "normed_additive"},
    "gnmt": {"kind": "gnmt", "layers": 3, "late": True, **ADDITIVE},
    "both_ways": {"kind": "both_ways", "layers": 2, **ADDITIVE},
    "parser": {"kind": "parser", "layers": 2, **ADDITIVE},
    "gnmt_v2": {"kind": "gnmt", "layers": 3, "fed": True, "score": "normed_additive", "softmax_bias": False},
    "tied": {"kind": "top", "layers": 2, "fed": True, "score": "general", "tied": True},
    "dot": {"kind": "top", "layers": 1, "fed": True, "score": "dot"},
    "interleaved": {"kind": "interleaved", "layers": 2, "fed": False, "score": "product"},
}


class Model(nn.Module):
    """Encoder, attention and decoder of one case."""

    def __init__(
        self,
        kind: str,
        layers: int,
        fed: bool,
        score: str,
        late: bool = False,
        tied: bool = False,
        softmax_bias: bool = True,
    ) -> None:
        super().__init__()
        self.kind, self.layers, self.fed, self.score, self.late, self.tied = kind, layers, fed, score, late, tied
        targets = SOURCE_SIZE if tied else TARGET_SIZE
        size = self.size = UNITS * (1 + (kind == "both_ways"))
        result = {"gnmt": size, "parser": 2 * size}.get(kind, UNITS)
        self.source = nn.Embedding(SOURCE_SIZE, UNITS, padding_idx=0)
        self.target = self.source if tied else nn.Embedding(targets, UNITS, padding_idx=0)
        if kind in ("gnmt", "interleaved"):
            first = nn.LSTM(UNITS, UNITS, batch_first=True, bidirectional=kind == "gnmt")
            inputs = [UNITS * (1 + (kind == "gnmt"))] + [UNITS] * (layers - 2)
            self.encoder = nn.ModuleList([first, *(nn.LSTM(n, UNITS, batch_first=True) for n in inputs)])
        else:
            stacks = 2 if kind == "both_ways" else 1
            self.encoder = nn.ModuleList([nn.LSTM(UNITS, UNITS, layers, batch_first=True) for _ in range(stacks)])
        above = 2 * size if kind == "gnmt" else size
        below = [UNITS + result * fed, *[above] * (layers - 1)]
        self.decoder = nn.ModuleList([nn.LSTMCell(inputs, size) for inputs in below])
        self.query, self.keys = (nn.Linear(size, size, bias=False) for _ in range(2))
        self.vector = nn.Parameter(torch.zeros(size))
        self.gain, self.bias = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(size))
        self.combined = nn.Linear(2 * size, UNITS, bias=False)
        self.output = nn.Linear(size if kind == "gnmt" else result, targets, bias=softmax_bias)

    def encode(self, ids: torch.Tensor) -> tuple[torch.Tensor, list[tuple[torch.Tensor, torch.Tensor]]]:
        """Memory [B, S, size], and each layer's last state."""
        lengths = (ids != 0).sum(1)
        x = _embedded(self.source, ids)
        if self.kind in ("gnmt", "interleaved"):
            states = []
            for i, lstm in enumerate(self.encoder):
                backwards = self.kind == "interleaved" and i % 2
                y, (h, c) = _packed(lstm, _turn(x, lengths) if backwards else x, lengths)
                y = _turn(y, lengths) if backwards else y
                x = x + y if self.kind == "gnmt" and i >= 2 else y
                states.append((h[-1], c[-1]))  # with two directions, the second is the backward one
            return x, states
        if self.kind == "top":
            memory, (h, c) = _packed(self.encoder[0], x, lengths)
            return memory, list(zip(h, c, strict=True))
        turned = _turn(x, lengths)
        if self.kind == "parser":
            memory, (h, c) = _packed(self.encoder[0], turned, lengths)
            return _turn(memory, lengths), list(zip(h, c, strict=True))
        forward, (h, c) = _packed(self.encoder[0], x, lengths)
        backward, (g, d) = _packed(self.encoder[1], turned, lengths)
        states = list(zip(torch.cat([h, g], -1), torch.cat([c, d], -1), strict=True))
        return torch.cat([forward, _turn(backward, lengths)], -1), states

    def attend(self, h: torch.Tensor, memory: torch.Tensor, hidden: torch.Tensor) -> tuple[Any, Any]:
        """The context of h [B, size], and its weights [B, S]."""
        if self.score in ("dot", "general"):
            scores = torch.einsum("bd,bsd->bs", h, memory if self.score == "dot" else self.keys(memory))
        elif self.score == "product":
            scores = (torch.tanh(self.query(h))[:, None] * torch.tanh(self.keys(memory))) @ self.vector
        elif self.score == "additive":
            scores = torch.tanh(self.query(h)[:, None] + self.keys(memory)) @ self.vector
        else:
            vector = self.gain * self.vector / self.vector.norm()
            scores = torch.tanh(self.query(h)[:, None] + self.keys(memory) + self.bias) @ vector
        weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
        return torch.einsum("bs,bsd->bd", weights, memory), weights

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits [B, T, V] and weights [B, T, S]."""
        memory, states = self.encode(source)
        size = self.decoder[0].weight_ih.shape[1] - UNITS if self.fed else self.size
        given = torch.zeros(len(source), size, dtype=torch.float64)
        logits, maps = [], []
        for t in range(target.shape[1]):
            x = _embedded(self.target, target[:, t - 1] if t else torch.zeros_like(target[:, 0]))
            x = torch.cat([x, given], -1) if self.fed else x
            for i, cell in enumerate(self.decoder):
                if self.kind == "gnmt" and i == 1:
                    context, weights = self.attend(states[0][0], memory, source == 0)
                    above, given = (given if self.late else context), context
                y = torch.cat([x, above], -1) if self.kind == "gnmt" and i else x
                states[i] = cell(y, states[i])
                x = x + states[i][0] if self.kind == "gnmt" and i >= 2 else states[i][0]
            if self.kind != "gnmt":
                context, weights = self.attend(x, memory, source == 0)
                x = torch.cat([context, x], -1)
                x = self.combined(x) if self.kind != "parser" else x
                x = given = torch.tanh(x) if self.kind in ("top", "interleaved") else x
            table = self.target.weight / UNITS**0.5 if self.tied else self.output.weight
            logits.append(nn.functional.linear(x, table, self.output.bias))
            maps.append(weights)
        return torch.stack(logits, 1), torch.stack(maps, 1)


def _embedded(table: nn.Embedding, ids: torch.Tensor) -> torch.Tensor:
    return table(ids) * ids.ne(0)[..., None]


def _packed(lstm: nn.LSTM, x: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, Any]:
    packed, states = lstm(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
    return pad_packed_sequence(packed, batch_first=True)[0], states


def _turn(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    return torch.stack([torch.cat([row[:n].flip(0), row[n:]]) for row, n in zip(x, lengths, strict=True)])


def ours(model: Model, gradients: bool) -> dict[str, np.ndarray]:
    """The weights, or their gradients, by their names in our checkpoints."""

    def of(weight: Any) -> np.ndarray:
        return (weight.grad if gradients else weight.detach()).numpy()

    found: dict[str, np.ndarray] = {}

    def lstm(path: str, module: nn.Module, end: str, feed: bool = False) -> None:
        kernel = of(getattr(module, f"weight_ih{end}")).T
        if feed:
            found["decoder/feed/kernel"], kernel = kernel[UNITS:], kernel[:UNITS]
        found[f"{path}/kernel"] = kernel
        found[f"{path}/recurrent_kernel"] = of(getattr(module, f"weight_hh{end}")).T
        bias = of(getattr(module, f"bias_ih{end}"))
        if not gradients:
            one_forget_gate = np.repeat([0.0, 1.0, 0.0, 0.0], len(bias) // 4)
            bias = bias + of(getattr(module, f"bias_hh{end}")) - one_forget_gate
        found[f"{path}/bias"] = bias

    for side in ("target",) if model.tied else ("source", "target"):
        scale = UNITS**0.5 if gradients else UNITS**-0.5
        found[f"{side}_embedding/table"] = of(getattr(model, side).weight) * scale
    if model.kind == "gnmt":
        lstm("encoder/backward_0", model.encoder[0], "_l0_reverse")
    by_layer = model.kind in ("gnmt", "interleaved")
    for i in range(model.layers):
        stacks = [model.encoder[i]] if by_layer else list(model.encoder)
        for name, stack in zip(("layer", "backward"), stacks, strict=False):
            lstm(f"encoder/{name}_{i}", stack, "_l0" if by_layer else f"_l{i}")
        lstm(f"decoder/layer_{i}", model.decoder[i], "", model.fed and i == 0)
    names = {"dot": (), "general": ("keys",)}.get(model.score, ("query", "keys"))
    for name in names if model.kind in ("gnmt", "parser") else (*names, "combined"):
        found[f"decoder/attention/{name}/kernel"] = of(getattr(model, name).weight).T
    if "query" in names:
        found["decoder/attention/vector"] = of(model.vector)[:, None]
    if model.score == "normed_additive":
        found |= {f"decoder/attention/{name}": of(getattr(model, name)) for name in ("gain", "bias")}
    if not model.tied:
        found["softmax/table"] = of(model.output.weight)
    return found if model.output.bias is None else found | {"softmax_bias": of(model.output.bias)}


def main() -> None:
    """Writes the golden file beside this script."""
    torch.manual_seed(1)
    source, target = torch.tensor(SOURCE), torch.tensor(TARGET)
    arrays: dict[str, Any] = {"source": np.array(SOURCE, np.int32), "target": np.array(TARGET, np.int32)}
    for name, case in CASES.items():
        model = Model(**case).double()
        for weight in model.parameters():
            weight.data.uniform_(-1.5, 1.5)
        for side in () if model.tied else (model.source, model.target):
            side.weight.data[0] = 0
        logits, weights = model(source, target)
        nn.functional.cross_entropy(logits.transpose(1, 2), target, ignore_index=0, reduction="sum").backward()
        arrays[f"{name}/logits"], arrays[f"{name}/attention"] = logits.detach().numpy(), weights.detach().numpy()
        for kind, values in (("weights", ours(model, False)), ("gradients", ours(model, True))):
            arrays |= {f"{name}/{kind}/{path}": value.astype(np.float32) for path, value in values.items()}
    np.savez_compressed(Path(__file__).with_suffix(".npz"), **arrays)


if __name__ == "__main__":
    main()
