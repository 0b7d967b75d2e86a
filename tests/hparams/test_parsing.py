"""The parsing recipes against section 6.3 and base."""

import dataclasses

from t2t_lite import registry


def _changes(name: str, base: str) -> dict[str, object]:
    ours, theirs = (dataclasses.asdict(registry.hparams(n)) for n in (name, base))
    return {field: value for field, value in ours.items() if value != theirs[field]}


def test_parsing_is_base_but_for_what_section_6_3_says_and_what_it_leaves_open() -> None:
    said = {"num_layers": 4, "d_model": 1024, "beam_size": 21, "length_penalty": 0.3, "extra_length": 300}
    left_open = {"dropout": 0.2, "attention_dropout": 0.2, "learning_rate_factor": 5.0, "warmup_steps": 16000}
    not_training = {"max_length": 512, "eval_lines": 500, "decode_batch_tokens": 512}
    assert _changes("parsing", "base") == {**said, **left_open, **not_training}


def test_parsing_semi_has_the_dropout_and_warm_up_of_base() -> None:
    changes = {"dropout": 0.1, "attention_dropout": 0.0, "warmup_steps": 4000}
    assert _changes("parsing_semi", "parsing") == changes
    assert {name: getattr(registry.hparams("base"), name) for name in changes} == changes
