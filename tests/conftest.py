"""Fixtures for all tests."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # before TensorFlow is imported: no page of notices
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in a background job; commands started here would ignore it, too
    signal.signal(signal.SIGINT, signal.default_int_handler)


SLOW = ("system", "train", "examples", "models")  # folders


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow folders first: where several processes share the files, they end at about the same time."""
    items.sort(key=lambda item: item.path.parent.name not in SLOW)


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """Gives shared_data("multi30k"): a folder of real data, in T2T_LITE_TEST_DATA or beside the checkout.

    The test is skipped, with a reason, where the folder is absent.
    """
    beside = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
    root = Path(os.environ.get("T2T_LITE_TEST_DATA") or beside)

    def folder(name: str) -> Path:
        if not (root / name).is_dir():
            pytest.skip(f"no {name} in {root}; set T2T_LITE_TEST_DATA to a folder that holds it")
        return root / name

    return folder
