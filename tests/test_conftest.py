"""tests/conftest.py: where several processes share the tests, one of them runs all of a group."""

import pytest


def test_groups_hold(request: pytest.FixtureRequest) -> None:
    """pytest-xdist writes the group into the id; without it each process would make every shared fixture again."""
    if not getattr(request.config.option, "loadgroup", False):  # what pytest-xdist sets in its processes
        pytest.skip("one process runs all tests")
    assert request.node.nodeid.endswith("@tests")
