"""The paired tests against ones written from their description, and against sacreBLEU's own command."""

import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from sacrebleu.significance import PairedTest

from t2t_lite.errors import UsageError
from t2t_lite.metrics import bleu, names, significance
from t2t_lite.metrics.accuracy import SequenceAccuracy
from t2t_lite.metrics.bracketing import Bracketing
from t2t_lite.metrics.metric import Metric
from t2t_lite.metrics.score import CorpusMetric, Score
from t2t_lite.metrics.significance import Comparison, paired_bootstrap, paired_randomisation

RANDOM = np.random.default_rng(3)
WORDS = np.array("der die das Hund Katze Haus sieht kennt klein groß , . und nicht".split())
REFERENCES = [" ".join(RANDOM.choice(WORDS, size=RANDOM.integers(5, 14))) for _ in range(40)]


def damaged(share: float, seed: int) -> list[str]:
    random = np.random.default_rng(seed)
    return [" ".join(w if random.random() > share else "x" for w in line.split()) for line in REFERENCES]


def compared(test: Callable[..., Comparison], metric: Metric, ours: list[str], theirs: list[str]) -> Comparison:
    references = REFERENCES * (len(ours) // len(REFERENCES))
    return test(metric, metric.score(ours, references), metric.score(theirs, references))


BETTER, WORSE, PEER = damaged(0.1, 1), damaged(0.25, 2), damaged(0.1, 5)


@pytest.fixture(autouse=True)
def usual_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)


@pytest.mark.commit
@pytest.mark.parametrize("name", ["bleu", "chrf", "bleu_paper"])
def test_a_clear_difference_is_significant_and_noise_is_not(name: str) -> None:
    metric = names.metric(name, "de")
    clear, noise = (compared(paired_bootstrap, metric, BETTER, other) for other in (WORSE, PEER))
    assert clear.score == noise.score == metric.score(BETTER, REFERENCES)
    assert clear.baseline == metric.score(WORSE, REFERENCES)
    assert clear.difference == clear.score.value - clear.baseline.value > 5
    assert clear.p_value == pytest.approx(1 / 1001)  # no resample differs as much from the mean difference
    assert 0.05 < noise.p_value <= 1
    for low, high in (clear.interval, clear.baseline_interval, noise.interval):
        assert low < high
    assert clear.interval[0] < clear.score.value < clear.interval[1]
    # The other way round: the same probability, the opposite sign.
    back = compared(paired_bootstrap, metric, WORSE, BETTER)
    assert (back.difference, back.p_value) == (-clear.difference, clear.p_value)


def test_the_numbers_are_those_of_sacrebleus_command(tmp_path: Path) -> None:
    for name, lines in (("ref", REFERENCES), ("old", PEER), ("new", BETTER)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", "ref", "-i", "old", "new", "-m", "bleu", "--paired-bs", "-f", "json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    [theirs] = (row["BLEU"] for row in json.loads(done.stdout) if row["system"] == "new")
    ours = compared(paired_bootstrap, bleu.bleu(), BETTER, PEER)
    assert round(ours.p_value, 4) == pytest.approx(theirs["p_value"], abs=1e-4)
    assert ours.score.value == pytest.approx(theirs["score"], abs=0.01)
    assert np.mean(ours.interval) == pytest.approx(theirs["mean"], abs=0.01)
    assert (ours.interval[1] - ours.interval[0]) / 2 == pytest.approx(theirs["ci"], abs=0.01)


def test_the_same_output_twice_is_no_difference() -> None:
    """Here p is 1; sacreBLEU's own count would give the highest possible significance."""
    found = compared(paired_bootstrap, bleu.bleu(), BETTER, list(BETTER))
    assert (found.difference, found.p_value) == (0, 1)


@pytest.mark.parametrize("number", [0, 1, 4])
def test_randomisation_counts_trials_that_differ_as_much(number: int) -> None:
    """Where all lines that differ favour one side, only swapping all or none of them differs as much."""
    worse = [f"x {line.partition(' ')[2]}" for line in REFERENCES[:number]] + REFERENCES[number:]
    found = compared(paired_randomisation, bleu.bleu(), REFERENCES, worse)
    assert found.p_value == pytest.approx(min(2 / 2**number, 1), abs=0.02)
    assert (found.p_value == 1) is (number < 2)


@pytest.mark.commit
@pytest.mark.parametrize("name", ["bleu", "chrf"])
def test_the_trials_are_sacrebleus(name: str) -> None:
    """In larger files, hardly any trial differs by exactly as much."""
    metric = names.metric(name)
    systems = [("old", WORSE), ("new", damaged(0.18, 6))]
    test = PairedTest(systems, {"score": metric.counter}, [REFERENCES], n_samples=significance.TRIALS)
    [theirs] = (column[1].p_value for title, column in test()[1].items() if title != "System")
    ours = compared(paired_randomisation, metric, systems[1][1], WORSE)
    assert (ours.interval, ours.baseline_interval, ours.resamples) == (None, None, 10_000)
    assert 0.01 < ours.p_value < 0.9
    assert theirs <= ours.p_value < theirs + 0.005


@pytest.mark.parametrize("lines", [1, 7, 40])
def test_trials_in_blocks_are_those_of_one_draw(lines: int) -> None:
    whole = np.random.default_rng(5).integers(2, size=(significance.TRIALS, lines), dtype=bool)
    assert np.array_equal(np.concatenate([*significance._trials(lines, 5)]), whole)


@pytest.mark.commit
def test_randomisation_holds_few_trials_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(significance, "TRIALS", 1000)
    tracemalloc.start()
    compared(paired_randomisation, bleu.bleu(), BETTER * 20, WORSE * 20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1000 * 800 * 8  # what one NumPy number per trial and line would take


def test_format_and_dict_hold_all() -> None:
    found = compared(paired_bootstrap, bleu.bleu(), BETTER, WORSE)
    first, second = found.format_baseline().split("\n")
    intervals = [f"{low:.2f} to {high:.2f}" for low, high in (found.interval, found.baseline_interval)]
    assert first == f"  baseline {found.baseline.value:.2f}; 95% intervals: {intervals[0]}, baseline {intervals[1]}"
    assert second == f"  difference +{found.difference:.2f}, p = 0.0010 (paired bootstrap, 1,000 resamples, seed 12345)"
    record = json.loads(json.dumps(found.as_dict()))
    assert {k: record[k] for k in found.score.as_dict()} == found.score.as_dict()
    paired = record["paired"]
    assert paired["baseline"] == found.baseline.as_dict()
    assert (paired["difference"], paired["p_value"]) == (found.difference, found.p_value)
    assert (paired["interval"], paired["resamples"], paired["seed"]) == (list(found.interval), 1000, 12345)


@pytest.mark.commit
def test_the_seed_is_sacrebleus_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def compare() -> Comparison:
        return compared(paired_bootstrap, bleu.bleu(), BETTER, PEER)

    usual = compare()
    assert compare() == usual
    monkeypatch.setenv("SACREBLEU_SEED", "7")
    other = compare()
    assert other.seed == 7
    assert other.interval != usual.interval
    assert other.score == usual.score
    monkeypatch.setenv("SACREBLEU_SEED", "None")  # as sacreBLEU, in capitals or not
    unseeded = [compare() for _ in range(3)]
    assert len({each.interval for each in unseeded}) > 1
    assert unseeded[0].format_baseline().endswith(", seed none)")
    for seed in ("0", "-1", "x", ""):
        monkeypatch.setenv("SACREBLEU_SEED", seed)
        with pytest.raises(UsageError, match=f"SACREBLEU_SEED={seed} is neither a whole number of at least 1 nor none"):
            compare()


class Own(CorpusMetric):
    signature = "own"

    def score(self, hypotheses: Sequence[str], references: Sequence[str], sources: Sequence[str]) -> Score:
        raise NotImplementedError


def test_a_metric_of_ones_own_is_compared_by_the_mean_of_its_lines() -> None:
    """The same as accuracy, whose counts are of lines, too; and one of which nothing is known by line is refused."""
    ours, theirs = REFERENCES[:30] + ["x"] * 10, REFERENCES[:25] + ["x"] * 15
    for test in (paired_bootstrap, paired_randomisation):
        accuracy = compared(test, SequenceAccuracy(), ours, theirs)
        scores = [Score("own", each.value, "own", "", each.segments) for each in (accuracy.score, accuracy.baseline)]
        own = test(Own(), *scores)
        assert own.p_value == pytest.approx(accuracy.p_value, abs=2e-3)
        assert own.interval == (accuracy.interval and pytest.approx(accuracy.interval, abs=1e-4))
    for score in (Score("own", 1.0, "own", ""), Score("own", 1.0, "own", "", [1.0, 0.0])):
        with pytest.raises(UsageError, match="Own gives no scores of lines whose mean is its score, so there is no"):
            paired_bootstrap(Own(), score, score)


def test_trees_are_compared_by_their_brackets() -> None:
    gold = [f"(S (NP (N w{n})) (VP (V v)))" for n in range(40)]
    flat = [f"(S (N w{n}) (V v))" for n in range(40)]
    metric = Bracketing()
    found = paired_bootstrap(metric, metric.score(gold, gold), metric.score(flat[:20] + gold[20:], gold))
    assert found.score.value == 100
    assert found.p_value < 0.01
    assert found.baseline.segments[:1] + found.baseline.segments[-1:] == [pytest.approx(50), 100]
