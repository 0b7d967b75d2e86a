"""A toy model, versions 1 and 2, behind both endpoints."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving import toy_model
from tests.serving.server import Server, serve


@pytest.fixture(scope="session")
def toy_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """BASE/1 and BASE/2; the second marks its outputs with "!"."""
    base = tmp_path_factory.mktemp("toy")
    toy_model.save(base, 1)
    toy_model.save(base, 2, "!")
    return base


@pytest.fixture(scope="session")
def _served(toy_base: Path) -> Iterator[Server]:
    with serve(toy_base, "toy", labels={"stable": 1}, keep="all") as server:
        yield server


@pytest.fixture
def server(_served: Server) -> Server:
    """The toy as model "toy": version 1 has the label "stable"."""
    _served.model.reset()
    return _served


@pytest.fixture(params=["rest", "grpc"])
def protocol(request: pytest.FixtureRequest) -> str:
    return request.param
