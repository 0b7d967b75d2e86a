"""What Keras users find: `generate`, `fit` of models with our layers, other processes; docs/keras.md as a script."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import t2t_lite
import t2t_lite.keras
from t2t_lite import config, registry
from t2t_lite.api.load import LoadedRun
from t2t_lite.errors import UsageError
from t2t_lite.layers.masks import padding_bias
from t2t_lite.runs.run_dir import make_model
from tests.api.conftest import LINES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "keras.md"


def test_generate_is_translate(run: LoadedRun) -> None:
    wanted = run.translate(LINES)
    assert run.generate(LINES) == wanted
    assert run.generate(LINES[3]) == wanted[3]
    pieces = run._run.translator.target_vocabulary
    longest = [len(pieces.encode(text)) for text in run.generate(LINES, max_length=3)]
    assert longest[1] == 0
    assert max(longest) <= 3 < max(len(pieces.encode(text)) for text in wanted)
    for length in (0, -1, 2.5, "3"):
        with pytest.raises(UsageError, match=rf"max_length={length!r} is not a positive integer"):
            run.generate(LINES, max_length=length)  # type: ignore[call-overload]
    with pytest.raises(UsageError, match="strip_prompt is no setting of the search"):
        run.generate(LINES, strip_prompt=True)


def test_a_keras_file_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"x\.keras is a Keras model, which has no vocabularies\. After `import t2t"):
        t2t_lite.load(tmp_path / "x.keras")


@pytest.mark.commit
def test_dropout_of_layers_is_drawn_in_training() -> None:
    """Also where no layer around it has a `seed` to pass on; by Keras' seed."""
    x = keras.Input((4, 8))
    model = keras.Model(x, t2t_lite.keras.FeedForward(16, dropout=0.5)(x))
    inputs = np.random.default_rng(1).standard_normal((3, 4, 8)).astype("float32")
    keras.utils.set_random_seed(1)
    one, other = (np.asarray(model(inputs, training=True)) for _ in range(2))
    keras.utils.set_random_seed(1)
    np.testing.assert_array_equal(model(inputs, training=True), one)
    plain = np.asarray(model(inputs))
    assert min(np.abs(one - plain).max(), np.abs(other - plain).max(), np.abs(one - other).max()) > 0.01
    np.testing.assert_array_equal(model(inputs, training=False), plain)


LOADS = """
import sys
import numpy as np
import keras
import t2t_lite.keras
for path in sys.argv[1:]:
    stored = np.load(f"{path}.npz", allow_pickle=False)
    model = keras.models.load_model(path)
    logits = np.asarray(model({name: stored[name] for name in ("source", "target")}))
    np.testing.assert_array_equal(logits, stored["logits"])
    print(type(model).__name__, model.compute_dtype)
"""


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # in Keras' save
def test_another_process_loads_a_model_with_the_same_bits(tmp_path: Path) -> None:
    batch = {name: np.array([[3, 4, 1], [5, 1, 0]], "int32") for name in ("source", "target")}
    paths = []
    for name, changes in {"tiny": "precision=bfloat16,num_layers=1,d_model=32", "convs2s_tiny": ""}.items():
        model = make_model(
            registry.model_of(name), config.override(registry.hparams(name), changes), 30, 30, shared=True
        )
        paths.append(str(tmp_path / f"{name}.keras"))
        model.save(paths[-1])
        np.savez(f"{paths[-1]}.npz", logits=np.asarray(model(batch)), **batch)
    done = subprocess.run([sys.executable, "-c", LOADS, *paths], capture_output=True, text=True, check=False)
    assert done.stdout.split("\n") == ["Transformer bfloat16", "ConvS2S float32", ""], done.stderr


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # in Keras' save
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("name", ["MultiHeadAttention", "FeedForward", "Encoder", "MixtureOfExperts"])
def test_fit_trains_a_layer_and_keras_loads_it(name: str, policy: str, tmp_path: Path) -> None:
    """The first symbol says the class. All weights of the layer change, those of an expert's noise among them."""
    recipe = config.override(registry.hparams("tiny"), "num_layers=1,d_model=16,d_ff=32,num_heads=2,dropout=0.1")
    arguments: dict[str, tuple[Any, ...]] = {
        "MultiHeadAttention": (2, 8, 8, 0.1),
        "FeedForward": (32, 0.1),
        "Encoder": (recipe,),
        "MixtureOfExperts": (4, 2, 32),
    }
    keras.utils.set_random_seed(1)
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        ids = keras.Input((None,), dtype="int32")
        x = keras.layers.Embedding(20, 16)(ids)
        layer = getattr(t2t_lite.keras, name)(*arguments[name])
        found = layer(x, bias=padding_bias(ids)) if name in ("MultiHeadAttention", "Encoder") else layer(x)
        outputs = keras.layers.Dense(2, dtype="float32")(keras.layers.GlobalMaxPooling1D()(found))
        model = keras.Model(ids, outputs)
        model.compile(keras.optimizers.Adam(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        texts = np.random.default_rng(1).integers(2, 11, (256, 5))
        labels = np.arange(256, dtype="int32") % 2
        texts[:, 0] = 11 + labels
        start = layer.get_weights()
        losses = model.fit(texts, labels, epochs=6, verbose=0).history["loss"]
        assert losses[-1] < losses[0] / 2
        assert all(np.any(new != old) for new, old in zip(layer.get_weights(), start, strict=True))
        assert {weight.dtype for weight in layer.weights} == {"float32"}
        assert layer.compute_dtype == policy.removeprefix("mixed_")
        model.save(tmp_path / "model.keras")
        again = keras.models.load_model(tmp_path / "model.keras")
        np.testing.assert_array_equal(again(texts), model(texts))
    finally:
        keras.config.set_dtype_policy(before)


@pytest.mark.nightly
def test_the_page_runs_from_top_to_bottom(folder: Path, tmp_path: Path) -> None:
    """As a script, in a folder that has runs/toy alone; afterwards the run is as it was."""
    shutil.copytree(folder, tmp_path / "runs" / "toy")
    files = {path: path.read_bytes() for path in (tmp_path / "runs").rglob("*") if path.is_file()}
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 5
    (tmp_path / "page.py").write_text("\n".join(blocks), encoding="utf-8")
    done = subprocess.run([sys.executable, "page.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "(2, 3, " in done.stdout
    assert "accuracy:" in done.stdout
    assert {path: path.read_bytes() for path in (tmp_path / "runs").rglob("*") if path.is_file()} == files
