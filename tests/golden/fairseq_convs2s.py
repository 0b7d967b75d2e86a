"""Golden numbers of fairseq's FConvModel, for `convs2s`: writes fairseq_convs2s.npz for tests/models/test_golden.py.

    python3.11 -m venv fairseq
    fairseq/bin/pip install torch==2.13.0 numpy
    fairseq/bin/pip download --no-deps --no-binary :all: --dest fairseq fairseq==0.12.2
    tar xzf fairseq/fairseq-0.12.2.tar.gz -C fairseq
    fairseq/bin/python tests/golden/fairseq_convs2s.py fairseq/fairseq-0.12.2

The computation is fairseq's own code, read from its files: FConvEncoder, FConvDecoder and their modules, on torch's
weight_norm. It runs in float64 (except attention scores, which fairseq makes float32), with random weights and without
dropout. fairseq's packages import modules that do not build for this Python, so `without_packages` imports only those
needed. Weights and gradients are stored under the names of our checkpoints. These differences are handled as follows:

    start         fairseq's targets begin with the end symbol, ours with a zero vector: here they begin with another
                  symbol, whose vector is zeros
    positions     fairseq's begin in the row after padding's: rows from there on are stored
    attention     fairseq returns the mean over the layers: the weights of each layer are caught before that
"""

from __future__ import annotations

import importlib
import re
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

D_MODEL, D_OUT, SOURCE_SIZE, TARGET_SIZE, POSITIONS, EXTRA = 10, 7, 13, 11, 16, 6
PAD, END, START = 0, 1, TARGET_SIZE
CASES: dict[str, tuple[list[tuple[int, int]], list[tuple[int, int]]]] = {  # channels and widths, encoder and decoder
    "one_size": ([(8, 3)] * 2, [(8, 3)] * 2),
    "sizes": ([(8, 3), (12, 4), (6, 1)], [(8, 2), (12, 3), (12, 1), (6, 3)]),
}
SOURCE = [[5, 9, 3, 12, 7, 1], [7, 7, 1, 0, 0, 0], [2, 1, 0, 0, 0, 0], [4, 6, 8, 10, 1, 0]]
TARGET = [[4, 8, 2, 1, 0, 0, 0], [6, 5, 4, 3, 9, 10, 1], [1, 0, 0, 0, 0, 0, 0], [7, 2, 2, 1, 0, 0, 0]]
PUBLISHED = {"fconv_wmt_en_de": 42_000, "fconv_wmt_en_fr": 44_000, "fconv_iwslt_de_en": 10_000}
_PART = re.compile(r"\[\((\d+), (\d+)\)\] \* (\d+)")  # one entry of fairseq's lists of layers


class Dictionary:
    """The part of fairseq's Dictionary that a model needs, with our ids."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def pad(self) -> int:
        return PAD


def without_packages(root: Path, model: str) -> Any:
    """Returns one of fairseq's models/, imported without the other imports of its packages.

    Args:
        model: "fconv" or "lstm".
    """
    for name in ("fairseq", "fairseq.models", "fairseq.modules"):
        package: Any = types.ModuleType(name)
        package.__path__ = [str(root.joinpath(*name.split(".")))]
        sys.modules[name] = package
    models, modules = sys.modules["fairseq.models"], sys.modules["fairseq.modules"]

    def register(*_: Any) -> Any:
        return lambda thing: thing

    vars(models).update(
        FairseqEncoderDecoderModel=object, register_model=register, register_model_architecture=register
    )
    parts = {
        models: "fairseq_encoder.FairseqEncoder fairseq_decoder.FairseqDecoder "
        "fairseq_incremental_decoder.FairseqIncrementalDecoder",
        modules: "fairseq_dropout.FairseqDropout adaptive_softmax.AdaptiveSoftmax beamable_mm.BeamableMM "
        "grad_multiply.GradMultiply learned_positional_embedding.LearnedPositionalEmbedding "
        "conv_tbc.ConvTBC linearized_convolution.LinearizedConvolution",
    }
    for package, names in parts.items():
        for name in names.split():
            file, cls = name.split(".")
            setattr(package, cls, getattr(importlib.import_module(f"{package.__name__}.{file}"), cls))
    return importlib.import_module(f"fairseq.models.{model}")


def make_model(fconv: Any, encoder: Any, decoder: Any, sizes: tuple[int, int, int, int, int]) -> torch.nn.ModuleDict:
    """FConvModel's two parts, built as its `build_model` builds them.

    Args:
        sizes: of the source vocabulary, the target vocabulary, the embeddings, the softmax's input, the positions.
    """
    source, target, d_model, d_out, positions = sizes
    same = {"embed_dim": d_model, "max_positions": positions, "dropout": 0.0}
    parts = {
        "encoder": fconv.FConvEncoder(Dictionary(source), convolutions=encoder, **same),
        "decoder": fconv.FConvDecoder(Dictionary(target), convolutions=decoder, out_embed_dim=d_out, **same),
    }
    parts["encoder"].num_attention_layers = sum(layer is not None for layer in parts["decoder"].attention)
    return torch.nn.ModuleDict(parts)


def randomise(model: torch.nn.ModuleDict) -> None:
    """Randomises gains and biases, in float64, and adds a symbol that begins targets.

    Gains then differ from the lengths of the directions, and biases from zero. Embedding vectors become ten times as
    long; otherwise positions and symbols would hardly matter.
    """
    model.double().eval()
    for name, weight in model.named_parameters():
        if name.endswith("weight_g"):
            weight.data *= torch.empty_like(weight).uniform_(0.5, 1.5)
        elif name.endswith("bias"):
            weight.data.normal_(0, 0.3)
        elif "embed" in name:
            weight.data *= 10
        weight.data = weight.data.float().double()  # rounded as in the file
    decoder = model["decoder"]
    table = torch.cat([decoder.embed_tokens.weight.data, torch.zeros(1, D_MODEL, dtype=torch.float64)])
    decoder.embed_tokens = torch.nn.Embedding.from_pretrained(table, freeze=False, padding_idx=PAD)


def teacher_forced(model: torch.nn.ModuleDict, source: torch.Tensor, target: torch.Tensor) -> tuple[Any, Any]:
    """Logits [B, T, V], and weights of attention [B, L, T, S]."""
    maps: list[torch.Tensor] = []
    hooks = [
        layer.register_forward_hook(lambda _, __, outputs: maps.append(outputs[1].detach().clone()))
        for layer in model["decoder"].attention
    ]
    encoded = model["encoder"](source, source.ne(PAD).sum(1))
    before = torch.cat([torch.full_like(target[:, :1], START), target[:, :-1]], 1)
    logits, _ = model["decoder"](before, encoded)
    for hook in hooks:
        hook.remove()
    return logits, torch.stack(maps, 1)


def greedy(model: torch.nn.ModuleDict, source: list[int]) -> list[int]:
    """The most probable symbol at each step, with incremental state, to the end symbol or the longest length."""
    ids = torch.tensor([[symbol for symbol in source if symbol]])
    encoded = model["encoder"](ids, torch.tensor([ids.shape[1]]))
    found, state = [START], {}
    while found[-1] != END and len(found) <= ids.shape[1] + EXTRA:
        logits, _ = model["decoder"](torch.tensor([found]), encoded, incremental_state=state)
        found.append(1 + int(logits[0, -1, 1:].argmax()))  # padding is no output
    return found[1:]


def our_names(model: torch.nn.ModuleDict) -> dict[str, str]:
    """fairseq's names of modules -> the paths of our layers."""
    names = {"decoder.fc3": "softmax"}
    for side in ("encoder", "decoder"):
        part = model[side]
        names |= {f"{side}.fc1": f"{side}/input", f"{side}.fc2": f"{side}/output"}
        for i, projection in enumerate(part.projections):
            names[f"{side}.convolutions.{i}"] = f"{side}/convolution_{i}/linear"
            if projection is not None:
                names[f"{side}.projections.{i}"] = f"{side}/projection_{i}"
            if side == "decoder":
                names[f"{side}.attention.{i}.in_projection"] = f"{side}/attention_{i}/query"
                names[f"{side}.attention.{i}.out_projection"] = f"{side}/attention_{i}/output"
    return names


def ours(model: torch.nn.ModuleDict, theirs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Weights or gradients by their names in our checkpoints."""
    arrays = {}
    for name, path in our_names(model).items():
        direction, bias = theirs.pop(f"{name}.weight_v"), theirs.pop(f"{name}.bias")
        if direction.ndim == 3:  # [width, inputs, outputs]
            direction = direction.transpose(2, 0, 1).reshape(direction.shape[2], -1)
        arrays |= {f"{path}/direction": direction, f"{path}/bias": bias}
        arrays[f"{path}/gain"] = theirs.pop(f"{name}.weight_g").reshape(-1)
    for side, size in (("encoder", SOURCE_SIZE), ("decoder", TARGET_SIZE)):
        path = {"encoder": "source", "decoder": "target"}[side] + "_embedding"
        arrays[f"{path}/table"] = theirs.pop(f"{side}.embed_tokens.weight")[:size]
        arrays[f"{path}/positions"] = theirs.pop(f"{side}.embed_positions.weight")[PAD + 1 :]
    if theirs:
        raise SystemExit(f"not stored: {', '.join(theirs)}")
    return arrays


def parameters(fconv: Any, arch: str, size: int) -> int:
    """The number of parameters of one of fairseq's own recipes."""
    args = types.SimpleNamespace()
    getattr(fconv, arch)(args)
    parts = [_PART.findall(text) for text in (args.encoder_layers, args.decoder_layers)]
    layers = [[(int(c), int(k)) for c, k, number in side for _ in range(int(number))] for side in parts]
    sizes = (size, size, args.encoder_embed_dim, args.decoder_out_embed_dim, 1024)
    return sum(weight.numel() for weight in make_model(fconv, *layers, sizes).parameters())


def main() -> None:
    """Writes the golden file beside this script."""
    warnings.simplefilter("ignore")  # torch calls this weight_norm old
    fconv = without_packages(Path(sys.argv[1]), "fconv")
    torch.manual_seed(1)
    source, target = torch.tensor(SOURCE), torch.tensor(TARGET)
    arrays: dict[str, Any] = {"source": np.array(SOURCE, np.int32), "target": np.array(TARGET, np.int32)}
    factors = torch.randn(*target.shape, TARGET_SIZE, dtype=torch.float64) * target.ne(PAD)[:, :, None]
    arrays["factors"] = factors.numpy()
    for name, (encoder, decoder) in CASES.items():
        model = make_model(fconv, encoder, decoder, (SOURCE_SIZE, TARGET_SIZE, D_MODEL, D_OUT, POSITIONS))
        randomise(model)
        logits, weights = teacher_forced(model, source, target)
        (logits * factors).sum().backward()  # the gradients of this sum are stored
        with torch.no_grad():
            found = [greedy(model, row) for row in SOURCE]
        longest = len(SOURCE[0]) + EXTRA
        arrays[f"{name}/logits"], arrays[f"{name}/attention"] = logits.detach().numpy(), weights.numpy()
        arrays[f"{name}/greedy"] = np.array([row + [0] * (longest - len(row)) for row in found], np.int32)
        of_model = {"weights": {}, "gradients": {}}
        for path, weight in model.named_parameters():
            of_model["weights"][path] = weight.detach().numpy()
            of_model["gradients"][path] = weight.grad.numpy()
        for kind, theirs in of_model.items():
            for path, array in ours(model, theirs).items():
                arrays[f"{name}/{kind}/{path}"] = array.astype(np.float32 if kind == "weights" else np.float64)
    arrays["parameters"] = np.array([parameters(fconv, *arch) for arch in PUBLISHED.items()], np.int64)
    np.savez_compressed(Path(__file__).with_suffix(".npz"), **arrays)


if __name__ == "__main__":
    main()
