"""model_description.py of OpenNMT-tf: it is read and never run."""

from pathlib import Path
from typing import Any

import pytest

from t2t_lite.errors import DataError
from t2t_lite.importers import opennmt_catalog, opennmt_settings
from tests.importers.opennmt_golden import ALL_SETTINGS, SINES

_ASKED = "=num_heads=N,ffn_activation=NAME,position_encoder_class=NAME"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('model = lambda: models.get_model_from_catalog("TransformerBigRelative")', (16, None)),
        ("model = lambda: onmt.models.Transformer(a, b, 6, 512, 4, 2048, ffn_activation=tf.nn.relu)", (4, SINES)),
        ("model = lambda: models.Transformer(maximum_relative_position=4)", (8, SINES)),
        ("model = lambda: opennmt.models.Transformer(position_encoder_class=None)", (8, None)),
        ("model = onmt.models.catalog.TransformerTiny()", (2, SINES)),
        ("class M(models.TransformerBig):\n  pass\nmodel = lambda: M()", (16, SINES)),
        ("class M(opennmt.models.Transformer):\n  pass", (8, SINES)),
        ("class M(opennmt.models.Transformer):\n  pass\nmodel = lambda: M(num_heads=4)", (4, SINES)),
        ("class M(models.TransformerBig):\n  pass\nmodel = lambda: M(position_encoder_class=None)", (16, None)),
        (
            "class M(Transformer):\n  def __init__(self, n):\n    super().__init__(num_heads=2)\nM(n=4)",
            (2, SINES),
        ),
        (
            "class M(Transformer):\n  def __init__(self):\n    super().__init__(num_heads=2, position_encoder_class="
            "lambda: layers.PositionEmbedder(9))",
            (2, "PositionEmbedder"),
        ),
        (
            "class M(Transformer):\n  def __init__(self):\n    Transformer.__init__(self, a, b, 6, 512, 4)",
            (4, SINES),
        ),
        (
            "class M(Transformer):\n  def __init__(self):\n    super(M, self).__init__(a, b, 6, 512, 4)",
            (4, SINES),
        ),
        (
            "class M(Transformer):\n  def auto_config(self):\n    return super(M, self).auto_config()\nM(num_heads=4)",
            (4, SINES),
        ),
        ("model = lambda: catalog.TransformerBig(num_heads=4)", (4, SINES)),
    ],
)
def test_the_description_is_read_and_not_run(tmp_path: Path, text: str, wanted: tuple[Any, Any]) -> None:
    (tmp_path / "model_description.py").write_text(f"raise SystemExit\n{text}\n")
    found = opennmt_settings.read(tmp_path, None, None)
    assert tuple(found.get(name, "absent") for name in ("num_heads", "position_encoder_class")) == wanted


@pytest.mark.parametrize(
    ("text", "given", "said"),
    [
        (
            "Transformer(num_heads=HEADS)",
            "num_heads=2",
            "'HEADS' as num_heads of its .* Give --hparams=num_heads=VALUE",
        ),
        ("Transformer(a, b, *sizes)", ALL_SETTINGS, rf"'\*sizes' as arguments of its .*{_ASKED}\.$"),
        ("Transformer(**settings)", ALL_SETTINGS, f"'settings' as arguments of its .*: only running it .*{_ASKED}"),
        (
            "M()\nclass M(Transformer):\n  def __init__(*all):\n    Transformer.__init__(*all)",
            ALL_SETTINGS,
            rf"'\*all' as arguments .*{_ASKED}\.$",
        ),
        (
            "partial(M, num_heads=4)\nclass M(Transformer):\n  pass",
            ALL_SETTINGS,
            r"'partial\(M, num_heads=4\)' as .*=num_heads=N,",
        ),
        ("M(2), M(num_heads=4)\nclass M(Transformer):\n  pass", "", "describes several Transformers, and which one"),
        ("TransformerTiny(**settings)", ALL_SETTINGS, f"'settings' as arguments .*{_ASKED}"),
        (
            "Transformer(num_heads=2, ffn_activation=tf.nn.relu, **settings)",
            "position_encoder_class=None",
            r"Give --hparams=position_encoder_class=NAME\.$",
        ),
        (
            "Transformer(num_heads=2, ffn_activation=gelu if BIG else relu)",
            "ffn_activation=relu",
            "'gelu if BIG else relu' as ffn_activation of its .* Give --hparams=ffn_activation=VALUE",
        ),
        (
            "Transformer(num_heads=2, ffn_activation=lambda x: 2 * tf.nn.relu(x))",
            "ffn_activation=relu",
            r"'lambda x: 2 \* tf.nn.relu\(x\)' as ffn_activation of its",
        ),
        (
            "Transformer(num_heads=2, position_encoder_class=lambda: SinusoidalPositionEncoder(MultiplyReducer()))",
            f"position_encoder_class={SINES}",
            r"'lambda: SinusoidalPositionEncoder\(MultiplyReducer\(\)\)' as position_encoder_class of its",
        ),
        (
            "Transformer(num_heads=2, dropout='x')",
            "dropout=0.1",
            "model_description.py has dropout='x' for its Transformer, where a number of at least 0 and below 1 is "
            "needed. Give --hparams=dropout=VALUE",
        ),
        ("Transformer(num_heads=2, ffn_dropout=1.0)", "ffn_dropout=0.1", "has ffn_dropout=1.0 .* below 1 is needed"),
        ("Transformer(num_heads='2')", "num_heads=2", "has num_heads='2' .* where an integer of at least 1 is needed"),
        ("Transformer(num_heads=2), Transformer()", "", "describes several Transformers, and which one"),
    ],
)
def test_what_only_running_the_description_would_tell(tmp_path: Path, text: str, given: str, said: str) -> None:
    """No setting that changes outputs is assumed to have OpenNMT-tf's default; a given value is accepted."""
    (tmp_path / "model_description.py").write_text(f"model = lambda: {text}\n")
    with pytest.raises(DataError, match=said):
        opennmt_settings.read(tmp_path, None, None)
    if given:
        assert opennmt_settings.read(tmp_path, None, given)["num_heads"] == 2


@pytest.mark.parametrize("text", ["x = " + "-" * 100_000 + "1", "x" + ".b" * 100_000])
def test_a_description_that_is_nested_too_deeply(tmp_path: Path, text: str) -> None:
    (tmp_path / "model_description.py").write_text(text)
    with pytest.raises(DataError, match=r"model_description\.py is (nested too deeply|not the Python)"):
        opennmt_settings.read(tmp_path, None, None)


def test_recipes_are_those_of_the_catalog() -> None:
    """ScalingNmtEnDe and EnFr have an optimizer and dropouts of their own."""
    names = ("dropout", "attention_dropout", "relu_dropout", "adam_beta2", "adam_epsilon", "schedule", "warmup_steps")
    wanted = {
        "TransformerBig": (0.1, 0.1, 0.1, 0.998, 1e-7, None, 8000),
        "ScalingNmtEnDe": (0.3, 0.1, 0, 0.98, 1e-8, "inverse_sqrt", 4000),
        "ScalingNmtEnFr": (0.1, 0, 0, 0.98, 1e-8, "inverse_sqrt", 4000),
    }
    found = {name: opennmt_catalog.usual(opennmt_settings.read(Path(), name, None)) for name in wanted}
    assert {name: tuple(map(recipe.get, names)) for name, recipe in found.items()} == wanted
    assert [found[name].get("learning_rate") for name in wanted] == [None, 0.001, 0.0007]
    given = opennmt_settings.read(Path(), "TransformerBase", "dropout=0.2")
    assert opennmt_catalog.usual(given)["dropout"] == 0.2
