"""tests/conftest.py: if several processes share the tests, one of them runs all tests of a group."""

import itertools
from pathlib import Path

import pytest

from t2t_lite import registry
from tests.conftest import LONG, STALE

ROOT = Path(__file__).resolve().parents[1]


def test_groups_hold(request: pytest.FixtureRequest) -> None:
    """pytest-xdist adds the group to the id. Without groups, each process would make every shared fixture again."""
    if not getattr(request.config.option, "loadgroup", False):  # pytest-xdist sets this in its processes
        pytest.skip("one process runs all tests")
    assert request.node.nodeid.endswith("@tests")


def test_a_test_registers_a_name_in_each_table() -> None:
    """Registers a name in each table; the next test checks that the names are gone."""
    for table in registry.TABLES.values():
        table.register_lazily("of_one_test", f"{__name__}_of_users")
        assert "of_one_test" in table.names()


def test_names_of_the_test_before_are_gone() -> None:
    assert [title for title, table in registry.TABLES.items() if "of_one_test" in table.names()] == []


def test_each_line_of_long_begins_the_id_of_a_test(request: pytest.FixtureRequest) -> None:
    assert request.config.stash[STALE] == []
    for line in LONG:  # also for files that were not collected
        assert (ROOT / line.partition("::")[0]).is_file(), line


def test_no_line_of_long_says_what_another_does() -> None:
    assert list(LONG) == sorted(LONG)
    for line, following in itertools.pairwise(LONG):
        assert not following.startswith(line)
