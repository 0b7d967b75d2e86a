"""The figures of --describe: equal to what is counted in assembled batches."""

from pathlib import Path

import numpy as np
import pytest

from t2t_lite.data.pipeline import assemble, make_plan
from t2t_lite.data.plan import PlanStatistics
from t2t_lite.data.store import Tokens, TokenSplit
from t2t_lite.groups import BatchGroup


def _split(pairs: int) -> TokenSplit:
    random = np.random.default_rng(3)

    def tokens() -> Tokens:
        lengths = np.clip(random.lognormal(2.5, 0.6, pairs), 1, 60).astype(np.int64)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        return Tokens(random.integers(1, 1000, offsets[-1]).astype("<u2"), offsets, 1000, Path("train.source.ids"))

    return TokenSplit(tokens(), tokens())


@pytest.mark.parametrize("packing", [False, True])
@pytest.mark.parametrize(("pairs", "batch_tokens"), [(700, 512), (50, 4096), (5, 100)])
def test_the_figures_are_those_of_the_assembled_batches(pairs: int, batch_tokens: int, packing: bool) -> None:
    split = _split(pairs)
    plan = make_plan(split, BatchGroup(batch_tokens=batch_tokens, max_length=40, packing=packing), 1)
    batches = [assemble(split, plan.batch(step), packing) for step in range(1, plan.steps_per_epoch + 1)]
    said = plan.statistics()
    assert said.steps == len(batches)
    assert said.source_tokens == sum(np.count_nonzero(batch["source"]) for batch in batches)
    assert said.target_tokens == sum(np.count_nonzero(batch["target"]) for batch in batches)
    assert said.source_places == sum(batch["source"].size for batch in batches)
    assert said.target_places == sum(batch["target"].size for batch in batches)
    assert said.shapes == len({(batch["source"].shape, batch["target"].shape) for batch in batches})
    if packing:  # the segments of a row are numbered from 1
        in_batches = sum(int(batch["target_segment"].max(axis=-1).sum()) for batch in batches)
    else:
        in_batches = sum(int(batch["target"].any(axis=-1).sum()) for batch in batches)
    assert said.pairs == in_batches
    assert said.left_out == pairs - in_batches
    assert said.waste == pytest.approx(1 - (said.source_tokens + said.target_tokens) / said.padded_tokens)


def test_format() -> None:
    statistics = PlanStatistics(
        pairs=9000,
        left_out=1000,
        steps=4,
        source_tokens=80_000,
        target_tokens=90_000,
        source_places=100_000,
        target_places=100_000,
        shapes=3,
    )
    assert statistics.format(256).split("\n") == [
        "  updates per epoch         4",
        "  sentences per update      2,250.0",
        "  source tokens per update  20,000 in 25,000 places, 20.0% padding",
        "  target tokens per update  22,500 in 25,000 places, 10.0% padding",
        "  waste                     15.0% of all places",
        "  shapes of batches         3",
        "  left out                  1,000 of 10,000 pairs, longer than max_length=256",
    ]
