"""Tiny models of every family, with their variants, and a batch for them."""

from typing import Any

import numpy as np

from t2t_lite import config
from t2t_lite.config import HParams
from t2t_lite.models.bytenet_hparams import ByteNetHParams
from t2t_lite.models.convs2s_hparams import ConvS2SHParams
from t2t_lite.models.moe_hparams import MoeHParams
from t2t_lite.models.rnn_hparams import RnnHParams
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.models.transformer_moe_hparams import TransformerMoeHParams
from t2t_lite.runs.run_dir import make_model
from tests import convs2s_reference, reference

V = 20
SOURCE = np.array([[5, 9, 3, 17, 1], [7, 7, 1, 0, 0], [2, 1, 0, 0, 0]], "int32")
TARGET = np.array([[4, 8, 1, 0, 0, 0], [6, 5, 4, 3, 12, 1], [1, 0, 0, 0, 0, 0]], "int32")
BATCH = {"source": SOURCE, "target": TARGET}

_TINY: dict[str, HParams] = {
    "transformer": TransformerHParams(num_layers=2, d_model=16, d_ff=24, num_heads=2, max_positions=24),
    "rnn": RnnHParams(num_layers=2, d_model=8, dropout=0.3),
    "convs2s": ConvS2SHParams(
        encoder_layers="2x8x3", decoder_layers="2x8x3", d_model=10, d_out=7, max_positions=64, dropout=0.3
    ),
    "bytenet": ByteNetHParams(num_layers=2, d_model=6, dilations=2, dropout=0.3),
    # With 10 experts no block has spare room in the small batch on which FLOPs are counted.
    "moe": MoeHParams(d_model=8, cells=6, d_ff=5, num_experts=10, experts_per_token=2, dropout=0.3),
    "transformer_moe": TransformerMoeHParams(
        num_layers=2, d_model=8, d_ff=12, num_heads=2, num_experts=10, experts_per_token=2, dropout=0.3
    ),
}
RELATIVE = {
    "norm": "pre",
    "positions": "none",
    "max_relative_position": 3,
    "num_decoder_layers": 1,
    "source_vector": True,
    "attention_biases": True,
}
OPENNMT = {"positions": "opennmt", "norm_epsilon": 1e-3, "start_vector": True, "output_bias": True}
_VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "transformer": {
        "post": {},
        "pre_learned": {"norm": "pre", "positions": "learned"},
        "window": {"attention_window": 5},
        "relative": RELATIVE,
        "additive": {"attention_score": "additive"},
        "rotary": {"positions": "rotary"},
        "opennmt": OPENNMT,
        "swiglu": {"ffn": "gated", "activation": "swish"},
    },
    "rnn": {
        "general": {},
        "additive": {"attention_score": "additive"},
        "no_feeding": {"input_feeding": False},
        "one_layer_three_tables": {"num_layers": 1, "share_embeddings": False},
        "gnmt": {"encoder": "gnmt", "wiring": "gnmt", "attention_score": "additive", "num_layers": 4},
        "gnmt_v2": {"encoder": "gnmt", "wiring": "gnmt_v2", "attention_score": "normed_additive", "num_layers": 3},
        "gnmt_not_fed": {
            "encoder": "interleaved",
            "wiring": "gnmt",
            "attention_score": "product",
            "input_feeding": False,
        },
        "gnmt_v2_not_fed": {
            "encoder": "bi",
            "wiring": "gnmt_v2",
            "attention_score": "dot",
            "num_layers": 3,
            "input_feeding": False,
            "share_embeddings": False,
        },
        "bi": {"encoder": "bi", "wiring": "attention_wrapper", "attention_score": "additive", "softmax_bias": False},
        "vinyals": {
            "encoder": "reversed",
            "wiring": "vinyals",
            "attention_score": "additive",
            "share_embeddings": False,
        },
    },
    "convs2s": {
        "one_size": {},
        "sizes": {"encoder_layers": "8x3+12x4+6x1", "decoder_layers": "8x2+12x3+12x1+6x4", "max_positions": 4},
        "no_width": {"encoder_layers": "4x1", "decoder_layers": "4x1"},  # an empty state
    },
    "bytenet": {
        "paper": {},
        "even": {"kernel_width": 2, "unfold_factor": 1.0, "unfold_extra": 1},
        "tensor2tensor": {"wiring": "tensor2tensor", "unfold_factor": 1.5},
        "no_width": {"kernel_width": 1, "num_layers": 1},  # an empty state
    },
    "moe": {"plain": {}},
    "transformer_moe": {"plain": {}},
}
# "FAMILY/VARIANT" -> its hparams; the first one of each family is TINY[FAMILY].
VARIANTS: dict[str, Any] = {
    f"{family}/{name}": config.replace(_TINY[family], **changes)
    for family, variants in _VARIANTS.items()
    for name, changes in variants.items()
}
TINY: dict[str, Any] = _TINY


def variants(family: str) -> dict[str, Any]:
    """Returns name of a variant -> its hparams."""
    return {name: VARIANTS[f"{family}/{name}"] for name in _VARIANTS[family]}


def build(family: str, hparams: HParams, sizes: tuple[int, int] = (V, V)) -> Any:
    """Returns a model with weights drawn at random; with equal sizes both sides share a vocabulary."""
    model = make_model(family, hparams, *sizes, sizes[0] == sizes[1])
    (convs2s_reference if family == "convs2s" else reference).randomise(model, 1)
    return model
