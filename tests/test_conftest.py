"""tests/conftest.py: if several processes share the tests, one of them runs all tests of a group."""

import pytest

from t2t_lite import registry


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
