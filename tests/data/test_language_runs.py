"""Sampling by temperature: shares of an epoch against p_i ~ n_i^(1 / T), the plan, and what preparation counts."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t2t_lite import registry
from t2t_lite.cli import trainer
from t2t_lite.data import line_ranges
from t2t_lite.data.language_runs import LanguageRuns, check_languages, repetitions
from t2t_lite.data.packing import PackedPlan
from t2t_lite.data.pipeline import make_plan
from t2t_lite.data.plan import BucketPlan, Plan
from t2t_lite.data.prepare import prepare
from t2t_lite.data.sampled_split import training_split
from t2t_lite.data.store import open_store
from t2t_lite.errors import UsageError
from t2t_lite.groups import BatchGroup
from t2t_lite.problem import Problem

RUNS = [("en", "de", 900), ("en", "fr", 50), ("en", "de", 100), ("en", "nl", 7), ("en", "fr", 37)]
LANGUAGE = [target for _, target, count in RUNS for _ in range(count)]


@pytest.mark.parametrize("temperature", [1.0, 2.0, 5.0, 1e6])
def test_shares_are_those_of_the_equation(temperature: float) -> None:
    times = repetitions(RUNS, temperature)
    found: Counter[str] = Counter()
    for language, count in zip(LANGUAGE, times.tolist(), strict=True):
        found[language] += count
    numbers = Counter(LANGUAGE)
    assert found["de"] == numbers["de"] == 1000
    for language, number in numbers.items():
        share = number ** (1 / temperature) / 1000 ** (1 / temperature)  # p_i over that of the largest
        assert 0 <= 1000 * share - found[language] < 1.001
        of_language = {count for each, count in zip(LANGUAGE, times.tolist(), strict=True) if each == language}
        assert max(of_language) - min(of_language) <= 1
    if temperature == 1:
        assert set(times.tolist()) == {1}


@pytest.mark.parametrize("kind", [BucketPlan, PackedPlan])
def test_each_epoch_has_each_pair_so_often(kind: type[Plan]) -> None:
    times = repetitions(RUNS, 5.0)
    lengths = np.random.default_rng(1).integers(1, 50, (2, len(times))).astype(np.int32)
    how: dict[str, Any] = {"batch_tokens": 500, "max_length": 45, "seed": 1, "times": times}
    plan, later = kind(*lengths, **how), kind(*lengths, **how)
    kept = (lengths <= 45).all(0)
    statistics = plan.statistics()
    assert (statistics.pairs, statistics.left_out) == (times[kept].sum(), (~kept).sum())
    assert statistics.source_tokens == (times * lengths[0])[kept].sum()
    for epoch in range(2):
        steps = range(epoch * plan.steps_per_epoch + 1, (epoch + 1) * plan.steps_per_epoch + 1)
        rows = [plan.batch(step).rows for step in steps]
        pairs = np.concatenate([each[each >= 0] for each in rows])
        np.testing.assert_array_equal(np.bincount(pairs, minlength=len(times)), np.where(kept, times, 0))
    np.testing.assert_array_equal(rows[-1], later.batch(steps[-1]).rows)  # of a run that resumes


def _problem(folder: Path, **options: Any) -> Problem:
    for target, count in (("de", 300), ("fr", 40)):
        own = folder / f"en-{target}"
        own.mkdir(parents=True, exist_ok=True)
        for split, number in (("train", count), ("dev", 4)):
            for ending in ("en", target):
                text = "".join(f"{ending} word {i} {'' if i % 11 else target}\n" for i in range(number))
                (own / f"{split}.{ending}").write_text("\n" * (split == "train") + text, "utf-8")
    return registry.problem("text2text", source_dir=str(folder), languages="en-de,en-fr", vocab_size=90, **options)


@pytest.mark.parametrize("options", [{}, {"clean": True}])
def test_preparation_counts_what_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: Any) -> None:
    monkeypatch.setattr(line_ranges, "RANGE_BYTES", 1000)
    monkeypatch.setattr(line_ranges, "_BLOCK", 256)
    ranges = prepare(_problem(tmp_path / "text", **options), tmp_path / "ranges", num_workers=1)
    monkeypatch.setattr(registry.PROBLEMS.get("text2text"), "line_files", Problem.line_files)
    pairs = prepare(_problem(tmp_path / "text", **options), tmp_path / "pairs", num_workers=1)
    assert ranges.manifest["splits"] == pairs.manifest["splits"]
    # Each file begins with an empty line.
    assert ranges.manifest["splits"]["train"]["languages"] == [["en", "de", 300], ["en", "fr", 40]]
    store = open_store(ranges.folder)
    split = training_split(store, BatchGroup(400, 60, sampling_temperature=2.0), 1)
    assert split.times is not None
    assert split.times.sum() == 300 + int(40 * (300 / 40) ** 0.5)
    assert make_plan(split, BatchGroup(400, 60), 1).statistics().pairs == split.times.sum()
    both = training_split(store, BatchGroup(400, 60, sampling_temperature=2.0, bpe_dropout=0.1), 1)
    assert make_plan(both, BatchGroup(400, 60), 1).statistics().pairs == split.times.sum()
    assert training_split(store, BatchGroup(400, 60), 1).times is None


def test_data_in_one_pair_of_languages_are_refused(tmp_path: Path) -> None:
    runs = LanguageRuns()
    for count in (1, 5):
        runs.add(("en", "de"), count)
    assert runs.facts() == {}
    problem = registry.problem("toy_ende", train_size=30)
    problem.dev_size = problem.test_size = 5
    store = prepare(problem, tmp_path, num_workers=1)
    with pytest.raises(UsageError, match="sampling_temperature=5 is for data with several pairs of languages"):
        training_split(store, BatchGroup(sampling_temperature=5.0), 1)


@pytest.mark.parametrize("describe", [[], ["--describe"]])
@pytest.mark.parametrize("problem", ["text2text", "text2text_rev"])
def test_one_pair_of_languages_is_refused_before_preparation(
    problem: str, describe: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [f"--problem={problem}", f"--source_dir={tmp_path}", "--languages=en-de", "--hparams_set=tiny", *describe]
    asked += [f"--output_dir={tmp_path / 'run'}", "--hparams=sampling_temperature=5"]
    assert trainer.main(asked) == 2  # there are no files that could be prepared
    assert "sampling_temperature=5 is for data with several pairs of languages" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("problem", ["text2text", "text2text_rev"])
def test_several_pairs_of_languages_may_be_sampled(problem: str, tmp_path: Path) -> None:
    several = registry.problem(problem, source_dir=str(tmp_path), languages="en-de,fr-de")
    assert several.several_languages
    check_languages(several.several_languages, 5.0)
