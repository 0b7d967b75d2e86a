"""One thread for each operation, and several operations at a time."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from t2t_lite.ops import threads

pytestmark = pytest.mark.nightly

CPUS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _printed(code: str) -> list[str]:
    """What `code` prints in a new Python process: the number of threads can be set only once per process."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment.pop("TF_NUM_INTRAOP_THREADS", None)
    code = f"import os\nimport tensorflow as tf\nfrom t2t_lite.ops import threads\n{code}"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_each_operation_has_one_thread_where_that_is_wanted() -> None:
    code = """
print(threads.num_parallel())
threads.set_inter_op_parallelism(at_most=0)
print(threads.num_parallel())
os.environ["TF_NUM_INTRAOP_THREADS"] = "3"
threads.set_inter_op_parallelism()
print(threads.num_parallel())
del os.environ["TF_NUM_INTRAOP_THREADS"]
threads.set_inter_op_parallelism()
print(threads.num_parallel())
"""
    assert _printed(code) == ["1", "1", "1", str(CPUS)]


def test_it_is_too_late_when_tensorflow_has_begun() -> None:
    assert _printed("tf.ones([2]) + 1\nthreads.set_inter_op_parallelism()\nprint(threads.num_parallel())") == ["1"]


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "num_parallel", lambda: 3)


@pytest.mark.usefixtures("three")
def test_results_come_in_order_and_several_are_under_way() -> None:
    together = threading.Barrier(3)

    def square(n: int) -> int:
        together.wait(timeout=60)  # returns only when three threads wait
        return n * n

    assert list(threads.parallel_map(square, range(6))) == [0, 1, 4, 9, 16, 25]


@pytest.mark.parametrize("number", [1, 3])
def test_what_fails_ends_it(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "num_parallel", lambda: number)
    begun: list[int] = []
    failed = threading.Event()

    def work(n: int) -> int:
        begun.append(n)
        if n == 2:
            failed.set()
            raise ValueError("two")
        assert n < 2 or failed.wait(60)
        return n

    results = threads.parallel_map(work, range(1000))
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ValueError, match="two"):
        next(results)
    assert len(begun) < 1000


def test_alone_items_are_taken_one_by_one_when_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "num_parallel", lambda: 1)

    def items() -> Iterator[int]:
        yield 1
        raise AssertionError("nobody has asked for this one")

    assert next(threads.parallel_map(lambda n: n + 1, items())) == 2


def test_a_process_computes_as_on_another_number_of_processors() -> None:
    code = """
from t2t_lite.cpus import available_cpus
print(threads.emulate(3, 1), threads.num_parallel(), threads.per_operation(), threads.processors(), available_cpus())
threads.set_inter_op_parallelism(at_most=2)
print(threads.num_parallel(), threads.per_operation())
print(threads.emulate(1, 5), threads.num_parallel(), threads.per_operation(), threads.processors())
os.environ["TF_NUM_INTRAOP_THREADS"] = "7"
print(threads.emulate(2, 1), threads.processors())
"""
    assert _printed(code) == ["True", "3", "1", "3", str(CPUS), "3", "1", "True", "1", "5", "5", "False", "5"]
