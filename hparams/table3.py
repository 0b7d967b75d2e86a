"""The rows of Table 3: base with one thing changed. What a row leaves open is base's.

Scores of the rows are in the paper: perplexity and BLEU on newstest2013, 100,000 steps, without averaging.
"""

from typing import Any

from t2t_lite import config
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.registry import register_hparams

from .transformer import base

ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "base_h1": ("(A): 1 head, d_k = d_v = 512", {"num_heads": 1}),
    "base_h4": ("(A): 4 heads, d_k = d_v = 128", {"num_heads": 4}),
    "base_h16": ("(A): 16 heads, d_k = d_v = 32", {"num_heads": 16}),
    "base_h32": ("(A): 32 heads, d_k = d_v = 16", {"num_heads": 32}),
    "base_dk16": ("(B): d_k = 16; d_v stays 64", {"d_k": 16, "d_v": 64}),
    "base_dk32": ("(B): d_k = 32; d_v stays 64", {"d_k": 32, "d_v": 64}),
    "base_n2": ("(C): 2 layers", {"num_layers": 2}),
    "base_n4": ("(C): 4 layers", {"num_layers": 4}),
    "base_n8": ("(C): 8 layers", {"num_layers": 8}),
    "base_d256": ("(C): d_model = 256, d_k = d_v = 32", {"d_model": 256}),
    "base_d1024": ("(C): d_model = 1024, d_k = d_v = 128", {"d_model": 1024}),
    "base_ff1024": ("(C): d_ff = 1024", {"d_ff": 1024}),
    "base_ff4096": ("(C): d_ff = 4096", {"d_ff": 4096}),
    "base_drop0": ("(D): P_drop = 0", {"dropout": 0.0}),
    "base_drop2": ("(D): P_drop = 0.2", {"dropout": 0.2}),
    "base_ls0": ("(D): no label smoothing", {"label_smoothing": 0.0}),
    "base_ls2": ("(D): label smoothing 0.2", {"label_smoothing": 0.2}),
    "base_learned_pos": ("(E): learned positions instead of sinusoids", {"positions": "learned"}),
}


def _register(name: str, row: str, changes: dict[str, Any]) -> None:
    def change_base() -> TransformerHParams:
        return config.replace(base(), **changes)

    change_base.__name__, change_base.__doc__ = name, f"Table 3 row {row}."
    register_hparams(change_base)


for _name, (_row, _changes) in ROWS.items():
    _register(_name, _row, _changes)
