"""The hparams sets against Table 3: what each row changes."""

import pytest

from t2t_lite import config, registry

BIG = {"d_model": 1024, "d_ff": 4096, "num_heads": 16, "dropout": 0.3, "train_steps": 300000}
AVERAGED = {"keep_checkpoints": 20, "average_checkpoints": 20}  # of big, in section 6.1
ROWS: dict[str, dict[str, object]] = {  # what a row changes in base; numbers of parameters: test_parameters.py
    "base": {},
    "base_h1": {"num_heads": 1},
    "base_h4": {"num_heads": 4},
    "base_h16": {"num_heads": 16},
    "base_h32": {"num_heads": 32},
    "base_dk16": {"d_k": 16, "d_v": 64},
    "base_dk32": {"d_k": 32, "d_v": 64},
    "base_n2": {"num_layers": 2},
    "base_n4": {"num_layers": 4},
    "base_n8": {"num_layers": 8},
    "base_d256": {"d_model": 256},
    "base_d1024": {"d_model": 1024},
    "base_ff1024": {"d_ff": 1024},
    "base_ff4096": {"d_ff": 4096},
    "base_drop0": {"dropout": 0.0},
    "base_drop2": {"dropout": 0.2},
    "base_ls0": {"label_smoothing": 0.0},
    "base_ls2": {"label_smoothing": 0.2},
    "base_learned_pos": {"positions": "learned"},
    "big": BIG | AVERAGED,
    "big_enfr": {k: v for k, v in BIG.items() if k != "dropout"} | AVERAGED,  # P_drop 0.1 (section 6.1), as base's
}


@pytest.mark.parametrize("name", ROWS)
def test_a_row_changes_what_the_table_says_and_nothing_else(name: str) -> None:
    base, row = config.to_dict(registry.hparams("base")), config.to_dict(registry.hparams(name))
    changes = {field: value for field, value in row.items() if value != base[field]}
    assert changes == ROWS[name]


def test_base_is_the_papers() -> None:
    """The values are those of sections 3, 5.3, 5.4 and 6.1, and of the row "base"."""
    base = registry.hparams("base")
    assert (base.num_layers, base.d_model, base.d_ff, base.num_heads) == (6, 512, 2048, 8)
    assert (base.dropout, base.attention_dropout, base.relu_dropout, base.label_smoothing) == (0.1, 0, 0, 0.1)
    assert (base.norm, base.positions, base.share_embeddings) == ("post", "sinusoidal", True)
    assert (base.adam_beta1, base.adam_beta2, base.adam_epsilon) == (0.9, 0.98, 1e-9)
    assert (base.learning_rate_factor, base.warmup_steps, base.train_steps) == (1.0, 4000, 100000)
    assert (base.batch_tokens, base.save_minutes, base.average_checkpoints) == (25000, 10, 5)
    assert (base.beam_size, base.length_penalty, base.extra_length) == (4, 0.6, 50)
