"""Golden outputs and gradients of `moe` and `transformer_moe`, by a second implementation: writes torch_moe.npz.

    python3.11 -m venv torch
    torch/bin/pip install torch==2.14.1 numpy==2.4.6
    torch/bin/python tests/golden/torch_moe.py

tests/models/test_golden.py reads it. This is a second implementation of ours, from the equations, with torch's modules:
nn.LSTM with projections, nn.MultiheadAttention, nn.LayerNorm, nn.Linear, nn.Embedding and autograd, in float64, with
random weights and without dropout. Each pair of sentences is computed alone, so nothing here knows of padding. "lstm"
is appendix E of Shazeer et al. (2017) with flat mixtures; what it leaves open is as `models/moe_stacks.py` says. "post"
and "pre" are section 3 of "Attention Is All You Need", normalised after or before sub-layers, with experts in every
second layer.

All experts compute each position; those that are not asked have a gate of 0. Gates and load are equations (3) to (5),
(8) and (9) of Shazeer et al. as written there, but noise has a standard deviation of at least 0.01, as in
tensor2tensor. The loss is the cross entropy per target symbol with label smoothing of 0.1, and of each mixture 0.3
CV(importance)^2 + 0.3 CV(load)^2 over all symbols. The file has the logits without noise; and noise, the loss and its
gradients with noise. The weights are stored under the names of our checkpoints. These differences are handled as
follows:

    forget gate   ours adds 1 to its input: 1 is subtracted from the stored bias
    biases        torch's LSTM has two for each gate; the second is 0
    embeddings    are multiplied by sqrt(d_model) here, too; symbol 0, which begins a target, is the zero vector
    context       the decoder's bottom layer reads it through columns of its input matrix; ours stores them as
                  decoder/feed
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

D, CELLS, FF, HEADS, SIZE = 4, 6, 5, 2, 13
SMOOTHING, BALANCE = 0.1, 0.3
FORGET_GATE = torch.tensor([0.0, 1.0, 0.0, 0.0]).repeat_interleave(CELLS)
SOURCE = [[5, 9, 3, 12, 7, 1], [7, 7, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0], [4, 6, 8, 10, 1, 0]]
TARGET = [[4, 8, 2, 1, 0, 0, 0], [6, 5, 4, 3, 9, 10, 1], [1, 0, 0, 0, 0, 0, 0], [7, 12, 11, 1, 0, 0, 0]]


class Experts(nn.Module):
    """Section 2: sum over i of G(x)_i E_i(x), [T, D] -> [T, D].

    Attributes:
        noise: z [T, n], or None; set before each call.
        gates, load: lists, to which each call adds G(x) and P(x), [T, n].
    """

    def __init__(self, n: int, k: int) -> None:
        super().__init__()
        self.n, self.k, self.noise, self.gates, self.load = n, k, None, [], []
        self.gate, self.noise_gate = (nn.Linear(D, n, bias=False) for _ in range(2))
        self.inner = nn.ModuleList([nn.Linear(D, FF, bias=False) for _ in range(n)])
        self.outer = nn.ModuleList([nn.Linear(FF, D, bias=False) for _ in range(n)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        clean = self.gate(x)
        deviation = functional.softplus(self.noise_gate(x)) + 0.01
        noisy = clean if self.noise is None else clean + self.noise * deviation  # (4)
        kth = noisy.sort(-1, descending=True).values[:, self.k - 1 : self.k]
        gates = noisy.masked_fill(noisy < kth, -torch.inf).softmax(-1)  # (3), (5)
        self.gates.append(gates)
        others = [torch.cat([noisy[:, :i], noisy[:, i + 1 :]], -1) for i in range(self.n)]
        kth_excluding = torch.stack([each.sort(-1, descending=True).values[:, self.k - 1] for each in others], -1)
        self.load.append(torch.distributions.Normal(0.0, 1.0).cdf((clean - kth_excluding) / deviation))  # (9)
        outputs = [outer(torch.relu(inner(x))) for inner, outer in zip(self.inner, self.outer, strict=True)]
        return torch.einsum("tn,ntd->td", gates, torch.stack(outputs))


class Lstms(nn.Module):
    """Appendix E: LSTM layers, experts, attention; everything but the softmax has a residual connection."""

    def __init__(self, n: int, k: int) -> None:
        super().__init__()
        self.table = nn.Embedding(SIZE, D)
        self.encoder = nn.ModuleList([nn.LSTM(D, CELLS, proj_size=D) for _ in range(3)])
        self.decoder = nn.ModuleList([nn.LSTM(size, CELLS, proj_size=D) for size in (2 * D, D)])
        self.query, self.keys = (nn.Linear(D, D, bias=False) for _ in range(2))
        self.vector = nn.Parameter(torch.zeros(D))
        self.experts = nn.ModuleList([Experts(n, k) for _ in range(2)])

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        x, ends = self.table(source) * D**0.5, []
        for i, lstm in enumerate(self.encoder):
            y, end = lstm(x)
            x = x + y
            ends.append(end)
            if i == 1:
                x = x + torch.sigmoid(self.experts[0](x))
        memory = x
        inputs = functional.pad(self.table(target[:-1]) * D**0.5, (0, 0, 1, 0))
        context, state, outputs = torch.zeros(D, dtype=memory.dtype), ends[1], []
        for vector in inputs:
            (y,), state = self.decoder[0](torch.cat([vector, context])[None], state)
            score = (torch.tanh(self.query(y)) * torch.tanh(self.keys(memory))) @ self.vector
            context = score.softmax(0) @ memory
            outputs.append(vector + y)
        x = torch.stack(outputs)
        x = x + torch.sigmoid(self.experts[1](x))
        x = x + self.decoder[1](x, ends[2])[0]
        return functional.linear(x, self.table.weight)


class Layer(nn.Module):
    """A layer of the Transformer, of the decoder if it `reads` a memory."""

    def __init__(self, n: int, k: int, pre: bool, reads: bool, experts: bool) -> None:
        super().__init__()
        self.pre = pre
        names = ["self", "memory", "feed_forward"] if reads else ["attention", "feed_forward"]
        self.norms = nn.ModuleDict({name: nn.LayerNorm(D, eps=1e-6) for name in names})
        self.attention = nn.ModuleDict({name: nn.MultiheadAttention(D, HEADS, bias=False) for name in names[:-1]})
        self.network = Experts(n, k) if experts else nn.Sequential(nn.Linear(D, FF), nn.ReLU(), nn.Linear(FF, D))

    def forward(self, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        for name, attention in self.attention.items():
            past = nn.Transformer.generate_square_subsequent_mask(len(x), dtype=x.dtype) if name == "self" else None
            y = self._before(name, x)
            read = memory if name == "memory" else y
            x = self._after(name, x + attention(y, read, read, attn_mask=past)[0])
        return self._after("feed_forward", x + self.network(self._before("feed_forward", x)))

    def _before(self, name: str, x: torch.Tensor) -> torch.Tensor:
        return self.norms[name](x) if self.pre else x

    def _after(self, name: str, x: torch.Tensor) -> torch.Tensor:
        return x if self.pre else self.norms[name](x)


class Transformer(nn.Module):
    """Section 3 of the Transformer's paper; the second layer, the fourth, ... have experts."""

    def __init__(self, n: int, k: int, layers: int, pre: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(SIZE, D)
        self.encoder, self.decoder = (
            nn.ModuleList([Layer(n, k, pre, reads, i % 2 == 1) for i in range(layers)]) for reads in (False, True)
        )
        self.ends = nn.ModuleList([nn.LayerNorm(D, eps=1e-6) if pre else nn.Identity() for _ in range(2)])
        self.experts = [layer.network for side in (self.encoder, self.decoder) for layer in side[1::2]]

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        x = self.table(source) * D**0.5 + _positions(len(source))
        for layer in self.encoder:
            x = layer(x, x)
        memory = self.ends[0](x)
        x = functional.pad(self.table(target[:-1]) * D**0.5, (0, 0, 1, 0)) + _positions(len(target))
        for layer in self.decoder:
            x = layer(x, memory)
        return functional.linear(self.ends[1](x), self.table.weight)


def _positions(length: int) -> torch.Tensor:
    """Section 3.5."""
    exponents = torch.arange(0, D, 2, dtype=torch.float64) / D
    angles = torch.arange(length)[:, None] / 10000**exponents
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


def ours(model: Any, gradients: bool) -> dict[str, np.ndarray]:
    """The weights, or their gradients, by their names in our checkpoints."""
    found: dict[str, np.ndarray] = {}

    def of(weight: Any) -> np.ndarray:
        return (weight.grad if gradients else weight.detach()).numpy()

    def experts(path: str, module: Experts) -> None:
        found[f"{path}/gating/kernel"], found[f"{path}/gating/noise_kernel"] = (
            of(each.weight).T for each in (module.gate, module.noise_gate)
        )
        for name, matrices in (("kernels_1", module.inner), ("kernels_2", module.outer)):
            found[f"{path}/{name}"] = np.stack([of(each.weight).T for each in matrices])

    def lstm(path: str, module: nn.LSTM) -> None:
        kernel, bias = of(module.weight_ih_l0).T, of(module.bias_ih_l0)
        if len(kernel) > D:
            found["decoder/feed/kernel"], kernel = kernel[D:], kernel[:D]
        found[f"{path}/kernel"], found[f"{path}/recurrent_kernel"] = kernel, of(module.weight_hh_l0).T
        found[f"{path}/bias"] = bias if gradients else bias - FORGET_GATE.numpy()
        found[f"{path}/projection"] = of(module.weight_hr_l0).T

    def layer(path: str, module: Layer) -> None:
        for name, norm in module.norms.items():
            found[f"{path}/around_{name}/layer_norm/gamma"] = of(norm.weight)
            found[f"{path}/around_{name}/layer_norm/beta"] = of(norm.bias)
        for name, attention in module.attention.items():
            kind = "memory_attention" if name == "memory" else "self_attention"
            matrices = [*np.split(of(attention.in_proj_weight), 3), of(attention.out_proj.weight)]
            for part, matrix in zip(("query", "key", "value", "output"), matrices, strict=True):
                found[f"{path}/around_{name}/{kind}/{part}"] = matrix.T
        if isinstance(module.network, Experts):
            experts(f"{path}/around_feed_forward/experts", module.network)
            return
        for number, linear in (("1", module.network[0]), ("2", module.network[2])):
            found[f"{path}/around_feed_forward/feed_forward/kernel_{number}"] = of(linear.weight).T
            found[f"{path}/around_feed_forward/feed_forward/bias_{number}"] = of(linear.bias)

    found["target_embedding/table"] = of(model.table.weight)
    for number, side in enumerate(("encoder", "decoder")):
        for i, each in enumerate(getattr(model, side)):
            (layer if isinstance(each, Layer) else lstm)(f"{side}/layer_{i}", each)
        if isinstance(model, Lstms):
            experts(f"{side}/experts", model.experts[number])
        elif isinstance(model.ends[number], nn.LayerNorm):
            found[f"{side}/final_norm/gamma"] = of(model.ends[number].weight)
            found[f"{side}/final_norm/beta"] = of(model.ends[number].bias)
    if isinstance(model, Lstms):
        for name in ("query", "keys"):
            found[f"decoder/attention/{name}/kernel"] = of(getattr(model, name).weight).T
        found["decoder/attention/vector"] = of(model.vector)[:, None]
    return found


def randomise(model: nn.Module) -> None:
    """Draws all weights, in float32, as they are stored."""
    for name, weight in model.named_parameters():
        fan_in = weight[0].numel() if weight.ndim > 1 else 9
        weight.data = torch.randn(weight.shape) * fan_in**-0.5
        if "bias_hh" in name:
            weight.data.zero_()
        if ("norms" in name or "ends" in name) and name.endswith("weight"):
            weight.data += 1
    model.double()
    for name, weight in model.named_parameters():
        if "bias_ih" in name:
            weight.data += FORGET_GATE


def run(model: Any) -> dict[str, Any]:
    """What is stored of a case."""
    pairs = [[torch.tensor([n for n in side if n]) for side in pair] for pair in zip(SOURCE, TARGET, strict=True)]
    found = {"logits": torch.cat([model(*pair) for pair in pairs]).detach().numpy()}
    half = len(model.experts) // 2  # the first ones read the source
    lengths = [len(SOURCE[0])] * half + [len(TARGET[0])] * half
    noise = [torch.randn(len(pairs), length, each.n) for length, each in zip(lengths, model.experts, strict=True)]
    for each in model.experts:
        each.gates, each.load = [], []
    losses = []
    for row, (source, target) in enumerate(pairs):
        for i, (each, z) in enumerate(zip(model.experts, noise, strict=True)):
            each.noise = z[row, : len(target if i >= half else source)].double()
        logits = model(source, target)
        losses.append(functional.cross_entropy(logits, target, label_smoothing=SMOOTHING, reduction="sum"))
    loss = sum(losses) / sum(len(target) for _, target in pairs)
    for each in model.experts:
        for values in (each.gates, each.load):
            deviation, mean = torch.std_mean(torch.cat(values).sum(0), correction=0)
            loss = loss + BALANCE * (deviation / mean) ** 2  # (7) and (11)
    loss.backward()
    found |= {f"noise_{i}": z.numpy() for i, z in enumerate(noise)} | {"loss": loss.detach().numpy()}
    for kind, values in (("weights", ours(model, False)), ("gradients", ours(model, True))):
        found |= {f"{kind}/{path}": value.astype(np.float32) for path, value in values.items()}
    return found


def main() -> None:
    """Writes the golden file beside this script."""
    torch.manual_seed(1)
    arrays: dict[str, Any] = {"source": np.array(SOURCE, np.int32), "target": np.array(TARGET, np.int32)}
    post, pre = Transformer(4, 2, 4, pre=False), Transformer(4, 2, 2, pre=True)
    models = {"lstm": Lstms(5, 3), "post": post, "pre": pre}
    for name, model in models.items():
        randomise(model)
        arrays |= {f"{name}/{key}": value for key, value in run(model).items()}
    np.savez_compressed(Path(__file__).with_suffix(".npz"), **arrays)


if __name__ == "__main__":
    main()
