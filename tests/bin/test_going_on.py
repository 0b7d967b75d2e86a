"""The command that goes on with a stopped run keeps what the run's folder does not hold."""

import shlex

import pytest

from t2t_lite.bin import going_on, trainer


@pytest.mark.parametrize(
    "kept",
    [
        [],
        ["--usr_dir=my code", "--devices=3", "--fill_micro_batches"],
        ["--strategy=mirrored", "--all_reduce=ring", "--skip_bad_batches=2"],
    ],
)
def test_the_flags_that_a_run_does_not_hold(kept: list[str]) -> None:
    parser = trainer.make_parser()
    args = parser.parse(["--problem=toy_ende", "--train_steps=9", "--output_dir=a b", *kept])
    words = shlex.split(going_on.command(parser, args))
    assert words == ["t2t-lite-trainer", "--output_dir=a b", *kept]
    again = parser.parse(words[1:])
    assert all(vars(again)[name] == vars(args)[name] for name in vars(args) if name not in ("problem", "train_steps"))
