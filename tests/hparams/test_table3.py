"""The hparams sets against Table 3: what each row changes, and its published number of parameters."""

import pytest

from t2t_lite import config, registry

# Published millions of parameters; None where the table has none. The authors' vocabulary for these had 40,960 rows.
ROWS: dict[str, tuple[dict[str, object], int | None]] = {
    "base": ({}, 65),
    "base_h1": ({"num_heads": 1}, None),
    "base_h4": ({"num_heads": 4}, None),
    "base_h16": ({"num_heads": 16}, None),
    "base_h32": ({"num_heads": 32}, None),
    "base_dk16": ({"d_k": 16, "d_v": 64}, 58),
    "base_dk32": ({"d_k": 32, "d_v": 64}, 60),
    "base_n2": ({"num_layers": 2}, 36),
    "base_n4": ({"num_layers": 4}, 50),
    "base_n8": ({"num_layers": 8}, 80),
    "base_d256": ({"d_model": 256}, 28),
    "base_d1024": ({"d_model": 1024}, 168),
    "base_ff1024": ({"d_ff": 1024}, 53),
    "base_ff4096": ({"d_ff": 4096}, 90),
    "base_drop0": ({"dropout": 0.0}, None),
    "base_drop2": ({"dropout": 0.2}, None),
    "base_ls0": ({"label_smoothing": 0.0}, None),
    "base_ls2": ({"label_smoothing": 0.2}, None),
    "base_learned_pos": ({"positions": "learned"}, None),
    "big": (
        {"d_model": 1024, "d_ff": 4096, "num_heads": 16, "dropout": 0.3, "train_steps": 300000},
        213,
    ),
}
# ff1024: 52.48M by the paper's formulas; its authors' code had bias terms in attention, which make it 52.53.
# big: 218.2M; 213 would need a vocabulary of about 35,800.
MISSED = {"base_ff1024": 52, "big": 218}


def _millions(hparams: config.HParams, vocab_size: int) -> float:
    """Tied embeddings; attention without bias terms, equation (2) with them; normalisation around each sub-layer."""
    d, heads = hparams.d_model, hparams.num_heads
    attention = 2 * d * heads * ((hparams.d_k or d // heads) + (hparams.d_v or d // heads))
    feed_forward = 2 * d * hparams.d_ff + hparams.d_ff + d
    layer = 3 * attention + 2 * feed_forward + 5 * 2 * d  # one of the encoder and one of the decoder
    return (vocab_size * d + hparams.num_layers * layer) / 1e6


@pytest.mark.parametrize("name", ROWS)
def test_a_row_changes_what_the_table_says_and_nothing_else(name: str) -> None:
    base, row = config.to_dict(registry.hparams("base")), config.to_dict(registry.hparams(name))
    changes = {field: value for field, value in row.items() if value != base[field]}
    for how_many_are_averaged in ("keep_checkpoints", "average_checkpoints"):  # section 6.1: 20 for big
        changes.pop(how_many_are_averaged, None)
    assert changes == ROWS[name][0]


@pytest.mark.parametrize("name", [name for name, (_, published) in ROWS.items() if published])
def test_parameters_are_the_published_number(name: str) -> None:
    assert round(_millions(registry.hparams(name), 40960)) == MISSED.get(name, ROWS[name][1])


def test_base_is_the_papers() -> None:
    """Sections 3, 5.3, 5.4 and 6.1, and the row "base"."""
    base = registry.hparams("base")
    assert (base.num_layers, base.d_model, base.d_ff, base.num_heads) == (6, 512, 2048, 8)
    assert (base.dropout, base.attention_dropout, base.relu_dropout, base.label_smoothing) == (0.1, 0, 0, 0.1)
    assert (base.norm, base.positions, base.share_embeddings) == ("post", "sinusoidal", True)
    assert (base.adam_beta1, base.adam_beta2, base.adam_epsilon) == (0.9, 0.98, 1e-9)
    assert (base.learning_rate_factor, base.warmup_steps, base.train_steps) == (1.0, 4000, 100000)
    assert (base.batch_tokens, base.save_minutes, base.average_checkpoints) == (25000, 10, 5)
    assert (base.beam_size, base.length_penalty, base.extra_length) == (4, 0.6, 50)
    assert registry.hparams("big").average_checkpoints == 20
