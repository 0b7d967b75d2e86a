"""Writes tests/golden/huggingface/NAME: MarianMT models of random weights, and what transformers computes with them.

Needs transformers 4.57.6, torch and safetensors, not this package:

    PYTHON_OF_TRANSFORMERS tests/golden/huggingface.py FOLDER [MARIAN_FOLDER]

outputs.npz holds ids of sources and targets, as vocab.json has them, and the logits of each target's next piece. With
the folder of tests/golden/marian/toy, it also writes its weights as MarianMT, toy, and in outputs.json the best output
of a beam of four, and its score, for each line of test.pieces. The SentencePiece models are those of that folder.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from transformers import MarianConfig, MarianMTModel

PIECES = 40
MODELS = {
    "tied": {"activation_function": "swish"},
    "untied": {"activation_function": "gelu", "tie_word_embeddings": False},
    "two_tables": {"activation_function": "relu", "share_encoder_decoder_embeddings": False},
    "all_apart": {
        "activation_function": "silu",
        "share_encoder_decoder_embeddings": False,
        "tie_word_embeddings": False,
    },
}


def main() -> None:
    for name, options in MODELS.items():
        write(Path(sys.argv[1], name), options)
    if len(sys.argv) > 2:
        search(Path(sys.argv[1], "toy"), Path(sys.argv[2]))


def make(**options: object) -> MarianMTModel:
    sizes = {"encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    sizes |= {"d_model": 16, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "eos_token_id": 0}
    config = MarianConfig(**{"scale_embedding": True, "static_position_embeddings": True, **sizes, **options})
    return MarianMTModel(config).eval()


def write(folder: Path, options: dict[str, object]) -> None:
    torch.manual_seed(1)
    pad = PIECES - 1
    model = make(vocab_size=PIECES, pad_token_id=pad, decoder_start_token_id=pad, num_beams=4, **options)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "embed_positions" not in name:
                weight.copy_(0.3 * torch.randn_like(weight) + ("layer_norm.weight" in name))
                if "shared" in name or "decoder.embed" in name:
                    weight[pad] = 0 if options["activation_function"] == "swish" else weight[pad]
        model.final_logits_bias.copy_(0.5 * torch.randn_like(model.final_logits_bias))
    model.save_pretrained(folder)
    write_json(
        folder / "vocab.json",
        dict(zip(["</s>", "<unk>", *map(str, range(2, pad)), "<pad>"], range(PIECES), strict=True)),
    )
    rng = np.random.default_rng(1)
    source, target = rng.integers(2, PIECES - 1, (4, 40)), rng.integers(2, pad, (4, 30))
    source[:, -1] = target[:, -1] = 0
    source[1, 8] = target[2, 5] = 0
    mask = np.ones_like(source)
    mask[1, 9:] = 0
    source[1, 9:], target[2, 6:] = PIECES - 1, pad
    start = np.full((4, 1), pad)
    with torch.no_grad():
        logits = model(
            input_ids=torch.tensor(source),
            attention_mask=torch.tensor(mask),
            decoder_input_ids=torch.tensor(np.concatenate([start, target[:, :-1]], 1)),
        ).logits.numpy()
    np.savez_compressed(folder / "outputs.npz", source=source, target=target, logits=logits)


def write_json(path: Path, values: object) -> None:
    path.write_text(json.dumps(values, ensure_ascii=False, indent=0), "utf-8")


def search(path: Path, folder: Path) -> None:
    pieces = {}
    for line in (folder / "opus.spm.vocab.yml").read_text("utf-8").splitlines():
        piece, i = line.rsplit(": ", 1)
        pieces[piece[1:-1].replace('\\"', '"').replace("\\\\", "\\")] = int(i)
    arrays, pad = np.load(folder / "opus.npz"), len(pieces)
    sizes = {"encoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "d_model": 64}
    sizes |= {"encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "vocab_size": pad + 1, "pad_token_id": pad}
    model = make(**sizes, decoder_start_token_id=pad, activation_function="swish", bad_words_ids=[[pad]])
    found = {"model.shared.weight": np.pad(arrays["Wemb"], ((0, 1), (0, 0)))}
    found["final_logits_bias"] = np.pad(arrays["decoder_ff_logit_out_b"], ((0, 0), (0, 1)))
    parts = {"self_attn": "self", "encoder_attn": "context"}
    for name in model.state_dict():
        _, stack, _, layer, *rest = [*name.split("."), "", "", ""]
        if "layers" not in name:
            continue
        there, kind = f"{stack}_l{int(layer) + 1}_", rest[1]
        if rest[0] in parts:
            there += f"{parts[rest[0]]}_{'W' if rest[2] == 'weight' else 'b'}{rest[1][0]}"
            kind = rest[2]
        elif rest[0].startswith("fc"):
            there += f"ffn_{'W' if kind == 'weight' else 'b'}{rest[0][-1]}"
        else:
            part = "ffn_ffn" if rest[0].startswith("final") else f"{parts[rest[0].removesuffix('_layer_norm')]}_Wo"
            there += f"{part}_ln_{'scale' if kind == 'weight' else 'bias'}"
        array = arrays[there]
        found[name] = array[0] if len(array) == 1 else array.T
    missing = model.load_state_dict({name: torch.tensor(array) for name, array in found.items()}, strict=False)
    assert not missing.unexpected_keys
    assert all("embed" in name or "lm_head" in name for name in missing.missing_keys)
    model.tie_weights()
    model.generation_config.num_beams = 4
    model.save_pretrained(path)
    write_json(path / "vocab.json", pieces | {"<pad>": pad})
    names, outputs = {i: piece for piece, i in pieces.items()}, []
    for line in (folder / "test.pieces").read_text("utf-8").splitlines():
        ids = torch.tensor([[pieces.get(piece, 1) for piece in line.split()] + [0]])
        row = model.generate(ids, num_beams=4, max_new_tokens=80, return_dict_in_generate=True, output_scores=True)
        best = [names[int(i)] for i in row.sequences[0] if int(i) not in (0, pad)]
        outputs.append([" ".join(best), float(row.sequences_scores[0])])
    write_json(path / "outputs.json", outputs)


if __name__ == "__main__":
    main()
