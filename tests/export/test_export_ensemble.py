"""An exported ensemble in a session, as the server runs it, also with models whose weights have the same names."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import config
from t2t_lite.decoding.score import score
from t2t_lite.decoding.translate import Translator
from t2t_lite.errors import UsageError
from t2t_lite.export.export import export
from t2t_lite.export.export_folder import SIGNATURES
from t2t_lite.export.saved_model import ServedModel
from t2t_lite.models.ensemble import Ensemble
from t2t_lite.models.rnn import Rnn
from t2t_lite.models.rnn_hparams import RnnHParams
from t2t_lite.models.transformer import Transformer
from tests import reference
from tests.export.conftest import EXPORTED, Exported, decoded, run
from tests.serving.served_model import Version

pytestmark = pytest.mark.commit

NAMES = ("serving_default", "nbest", "score", "tokens")
RNN = RnnHParams(num_layers=1, d_model=12, share_embeddings=False)


def _models(source: int, target: int) -> list[Any]:
    """Two models of one recipe with different precisions, and a model of another recipe."""
    recipes: tuple[tuple[Any, Any], ...] = (
        (Transformer, EXPORTED),
        (Transformer, config.replace(EXPORTED, precision="bfloat16")),
        (Rnn, RNN),
    )
    models = []
    for seed, (model_class, hparams) in enumerate(recipes, 11):
        models.append(model_class.from_hparams(hparams, source, target, False))
        reference.randomise(models[-1], seed, 2.0)
    return models


@pytest.fixture(scope="module")
def translator(exported: Exported) -> Translator:
    source, target = exported.served.vocabularies
    return Translator(Ensemble(_models(source.size, target.size)), source, target, EXPORTED)


@pytest.fixture(scope="module")
def ensemble(exported: Exported, translator: Translator, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    served = ServedModel(translator, NAMES)
    version = export(served, tmp_path_factory.mktemp("ensemble"), {"hparams": config.to_dict(EXPORTED)})
    return Exported(translator, served, version, exported.lines)


@pytest.fixture(scope="module")
def version(ensemble: Exported) -> Version:
    return Version(ensemble.version)


@pytest.mark.nightly
def test_members_of_equal_names_keep_their_own_weights_and_precisions(ensemble: Exported) -> None:
    reader = tf.train.load_checkpoint(str(ensemble.version / "variables" / "variables"))
    shapes = {n: s for n, s in reader.get_variable_to_shape_map().items() if n.endswith("VARIABLE_VALUE")}
    types = reader.get_variable_to_dtype_map()
    weights = {number: model.weights for number, model in enumerate(ensemble.translator.model.models, 1)}
    assert len({w.path for own in weights.values() for w in own}) < sum(map(len, weights.values()))
    for number, own in weights.items():
        names = [name for name in shapes if name.startswith(f"_weights/member_{number}.")]
        assert sum(int(np.prod(shapes[name])) for name in names) == sum(int(np.prod(w.shape)) for w in own)
        matrices = {types[name] for name in names if len(shapes[name]) > 1}
        assert matrices == {tf.bfloat16 if number == 2 else tf.float32}
    assert len(shapes) == sum(map(len, weights.values()))
    stored = sum(int(np.prod(shape)) * types[name].size for name, shape in shapes.items())
    data = (ensemble.version / "variables" / "variables.data-00000-of-00001").stat().st_size
    assert stored < data < stored + 60_000  # the rest is the object graph


@pytest.mark.nightly
def test_the_server_answers_what_the_ensemble_decodes_and_scores(ensemble: Exported, version: Version) -> None:
    lines = [*ensemble.lines, ""]
    wanted = ensemble.translator.translate(lines, nbest=EXPORTED.beam_size)
    answer = run(version, "nbest", lines)
    texts = decoded(answer["outputs"])
    scores = [[hypothesis.score for hypothesis in row] for row in wanted]
    assert texts == [[hypothesis.text for hypothesis in row] for row in wanted]
    np.testing.assert_allclose(answer["scores"], scores, rtol=0, atol=2e-3)  # bfloat16 rounds between layers
    assert len({row[0] for row in texts}) > 3
    best = run(version, "serving_default", lines)
    assert decoded(best["outputs"]) == [row[0] for row in texts]
    targets = [row[0] for row in texts]
    pairs, scored = score(ensemble.translator, lines, targets), run(version, "score", lines, targets)
    np.testing.assert_allclose(scored["log_probs"], [pair.log_prob for pair in pairs], rtol=2e-3, atol=2e-3)
    assert scored["tokens"].tolist() == [pair.tokens for pair in pairs]


def test_it_has_no_attention(translator: Translator) -> None:
    with pytest.raises(UsageError, match="An Ensemble has no attention to show: leave the signature attention out"):
        ServedModel(translator, SIGNATURES)
