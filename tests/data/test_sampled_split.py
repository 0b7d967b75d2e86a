"""Batches whose pieces are drawn anew in each epoch: by seed, epoch and pair alone; room, resume, packing, weights."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t2t_lite import config, registry
from t2t_lite.data.pipeline import assemble, batches, make_plan
from t2t_lite.data.prepare import prepare
from t2t_lite.data.sampled_split import SampledSplit, training_split
from t2t_lite.data.store import Store
from t2t_lite.errors import UsageError
from t2t_lite.groups import BatchGroup
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.runs.data_request import DataRequest
from t2t_lite.runs.recipe_request import RecipeRequest
from t2t_lite.runs.start_request import StartRequest
from t2t_lite.training.start import plan_start

Array = np.ndarray
PAIRS = 100
GROUP = BatchGroup(batch_tokens=800, max_length=60, bpe_dropout=0.2)


@pytest.fixture(scope="module", params=["bpe", pytest.param("unigram", marks=pytest.mark.nightly)])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Store:
    problem = registry.problem("toy_ende", train_size=PAIRS)
    problem.vocab_type, problem.vocab_size = request.param, 300
    problem.dev_size = problem.test_size = 20
    return prepare(problem, tmp_path_factory.mktemp("data"), num_workers=1)


def _split(store: Store, group: BatchGroup = GROUP, seed: int = 1) -> SampledSplit:
    split = training_split(store, group, seed)
    assert isinstance(split, SampledSplit)
    return split


def _by_pair(split: SampledSplit, group: BatchGroup, epoch: int, seed: int = 1) -> dict[int, tuple[list[int], ...]]:
    """The ids of both sides of each pair in an epoch."""
    plan, found = make_plan(split, group, seed), {}
    for step in range(epoch * plan.steps_per_epoch + 1, (epoch + 1) * plan.steps_per_epoch + 1):
        planned = plan.batch(step)
        batch = assemble(split, planned, group.packing)
        for row, slot in zip(*np.nonzero(planned.rows >= 0), strict=True):
            sides = []
            for side in ("source", "target"):
                of_row = batch.get(f"{side}_segment", batch[side] > 0)[row] == slot + 1
                sides.append(batch[side][row][of_row].tolist())
            found[int(planned.rows[row, slot])] = tuple(sides)
    return found


def test_what_is_drawn_depends_on_seed_epoch_and_pair_alone(store: Store) -> None:
    first = _by_pair(_split(store), GROUP, 0)
    packed = BatchGroup(200, 60, True, bpe_dropout=GROUP.bpe_dropout)
    assert _by_pair(_split(store, packed), packed, 0) == first  # other batches, rows and neighbours
    second, other = _by_pair(_split(store), GROUP, 1), _by_pair(_split(store, seed=2), GROUP, 0, seed=2)
    assert first.keys() == second.keys() == other.keys() == set(range(PAIRS))
    plain = store.split("train")
    for drawn in (first, second, other):
        for pair, sides in drawn.items():
            for ids, tokens, vocabulary in zip(
                sides, (plain.source, plain.target), (store.source_vocabulary, store.target_vocabulary), strict=True
            ):
                assert vocabulary.decode(ids) == vocabulary.decode(tokens[pair].tolist())
    for a, b in ((first, second), (first, other)):
        same = sum(a[pair][side] == b[pair][side] for pair in a for side in (0, 1))
        assert same < 1.5 * PAIRS  # of two sides each


def test_a_stream_that_begins_later_has_the_same_batches(store: Store) -> None:
    split = _split(store)
    plan = make_plan(split, GROUP, 1)
    first = plan.steps_per_epoch - 1
    stream = batches(split, make_plan(split, GROUP, 1), packing=False, first_step=first)
    for step, batch in zip(range(first, first + 4), stream, strict=False):
        expected = assemble(_split(store), plan.batch(step), packing=False)
        assert batch.keys() == expected.keys()
        assert all(np.array_equal(batch[name], expected[name]) for name in batch)
    stream.close()


def test_growth_room_and_statistics(store: Store) -> None:
    split, plain = _split(store), store.split("train")
    statistics = make_plan(split, GROUP, 1).statistics()
    assert statistics.left_out == 0
    drawn = [pair for epoch in range(4) for pair in _by_pair(split, GROUP, epoch).values()]
    for side, (tokens, told) in enumerate(
        ((plain.source, statistics.source_tokens), (plain.target, statistics.target_tokens))
    ):
        mean = sum(len(pair[side]) for pair in drawn) / 4
        assert mean > 1.02 * tokens.lengths.sum()
        assert mean == pytest.approx(split.growth[side] * tokens.lengths.sum(), rel=0.03)
        assert mean == pytest.approx(told, rel=0.03)
        assert (split.room[side] >= tokens.lengths).all()
        expected = split.expected_lengths(np.arange(PAIRS))[side]
        assert mean == pytest.approx(expected.sum(), rel=0.03)
    assert f"bpe_dropout: {split.growth[0]:.2f} times as many source" in split.remark


def test_no_side_is_longer_than_max_length_and_none_is_left_out_for_what_is_drawn(store: Store) -> None:
    plain = store.split("train")
    longest = np.maximum(plain.source.lengths, plain.target.lengths)
    limit = int(np.median(longest))
    group = BatchGroup(300, limit, bpe_dropout=0.5)
    drawn = _by_pair(_split(store, group), group, 0)
    assert sorted(drawn) == np.flatnonzero(longest <= limit).tolist()
    assert max(len(ids) for sides in drawn.values() for ids in sides) <= limit


def test_weights_stay_with_their_pairs(tmp_path: Path) -> None:
    for split, number in (("train", 20), ("dev", 2)):
        for ending in ("en", "de"):
            text = "".join(f"word{'ab'[i % 2] * (i % 7)} number {i}\n" for i in range(number))
            (tmp_path / f"{split}.{ending}").write_text(text, "utf-8")
    (tmp_path / "train.weight").write_text("".join(f"{i}\n" for i in range(1, 21)), "utf-8")
    given: dict[str, Any] = {"source_dir": str(tmp_path), "languages": "en-de", "vocab_size": 40}
    problem = registry.problem("text2text", **given, sequence_weights="weight")
    weighted = prepare(problem, tmp_path / "data", num_workers=1)
    split = _split(weighted)
    plan = make_plan(split, GROUP, 1)
    for step in range(1, plan.steps_per_epoch + 1):
        planned = plan.batch(step)
        batch = assemble(split, planned, packing=False)
        weights = batch["weight"].view(np.float32)
        for row, pair in enumerate(planned.rows[:, 0]):
            real = batch["target"][row] > 0
            assert set(weights[row][real]) <= {np.float32(pair + 1)}
            assert not weights[row][~real].any()


def test_it_is_off_by_default(store: Store) -> None:
    assert training_split(store, BatchGroup(300, 60), 1) is store.split("train")
    assert not store.split("train").remark


def _start(problem: str, tmp_path: Path, **options: Any) -> None:
    data = DataRequest(problem=problem, options=options, data_dir=str(tmp_path / "data"))
    recipe = RecipeRequest(hparams_set="tiny", overrides={"bpe_dropout": 0.1})
    plan_start(StartRequest(data=data, recipe=recipe, output_dir=str(tmp_path / "run")))


def test_what_cannot_be_cut_in_several_ways_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the vocabulary of the source is of the kind 'char'"):
        _start("text2text", tmp_path, source_dir=str(tmp_path), languages="en-de", vocab_type="char")
    with pytest.raises(UsageError, match="the vocabulary of the target is of the kind 'word'"):
        _start("treebank", tmp_path, source_dir=str(tmp_path))
    with pytest.raises(UsageError, match=r"guided_alignment=0\.1 and bpe_dropout=0\.1 exclude each other"):
        config.replace(TransformerHParams(), guided_alignment=0.1, bpe_dropout=0.1)
