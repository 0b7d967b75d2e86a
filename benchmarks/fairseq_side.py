"""fairseq's side of `fairseq_equality.py`, which starts it and says how to set it up: Python 3.8, fairseq 0.12.2.

    python fairseq_side.py FOLDER

FOLDER/job.json says what to do, FOLDER/batches.npz has the batches. Weights and results are .npz files in FOLDER, too.
Everything computed here is fairseq's own: TransformerModel, label_smoothed_nll_loss, Adam, the inverse_sqrt schedule.
"""

from __future__ import annotations

import argparse
import json
import sys
import types
from pathlib import Path

import numpy as np
import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from fairseq.models.transformer import TransformerModel
from fairseq.optim import FairseqOptimizer
from fairseq.optim.adam import Adam
from fairseq.optim.lr_scheduler.inverse_square_root_schedule import InverseSquareRootSchedule

PAD, END = 0, 1


class Dictionary:
    """The part of fairseq's Dictionary that a model uses, with our ids."""

    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __eq__(self, other):
        return self.size == other.size

    def pad(self):
        return PAD

    def eos(self):
        return END


class StartsWithZeros(torch.nn.Module):
    """The decoder's embedding, with the zero vector in front instead of fairseq's vector of the end symbol."""

    def __init__(self, embedding):
        super().__init__()
        self.inner, self.padding_idx = [embedding], embedding.padding_idx  # in a list: its weights are the encoder's

    def forward(self, ids):
        vectors = self.inner[0](ids)
        return torch.cat([torch.zeros_like(vectors[:, :1]), vectors[:, 1:]], 1)


def make_model(job):
    """fairseq's model with its own initial weights, changed as job["as_ours"] says."""
    torch.manual_seed(job["seed"])
    args = argparse.Namespace(
        arch="transformer",
        share_all_embeddings=True,
        dropout=job["dropout"],
        max_source_positions=1024,
        max_target_positions=1024,
        **{
            side + name: job[ours]
            for side in ("encoder_", "decoder_")
            for name, ours in (
                ("embed_dim", "d_model"),
                ("ffn_embed_dim", "d_ff"),
                ("layers", "num_layers"),
                ("attention_heads", "num_heads"),
            )
        },
    )
    dictionary = Dictionary(job["vocab_size"])
    task = types.SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)
    from fairseq.models import ARCH_CONFIG_REGISTRY

    ARCH_CONFIG_REGISTRY["transformer"](args)
    model = TransformerModel.build_model(args, task)
    if "positions" in job["as_ours"]:
        table = torch.from_numpy(np.load(Path(job["folder"]) / "positions.npy"))
        shifted = torch.cat([torch.zeros(PAD + 1, table.shape[1]), table])  # fairseq counts from PAD + 1
        model.encoder.embed_positions.weights = model.decoder.embed_positions.weights = shifted
    if "start" in job["as_ours"]:
        model.decoder.embed_tokens = StartsWithZeros(model.encoder.embed_tokens)
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm) and "norm_epsilon" in job["as_ours"]:
            module.eps = 1e-6
    if "biases" in job["as_ours"]:
        for name, parameter in model.named_parameters():
            if name.endswith("_proj.bias"):
                parameter.data.zero_()
                parameter.requires_grad_(False)
    return model


def loss_of(model, batch, smoothing):
    """Sum of fairseq's label-smoothed loss over real target tokens, divided by their number; and the logits."""
    source, target = (torch.from_numpy(batch[side].astype(np.int64)) for side in ("source", "target"))
    previous = torch.cat([torch.full_like(target[:, :1], END), target[:, :-1]], 1)
    lengths = source.ne(PAD).sum(1)
    logits, _ = model(source, lengths, previous)
    log_probabilities = torch.log_softmax(logits, -1).view(-1, logits.shape[-1])
    loss, _ = label_smoothed_nll_loss(log_probabilities, target.view(-1), smoothing, ignore_index=PAD)
    return loss / target.ne(PAD).sum(), logits


def batches(folder):
    """The batches, in order."""
    arrays = np.load(str(folder / "batches.npz"))
    for i in range(len(arrays.files) // 2):
        yield {side: arrays[f"{side}_{i}"] for side in ("source", "target")}


def named(model):
    """Weights by name, each once."""
    return dict(model.named_parameters())


def load(model, folder):
    """Loads the weights of weights.npz; weights that are not in it stay as they are."""
    arrays = np.load(str(folder / "weights.npz"))
    for name, parameter in named(model).items():
        if name in arrays.files:
            parameter.data.copy_(torch.from_numpy(arrays[name]))


def widen(model):
    """Makes it compute in float64, from the same float32 weights."""
    model.double()
    for side in (model.encoder, model.decoder):
        side.embed_positions.weights = side.embed_positions.weights.double()


def gradients(job, folder):
    """Logits, loss and gradients of the first batch, in float32 and float64."""
    found = {}
    for kind in ("float32", "float64"):
        model = make_model(job)
        load(model, folder)
        model.eval()
        if kind == "float64":
            widen(model)
        loss, logits = loss_of(model, next(batches(folder)), job["label_smoothing"])
        loss.backward()
        found[kind + ":loss"], found[kind + ":logits"] = loss.detach().numpy(), logits.detach().numpy()
        for name, parameter in named(model).items():
            if parameter.grad is not None:
                found[f"{kind}:{name}"] = parameter.grad.numpy()
    np.savez(str(folder / "gradients.npz"), **found)


class Rate(FairseqOptimizer):
    """Holds the learning rate that fairseq's schedule sets."""

    def __init__(self):
        super().__init__(None)

    def set_lr(self, value):
        self.value = value


def train(job, folder):
    """The loss of each update; the learning rates are ours where job["as_ours"] has "schedule"."""
    model = make_model(job)
    if job["load"]:
        load(model, folder)
    if job["kind"] == "float64":
        widen(model)
    model.train()
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = Adam(parameters, lr=0.0, betas=(job["adam_beta1"], job["adam_beta2"]), eps=job["adam_epsilon"])
    config = types.SimpleNamespace(lr=[job["peak"]], warmup_updates=job["warmup_steps"], warmup_init_lr=1e-7)
    rate = Rate()
    schedule = InverseSquareRootSchedule(config, rate)
    losses = []
    for i, batch in enumerate(batches(folder)):
        schedule.step_update(i)  # as fairseq's trainer: the number of updates made before
        optimizer.param_groups[0]["lr"] = job["rates"][i] if "schedule" in job["as_ours"] else rate.value
        optimizer.zero_grad()
        loss, _ = loss_of(model, batch, job["label_smoothing"])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    np.save(str(folder / "{}.npy".format(job["kind"])), np.array(losses))


def main():
    """Does the job of the folder."""
    folder = Path(sys.argv[1])
    job = json.loads((folder / "job.json").read_text())
    torch.set_num_threads(job["threads"])
    if job["what"] == "weights":
        arrays = {name: parameter.detach().numpy() for name, parameter in named(make_model(job)).items()}
        np.savez(str(folder / "weights.npz"), **arrays)
    else:
        {"gradients": gradients, "train": train}[job["what"]](job, folder)


if __name__ == "__main__":
    main()
