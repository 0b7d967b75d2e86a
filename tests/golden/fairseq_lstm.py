"""Golden numbers of fairseq's LSTMModel, for `rnn`: writes fairseq_lstm.npz, which tests/models/test_golden.py reads.

    fairseq/bin/python tests/golden/fairseq_lstm.py fairseq/fairseq-0.12.2

fairseq_convs2s.py says how to make the environment. The computation is fairseq 0.12.2's own code on torch 2.13.0:
LSTMModel.build_model, LSTMEncoder, LSTMDecoder and AttentionLayer, which is our wiring "top" with the score "general"
and input feeding. The cases are fairseq's own recipes with small sizes: "luong" is lstm_luong_wmt_en_de with 2 layers,
"wiseman" lstm_wiseman_iwslt_de_en, which has one. It runs in float64 (except attention scores, which fairseq makes
float32), with random weights and without dropout. Sources have their padding on the left, as in fairseq. Weights are
stored under the names of our checkpoints, and so are the gradients of the sum of all logits, each times a fixed number.
These differences are handled as follows:

    start         fairseq's targets begin with the end symbol, ours with a zero vector: here they begin with padding,
                  whose vector is zeros in fairseq
    forget gate   ours adds 1 to its input: 1 is subtracted from the stored bias
    biases        torch has two for each gate: their sum is stored. Its gradient equals that of either one
    embeddings    ours multiplies them by sqrt(units): they are stored divided by it, their gradients multiplied by it
    score         fairseq multiplies the query, (W q) . m; ours multiplies the memory, q . (U m). The results are the
                  same, since U m = m W for a row m

Not compared, as ours cannot do the same: fairseq's option --encoder-bidirectional, where each layer reads both
directions of the one below and the states are projected (our "bi" has two separate stacks, and no projection);
vectors of different sizes (--decoder-out-embed-dim); one table for target and softmax, which fairseq does not multiply
by sqrt(units) where it is the target's; and dropout, of the symbols' vectors in fairseq's luong (and in others of the
outputs of layers and attention), of the inputs of all layers in ours.
"""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq_convs2s import END, EXTRA, PAD, SOURCE, SOURCE_SIZE, TARGET, TARGET_SIZE, Dictionary, without_packages

UNITS, PUBLISHED_SIZE = 8, 50_000
CASES = {"luong": ("lstm_luong_wmt_en_de", 2), "wiseman": ("lstm_wiseman_iwslt_de_en", 1)}  # recipe, layers
SIZES = ("encoder_embed_dim", "decoder_embed_dim", "decoder_out_embed_dim")


def make_model(lstm: Any, recipe: str, sizes: tuple[int, int], **changes: Any) -> torch.nn.ModuleDict:
    """The encoder and the decoder of one of fairseq's recipes, built by its `build_model`.

    Args:
        sizes: of the source vocabulary and of the target vocabulary.
        changes: to the recipe.
    """
    args = types.SimpleNamespace(criterion="cross_entropy", **changes)
    getattr(lstm, recipe)(args)
    task = types.SimpleNamespace(source_dictionary=Dictionary(sizes[0]), target_dictionary=Dictionary(sizes[1]))

    def parts(encoder: torch.nn.Module, decoder: torch.nn.Module) -> torch.nn.ModuleDict:
        return torch.nn.ModuleDict({"encoder": encoder, "decoder": decoder})

    return lstm.LSTMModel.build_model.__func__(parts, args, task)


def randomise(model: torch.nn.ModuleDict) -> None:
    """Randomises all weights, in float64; the vector of padding stays zeros."""
    for weight in model.parameters():
        weight.data.uniform_(-1.5, 1.5)
    for part in model.values():
        part.embed_tokens.weight.data[PAD] = 0
    model.double().eval()


def encode(model: torch.nn.ModuleDict, rows: list[list[int]]) -> Any:
    """What fairseq's encoder returns, given the rows with their padding on the left."""
    left = [[symbol for symbol in row if symbol == PAD] + [symbol for symbol in row if symbol != PAD] for row in rows]
    ids = torch.tensor(left)
    return model["encoder"](ids, ids.ne(PAD).sum(1), enforce_sorted=False)


def greedy(model: torch.nn.ModuleDict, source: list[int]) -> list[int]:
    """The most probable symbol at each step, with incremental state, to the end symbol or the longest length."""
    symbols = [symbol for symbol in source if symbol != PAD]
    encoded = encode(model, [symbols])
    found, state = [PAD], {}
    while found[-1] != END and len(found) <= len(symbols) + EXTRA:
        logits, _ = model["decoder"](torch.tensor([found]), encoded, incremental_state=state)
        found.append(1 + int(logits[0, -1, 1:].argmax()))  # padding is no output
    return found[1:]


def ours(model: torch.nn.ModuleDict, gradients: bool) -> dict[str, np.ndarray]:
    """The weights, or their gradients, by their names in our checkpoints."""
    parameters = dict(model.named_parameters())
    theirs = {path: (w.grad if gradients else w.detach()).numpy() for path, w in parameters.items()}
    found = {"softmax/table": theirs.pop("decoder.fc_out.weight"), "softmax_bias": theirs.pop("decoder.fc_out.bias")}
    for side, part in (("source", "encoder"), ("target", "decoder")):
        table = theirs.pop(f"{part}.embed_tokens.weight")
        found[f"{side}_embedding/table"] = table * UNITS ** (0.5 if gradients else -0.5)
        for i in range(len(model["decoder"].layers)):
            start, end = ("encoder.lstm.", f"_l{i}") if part == "encoder" else (f"decoder.layers.{i}.", "")
            path, kernel = f"{part}/layer_{i}", theirs.pop(f"{start}weight_ih{end}").T
            if part == "decoder" and i == 0:  # the input is [symbol; attentional vector]
                found["decoder/feed/kernel"], kernel = kernel[UNITS:], kernel[:UNITS]
            found[f"{path}/kernel"] = kernel
            found[f"{path}/recurrent_kernel"] = theirs.pop(f"{start}weight_hh{end}").T
            bias, other = (theirs.pop(f"{start}bias_{name}{end}") for name in ("ih", "hh"))
            found[f"{path}/bias"] = bias if gradients else bias + other - np.repeat([0.0, 1.0, 0.0, 0.0], UNITS)
    found["decoder/attention/keys/kernel"] = theirs.pop("decoder.attention.input_proj.weight")
    found["decoder/attention/combined/kernel"] = theirs.pop("decoder.attention.output_proj.weight").T
    if theirs:
        raise SystemExit(f"not stored: {', '.join(theirs)}")
    return found


def main() -> None:
    """Writes the golden file beside this script."""
    lstm = without_packages(Path(sys.argv[1]), "lstm")
    torch.manual_seed(3)
    target = torch.tensor(TARGET)
    arrays: dict[str, Any] = {"source": np.array(SOURCE, np.int32), "target": np.array(TARGET, np.int32)}
    factors = torch.randn(*target.shape, TARGET_SIZE) * target.ne(PAD)[:, :, None]
    arrays["factors"] = factors.numpy()
    for name, (recipe, layers) in CASES.items():
        sizes = {**dict.fromkeys(SIZES, UNITS), "encoder_layers": layers, "decoder_layers": layers}
        model = make_model(lstm, recipe, (SOURCE_SIZE, TARGET_SIZE), **sizes)
        randomise(model)
        logits, weights = model["decoder"](torch.nn.functional.pad(target[:, :-1], (1, 0)), encode(model, SOURCE))
        (logits * factors).sum().backward()  # the gradients of this sum are stored
        with torch.no_grad():
            found = [greedy(model, row) for row in SOURCE]
        longest = len(SOURCE[0]) + EXTRA
        arrays[f"{name}/logits"], arrays[f"{name}/attention"] = logits.detach().numpy(), weights.detach().numpy()
        arrays[f"{name}/greedy"] = np.array([row + [0] * (longest - len(row)) for row in found], np.int32)
        for kind, gradients in (("weights", False), ("gradients", True)):
            for path, array in ours(model, gradients).items():
                arrays[f"{name}/{kind}/{path}"] = array.astype(np.float32)
    with torch.device("meta"):  # weights are only shapes
        model = make_model(lstm, "lstm_luong_wmt_en_de", (PUBLISHED_SIZE, PUBLISHED_SIZE))
    arrays["parameters"] = np.array(sum(weight.numel() for weight in model.parameters()), np.int64)
    np.savez_compressed(Path(__file__).with_suffix(".npz"), **arrays)


if __name__ == "__main__":
    main()
