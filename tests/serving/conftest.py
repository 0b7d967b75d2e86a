"""A toy model, versions 1 and 2, behind both endpoints; a Transformer with weights drawn at random, exported."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from t2t_lite import config, registry
from t2t_lite.models.transformer_hparams import TransformerHParams
from tests import reference
from tests.serving import served_model, toy_model
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


class Exported(NamedTuple):
    """A model, its translator, and the folder of its exported version."""

    translator: Any
    served: Any
    version: Path
    lines: list[str]  # sources that it can read


EXPORTED = TransformerHParams(
    num_layers=1, d_model=16, d_ff=32, num_heads=2, beam_size=3, extra_length=4, max_source_length=40
)


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """An export of a small model with two vocabularies. Its outputs make no sense, and all differ."""
    from t2t_lite.decode.export_folder import SIGNATURES
    from t2t_lite.decode.translate import Translator
    from t2t_lite.models.transformer import Transformer
    from t2t_lite.serving.export import export
    from t2t_lite.serving.saved_model import ServedModel
    from t2t_lite.text.vocabulary import train_vocabulary

    pairs = itertools.islice(registry.problem("toy_ende").samples("train"), 400)
    sources, targets = (list(side) for side in zip(*pairs, strict=True))
    source, target = train_vocabulary(sources, size=300), train_vocabulary(targets, size=250)
    model = Transformer.from_hparams(EXPORTED, source.size, target.size, False)
    reference.randomise(model, 3)
    translator = Translator.from_hparams(model, source, target, EXPORTED)
    served = ServedModel(translator, SIGNATURES)
    card = {"hparams": config.to_dict(EXPORTED)}
    version = export(served, tmp_path_factory.mktemp("exported"), card)
    return Exported(translator, served, version, sources[:12])


@pytest.fixture(scope="session")
def version(exported: Exported) -> served_model.Version:
    """The exported model in a session, as the server runs it."""
    return served_model.Version(exported.version)
