"""A short training and a short demo, sampled; `python -m tests.faults.flat` takes longer."""

from pathlib import Path

import pytest

from tests.faults.flat import Sample, ask_demo, growth, is_flat, train

pytestmark = pytest.mark.nightly


def test_what_grows_is_not_flat() -> None:
    samples = [Sample(step, 100.0, 10, 8, 20) for step in range(50)]
    assert is_flat(growth(samples))
    leaking = [sample._replace(megabytes=100 + sample.done) for sample in samples]
    assert growth(leaking)["megabytes"] == 30
    assert not is_flat(growth(leaking))
    assert not is_flat(growth([sample._replace(open_files=10 + sample.done // 10) for sample in samples]))


def test_a_training_with_saves_needs_no_more_from_update_to_update(tmp_path: Path) -> None:
    assert is_flat(growth(train(tmp_path, 5000, 0.5)))


def test_a_demo_needs_no_more_from_request_to_request(tmp_path: Path) -> None:
    samples, counts = ask_demo(tmp_path, 30)
    assert counts["right"] > 0
    assert counts["refused"] > 0
    assert (counts["wrong"], counts["failed"], counts["tracebacks"], counts["bad and taken"]) == (0, 0, 0, 0)
    assert is_flat(growth(samples))
