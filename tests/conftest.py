"""Fixtures for all tests."""

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # before TensorFlow is imported: hides its notices
# LLVM's optimisations take most of XLA's time, and change how fast its programs are.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is imported: tests/commands.py must fork no threads
# In a background job and under nohup they are ignored; commands would inherit this.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)

SLOW = ("system", "training", "importers", "models", "export", "client", "examples", "cli")  # folders, slowest first


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Function]) -> None:
    """Puts slow folders first, groups tests by folder, and marks the cases that `commit(...)` does not name as nightly.

    If there are several processes, one of them runs all tests of a folder, because these share fixtures.
    """
    items.sort(key=lambda item: (*SLOW, item.path.parent.name).index(item.path.parent.name))
    absent: dict[str, set[str]] = {}  # cases that a marker names and no test has
    for item in items:
        cases = getattr(item.get_closest_marker("commit"), "args", ())
        if cases:
            absent.setdefault(f"{item.path}::{item.originalname}", set(cases)).discard(item.callspec.id)
            if item.callspec.id not in cases:
                item.add_marker(pytest.mark.nightly)
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.parent.name))
    wrong = {test: cases for test, cases in absent.items() if cases}
    if wrong and not any("::" in argument for argument in config.args):
        raise pytest.UsageError(f"pytest.mark.commit names cases that do not exist: {wrong}")


def pytest_collection_finish() -> None:
    """Keeps the garbage collector from looking through TensorFlow's modules, as the commands do (cli/common.py)."""
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keeps what commands cache out of the user's folder, but not Matplotlib's fonts, which take long to list."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    os.environ.setdefault("MPLCONFIGDIR", str(folder / "matplotlib"))
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True)
def _no_graphs_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps this process from taking graphs: tests replace what they are traced from."""
    monkeypatch.setattr("t2t_lite.distributed.tensorflow_loading.in_command", lambda: False)


@pytest.fixture(autouse=True)
def _names_of_a_test() -> Iterator[None]:
    """Removes, after each test, the names that it registered and the modules of users' code that it loaded for them."""
    from t2t_lite import config, registry

    kinds = registry.TABLES.values()
    tables = [*(kind._things for kind in kinds), *(kind._lazy for kind in kinds), config._FAMILIES]
    before, modules, path = [set(table) for table in tables], set(sys.modules), list(sys.path)
    yield
    for table, names in zip(tables, before, strict=True):
        for name in [*table.keys() - names]:
            module = table[name] if isinstance(table[name], str) else table[name].__module__
            package = module.partition(".")[0]
            if package == "tests" or package not in modules:  # modules loaded before may register names late
                del table[name]
                registry._models_of_sets.pop(name, None)
            if package not in modules:
                sys.path[:] = path
                for loaded in [loaded for loaded in sys.modules if loaded.partition(".")[0] == package]:
                    del sys.modules[loaded]


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """Gives shared_data("multi30k"): a folder of real data, in T2T_LITE_TEST_DATA or beside the checkout.

    If the folder is absent, the test is skipped with a reason.
    """
    beside = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
    root = Path(os.environ.get("T2T_LITE_TEST_DATA") or beside)

    def folder(name: str) -> Path:
        if not (root / name).is_dir():
            pytest.skip(f"no {name} in {root}; set T2T_LITE_TEST_DATA to a folder that holds it")
        return root / name

    return folder


@pytest.fixture(scope="session")
def exact_products() -> bool:
    """Whether this machine multiplies integers of 8 bits."""
    from t2t_lite.ops.int8_product import is_exact_here

    return is_exact_here()


@pytest.fixture(scope="module")
def int8_machine(exact_products: bool) -> Iterator[None]:
    """Multiplies all int8 matrices as integers, small ones too; skips the test on machines that cannot."""
    from t2t_lite.ops import int8

    if not exact_products:
        pytest.skip("This machine has no exact products of 8-bit integers.")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(int8, "SMALL", 0)
        yield
