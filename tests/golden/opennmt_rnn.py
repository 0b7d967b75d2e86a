"""Outputs and gradients of OpenNMT-py's LSTMs, for `rnn`: writes opennmt_rnn.npz for tests/models/test_golden.py.

    python3.11 -m venv opennmt
    opennmt/bin/pip install torch==2.13.0 numpy
    opennmt/bin/pip install --no-deps OpenNMT-py==3.5.1
    opennmt/bin/python tests/golden/opennmt_rnn.py

The computation is OpenNMT-py's own code: RNNEncoder, InputFeedRNNDecoder, StdRNNDecoder and GlobalAttention, on torch's
LSTM, in float64, with random weights and without dropout. Weights are stored under the names of our checkpoints, and so
are the gradients of the sum of all logits, each times a fixed number. These differences are handled as follows:

    forget gate   ours adds 1 to its input: 1 is subtracted from the stored bias
    biases        torch has two for each gate: their sum is stored. Its gradient equals that of either one
    embeddings    ours multiplies them by sqrt(units): they are stored divided by it, their gradients multiplied by it.
                  Symbol 0, which begins a target, is the zero vector in ours: row 0 is set to zeros here
    softmax       ours is part of the model: its table and bias are those of `generator`, a linear layer
    general       OpenNMT multiplies the query, (W q) . m; ours multiplies the memory, q . (U m). The results are the
                  same, since U m = m W for a row m
    additive      OpenNMT calls it "mlp". Its biases for W q and W_c are set to zeros here. It has no tanh of the
                  attentional vector: one is added after W_c
"""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import torch

UNITS, LAYERS, SOURCE_SIZE, TARGET_SIZE, EXTRA = 8, 2, 13, 11, 6
END = 1
SOURCE = [[5, 9, 3, 12, 7, 1], [7, 7, 1, 0, 0, 0], [2, 1, 0, 0, 0, 0], [4, 6, 8, 10, 1, 0]]
TARGET = [[4, 8, 2, 1, 0, 0, 0], [6, 5, 4, 3, 9, 10, 1], [1, 0, 0, 0, 0, 0, 0], [7, 2, 2, 1, 0, 0, 0]]
CASES = {"general": ("general", True), "additive": ("mlp", True), "no_feeding": ("general", False)}


def without_tokenizers() -> None:
    """Makes OpenNMT's modules importable one by one: its packages import tokenizers that no model needs."""
    found = importlib.util.find_spec("onmt")
    assert found is not None
    root = Path(str(found.origin)).parent
    for name in ("onmt", "onmt.decoders", "onmt.encoders", "onmt.utils"):
        package = types.ModuleType(name)
        package.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = package


def make_model(attention: str, feeding: bool) -> torch.nn.ModuleDict:
    """An encoder, a decoder and a generator with random weights, in float64."""
    from onmt.decoders.decoder import InputFeedRNNDecoder, StdRNNDecoder
    from onmt.encoders.rnn_encoder import RNNEncoder
    from onmt.modules.embeddings import Embeddings

    source, target = (Embeddings(UNITS, size, word_padding_idx=0) for size in (SOURCE_SIZE, TARGET_SIZE))
    decoder = (InputFeedRNNDecoder if feeding else StdRNNDecoder)(
        "LSTM", False, LAYERS, UNITS, attn_type=attention, embeddings=target
    )
    parts = {
        "encoder": RNNEncoder("LSTM", False, LAYERS, UNITS, embeddings=source),
        "decoder": decoder,
        "generator": torch.nn.Linear(UNITS, TARGET_SIZE),
    }
    model = torch.nn.ModuleDict(parts)
    for weight in model.parameters():
        weight.data.uniform_(-3, 3)
    for weight in parts["generator"].parameters():
        weight.data /= 3  # larger logits would show float32's rounding in the fifth digit
    if attention == "mlp":
        for layer in (decoder.attn.linear_query, decoder.attn.linear_out):
            layer.bias.data.zero_()
        decoder.attn.linear_out = torch.nn.Sequential(decoder.attn.linear_out, torch.nn.Tanh())
    for embeddings in (source, target):
        embeddings.word_lut.weight.data[0] = 0
    return model.double().eval()


def begin(model: torch.nn.ModuleDict, source: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Encodes, and puts the decoder before the first symbol; returns the memory [B, S, units] and its lengths [B]."""
    lengths = (source != 0).sum(1)
    memory, states, _ = model["encoder"](source[:, :, None], lengths)
    model["decoder"].init_state(source, memory, states)
    return memory, lengths


def teacher_forced(model: torch.nn.ModuleDict, source: torch.Tensor, target: torch.Tensor) -> tuple[Any, Any]:
    """Logits [B, T, V] and weights of attention [B, T, S]."""
    memory, lengths = begin(model, source)
    shifted = torch.nn.functional.pad(target[:, :-1], (1, 0))
    outputs, attention = model["decoder"](shifted[:, :, None], memory, src_len=lengths)
    weights = attention["std"]
    if model["decoder"].__class__.__name__ == "InputFeedRNNDecoder":
        weights = weights.transpose(0, 1)  # it was [T, B, S]: this decoder stacks its steps
    return model["generator"](outputs), weights


def greedy(model: torch.nn.ModuleDict, source: list[int]) -> list[int]:
    """The most probable symbol at each step of one sentence, to the end symbol or the longest length."""
    ids = torch.tensor([[symbol for symbol in source if symbol]])
    memory, lengths = begin(model, ids)
    found = [0]
    while found[-1] != END and len(found) <= ids.shape[1] + EXTRA:
        outputs, _ = model["decoder"](torch.tensor([[[found[-1]]]]), memory, src_len=lengths, step=len(found) - 1)
        logits = model["generator"](outputs)[0, 0]
        found.append(1 + int(logits[1:].argmax()))  # padding is no output
    return found[1:]


def in_our_names(
    model: torch.nn.ModuleDict, attention: str, feeding: bool, gradients: bool = False
) -> dict[str, np.ndarray]:
    """The weights, or their gradients, by their names in our checkpoints."""
    parameters = dict(model.named_parameters())
    theirs = {path: (w.grad if gradients else w.detach()).numpy() for path, w in parameters.items()}
    ours = {"softmax/table": theirs["generator.weight"], "softmax_bias": theirs["generator.bias"]}
    for side, part in (("source", "encoder"), ("target", "decoder")):
        [table] = (value for path, value in theirs.items() if path.startswith(f"{part}.embeddings."))
        ours[f"{side}_embedding/table"] = table * UNITS ** (0.5 if gradients else -0.5)
    one_forget_gate = np.repeat([0.0, 1.0, 0.0, 0.0], UNITS)
    for side in ("encoder", "decoder"):
        for i in range(LAYERS):
            cells = side == "decoder" and feeding  # LSTMCell, and the input is [symbol; attentional vector]
            start, end = (f"{side}.rnn.layers.{i}.", "") if cells else (f"{side}.rnn.", f"_l{i}")
            kernel = theirs[f"{start}weight_ih{end}"].T
            if cells and i == 0:
                ours["decoder/feed/kernel"] = kernel[UNITS:]
            path = f"{side}/layer_{i}"
            ours[f"{path}/kernel"] = kernel[:UNITS]
            ours[f"{path}/recurrent_kernel"] = theirs[f"{start}weight_hh{end}"].T
            bias = theirs[f"{start}bias_ih{end}"]
            ours[f"{path}/bias"] = bias if gradients else bias + theirs[f"{start}bias_hh{end}"] - one_forget_gate
    start = "decoder.attn."
    if attention == "mlp":
        ours["decoder/attention/keys/kernel"] = theirs[f"{start}linear_context.weight"].T
        ours["decoder/attention/query/kernel"] = theirs[f"{start}linear_query.weight"].T
        ours["decoder/attention/vector"] = theirs[f"{start}v.weight"].T
        ours["decoder/attention/combined/kernel"] = theirs[f"{start}linear_out.0.weight"].T
    else:
        ours["decoder/attention/keys/kernel"] = theirs[f"{start}linear_in.weight"]
        ours["decoder/attention/combined/kernel"] = theirs[f"{start}linear_out.weight"].T
    return ours


def main() -> None:
    """Writes the golden file beside this script."""
    without_tokenizers()
    torch.manual_seed(1)
    source, target = torch.tensor(SOURCE), torch.tensor(TARGET)
    arrays: dict[str, Any] = {"source": np.array(SOURCE, np.int32), "target": np.array(TARGET, np.int32)}
    of_its_own = torch.Generator().manual_seed(2)
    factors = torch.randn(*target.shape, TARGET_SIZE, generator=of_its_own) * target.ne(0)[:, :, None]
    arrays["factors"] = factors.numpy()
    for name, case in CASES.items():
        model = make_model(*case)
        logits, weights = teacher_forced(model, source, target)
        (logits * factors).sum().backward()  # the gradients of this sum are stored
        with torch.no_grad():
            found = [greedy(model, row) for row in SOURCE]
        longest = len(SOURCE[0]) + EXTRA
        arrays[f"{name}/logits"], arrays[f"{name}/attention"] = logits.detach().numpy(), weights.detach().numpy()
        arrays[f"{name}/greedy"] = np.array([row + [0] * (longest - len(row)) for row in found], np.int32)
        for kind, gradients in (("weights", False), ("gradients", True)):
            for path, array in in_our_names(model, *case, gradients).items():
                arrays[f"{name}/{kind}/{path}"] = array.astype(np.float32)
    np.savez_compressed(Path(__file__).with_suffix(".npz"), **arrays)


if __name__ == "__main__":
    main()
