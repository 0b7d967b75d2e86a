"""The recipes of Marian and MarianMT are those of their toolkits."""

from pathlib import Path

import yaml

from t2t_lite import config, registry

_GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "marian" / "transformer_base.yml"
# `Seq2SeqTrainingArguments` of transformers 4.57.6, by its names.
_TRANSFORMERS = {
    "learning_rate": 5e-5,
    "adam_beta1": 0.9,
    "adam_beta2": 0.999,
    "adam_epsilon": 1e-8,
    "max_grad_norm": 1.0,
    "label_smoothing_factor": 0.0,
}


def test_marian_base_is_marians_own() -> None:
    theirs = yaml.safe_load(_GOLDEN.read_text("utf-8"))
    ours = config.to_dict(registry.hparams("marian_base"))
    found = {
        "dim-emb": ours["d_model"],
        "enc-depth": ours["num_layers"],
        "dec-depth": ours["num_layers"],
        "tied-embeddings-all": ours["share_embeddings"],
        "transformer-heads": ours["num_heads"],
        "transformer-dim-ffn": ours["d_ff"],
        "transformer-ffn-activation": ours["activation"],
        "transformer-dropout": ours["dropout"],
        "max-length": ours["max_length"],
        "learn-rate": ours["learning_rate"],
        "lr-warmup": ours["warmup_steps"],
        "lr-decay-inv-sqrt": [ours["warmup_steps"]],
        "label-smoothing": ours["label_smoothing"],
        "clip-norm": ours["clip_norm"],
        "beam-size": ours["beam_size"],
        "normalize": ours["length_penalty"],
    }
    assert found == {name: theirs[name] for name in found}
    betas = [ours[name] for name in ("adam_beta1", "adam_beta2", "adam_epsilon")]
    assert betas == [float(number) for number in theirs["optimizer-params"]]
    assert (ours["norm"], theirs["transformer-preprocess"], theirs["transformer-postprocess"]) == ("post", "", "dan")
    assert (ours["schedule"], ours["length_penalty_form"]) == ("inverse_sqrt", "power")


def test_marianmt_base_trains_as_transformers_does() -> None:
    ours = config.to_dict(registry.hparams("marianmt_base"))
    names = {"max_grad_norm": "clip_norm", "label_smoothing_factor": "label_smoothing"}
    assert {name: ours[names.get(name, name)] for name in _TRANSFORMERS} == _TRANSFORMERS
    assert (ours["schedule"], ours["warmup_steps"]) == ("constant", 1)
