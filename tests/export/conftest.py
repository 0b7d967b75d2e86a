"""An export of a small Transformer whose weights are drawn at random."""

import itertools
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from t2t_lite import config, registry
from t2t_lite.models.transformer_hparams import TransformerHParams
from tests import reference
from tests.serving import served_model


class Exported(NamedTuple):
    """A model, its translator, and the folder of its exported version."""

    translator: Any
    served: Any
    version: Path
    lines: list[str]  # sources that it can read


def texts(lines: list[str]) -> np.ndarray:
    return np.array([line.encode() for line in lines], object)


def run(version: served_model.Version, signature: str, *sides: list[str]) -> dict[str, np.ndarray]:
    """What a signature answers to inputs, and targets or prefixes if it takes any."""
    second = "prefixes" if signature == "prefix" else "targets"
    return version.run(signature, dict(zip(("inputs", second), map(texts, sides), strict=False)), 60)


def decoded(values: np.ndarray) -> Any:
    return [decoded(v) if isinstance(v, np.ndarray) else v.decode() for v in values]


EXPORTED = TransformerHParams(
    num_layers=1,
    d_model=16,
    d_ff=32,
    num_heads=2,
    alignment_layer=1,
    beam_size=3,
    extra_length=4,
    max_source_length=40,
)


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """An export of a small model with two vocabularies. Its outputs make no sense, and all differ."""
    from t2t_lite.decoding.translate import Translator
    from t2t_lite.export.export import export
    from t2t_lite.export.export_folder import SIGNATURES
    from t2t_lite.export.saved_model import ServedModel
    from t2t_lite.models.transformer import Transformer
    from t2t_lite.text.vocabulary_training import train_vocabulary

    pairs = itertools.islice(registry.problem("toy_ende").samples("train"), 400)
    sources, targets = (list(side) for side in zip(*pairs, strict=True))
    source, target = train_vocabulary(sources, size=300), train_vocabulary(targets, size=250)
    model = Transformer.from_hparams(EXPORTED, source.size, target.size, False)
    reference.randomise(model, 3)
    translator = Translator(model, source, target, EXPORTED)
    served = ServedModel(translator, SIGNATURES)
    card = {"hparams": config.to_dict(EXPORTED)}
    version = export(served, tmp_path_factory.mktemp("exported"), card)
    return Exported(translator, served, version, sources[:12])


@pytest.fixture(scope="session")
def version(exported: Exported) -> served_model.Version:
    """The exported model in a session, as the server runs it."""
    return served_model.Version(exported.version)
