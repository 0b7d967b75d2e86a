"""OpenNMT-tf's checkpoints as a `Transformer`; tests/golden/opennmt_transformer.py made the numbers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import config
from t2t_lite.decoding.beam_search import length_penalty
from t2t_lite.errors import DataError, UsageError
from t2t_lite.importers import import_report, opennmt, opennmt_settings, run_folder, t2t_model, toolkits
from t2t_lite.importers.imported import Imported
from t2t_lite.importers.vocabularies import ByteVocabulary, OpenNmtVocabulary
from tests.importers.made_up import save as save_t2t
from tests.importers.made_up import variables as t2t_variables
from tests.importers.opennmt_golden import NAMES, SETTINGS, SINES, SOURCE_END, golden, save
from tests.importers.opennmt_search import search
from tests.searches import search_graph

_KERNEL = "model/encoder/layers/1/ffn/layer/inner/kernel/.ATTRIBUTES/VARIABLE_VALUE"


def _read(folder: Path, found: dict[str, Any], name: str) -> tuple[Imported, tuple[Any, Any]]:
    save(folder, found)
    same = str(found["source_vocabulary"]) == str(found["target_vocabulary"])
    files = [OpenNmtVocabulary(str(found[f"{side}_vocabulary"]).encode()) for side in ("source", "target")]
    return toolkits.read([str(folder)], files[:1] if same else files, [], hparams=SETTINGS[name])


def _ours(ids: np.ndarray) -> np.ndarray:
    """Maps OpenNMT-tf's ids to ours, where the end symbol has id 1 and the start symbol id 2."""
    return np.array([0, 2, 1, *range(3, 99)], np.int32)[ids]


@pytest.mark.commit
@pytest.mark.parametrize("name", NAMES)
def test_logits_are_those_of_opennmt(tmp_path: Path, name: str) -> None:
    found = golden(name)
    imported, _ = _read(tmp_path, found, name)
    source, target = _ours(found["source"]), _ours(found["target"])
    if name not in SOURCE_END:  # here each source sentence has an end symbol
        source = np.pad(source, ((0, 0), (0, 1)))
        source[np.arange(len(source)), found["source_length"]] = 1
    model = t2t_model.build(imported, run_folder.recipe(imported, {}))
    logits = np.array(model({"source": source, "target": target}))
    wanted = found["logits"][:, :, _ours(np.arange(found["logits"].shape[-1]))]
    real = np.arange(target.shape[1]) < found["target_length"][:, None]
    assert np.abs(wanted[real]).max() > 2
    assert np.abs(logits - wanted)[real].max() <= 2e-5


def test_what_the_models_are(tmp_path: Path) -> None:
    described = {name: _read(tmp_path / name, golden(name), name)[0].description for name in NAMES}
    kinds = ("norm", "positions", "max_relative_position", "attention_biases", "output_bias", "source_end")
    assert {name: [getattr(found, kind) for kind in kinds] for name, found in described.items()} == {
        "shared": ["pre", "opennmt", 0, True, True, False],
        "separate": ["post", "opennmt", 0, True, True, True],
        "relative": ["pre", "none", 3, True, True, False],
        "learned": ["pre", "learned", 0, False, False, False],
    }
    sharing = {name: (found.shared, found.share_embeddings) for name, found in described.items()}
    assert sharing == {
        "shared": (True, True),
        "separate": (False, False),
        "relative": (False, True),
        "learned": (False, False),
    }
    learned = described["learned"]
    assert (learned.max_positions, learned.num_layers, learned.num_decoder_layers) == (9, 2, 1)


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
def test_n_best_lists_are_those_of_opennmt(tmp_path: Path, name: str) -> None:
    """OpenNMT-tf's search on our model finds the same lists and scores as OpenNMT-tf.

    Our search finds at least half of the lists, and all but at most two of the best translations.
    """
    found = golden(name)
    imported, (source, target) = _read(tmp_path, found, name)
    model = t2t_model.build(imported, run_folder.recipe(imported, {}))
    rows = [[*source.encode(line), 1] for line in found["lines"]]
    ids = np.array([row + [0] * (max(map(len, rows)) - len(row)) for row in rows], np.int32)
    theirs = [row.split(" ||| ") for row in found["nbest"]]
    texts = [text for _, text in theirs]
    outputs, scores = search(tf.function(model, autograph=False), ids, 4, alpha=0.6)
    assert [target.decode(row) for sentence in outputs for row in sentence] == texts
    lengths = 1 + (outputs > 1).sum(-1)
    wanted = np.array([float(score) for score, _ in theirs]).reshape(scores.shape)
    assert np.abs((scores - wanted) / length_penalty(lengths, 0.6)).max() <= 1e-5
    found_by_ours, _ = search_graph(model, 4, extra=50, early_stop=False)(ids)
    ours = [[target.decode(row) for row in sentence] for sentence in found_by_ours.numpy()]
    lists = [texts[i : i + 4] for i in range(0, len(texts), 4)]
    assert sum(ours[i][0] == lists[i][0] for i in range(len(ids))) >= len(ids) - 2
    assert sum(ours[i] == lists[i] for i in range(len(ids))) >= len(ids) // 2


def test_the_epsilon_of_releases_before_2_3(tmp_path: Path) -> None:
    """2.3.0 made it larger (its CHANGELOG.md); nothing in the folder says which one a model had."""
    save(tmp_path, golden("shared"))
    for given, wanted in (("", 1e-3), (",norm_epsilon=1e-6", 1e-6)):
        imported = opennmt.read([tmp_path], hparams=f"num_heads=2{given}")
        assert imported.description.norm_epsilon == wanted
        assert config.to_dict(run_folder.recipe(imported, {}))["norm_epsilon"] == wanted
    with pytest.raises(UsageError, match="norm_epsilon"):
        run_folder.recipe(opennmt.read([tmp_path], hparams="num_heads=2,norm_epsilon=x"), {})


def test_each_variable_is_used_once(tmp_path: Path) -> None:
    found = golden("shared")
    imported, _ = _read(tmp_path / "whole", found, "shared")
    variables = imported.variables
    assert len(variables.weights) + len(variables.slots) + len(variables.counters) == len(found["variables"])
    values = config.to_dict(run_folder.recipe(imported, {"beam_size": 2}))
    assert (values["norm_epsilon"], values["length_penalty"], values["beam_size"]) == (1e-3, 0.0, 2)
    without = {name: array for name, array in found["variables"].items() if name != _KERNEL}
    save(tmp_path / "less", found, without)
    with pytest.raises(DataError, match="transformer/encoder/layer_1/.*/kernel_1 has shape none in it"):
        t2t_model.build(opennmt.read([tmp_path / "less"], hparams=SETTINGS["shared"]))
    for name, said in (
        (_KERNEL.replace("inner", "gate"), "encoder/layers/1/ffn/layer/gate/kernel, which nothing here is like"),
        ("other/kernel", "no part of an OpenNMT-tf model: other/kernel"),
    ):
        save(tmp_path / "more", found, found["variables"] | {name: np.ones(2, np.float32)})
        with pytest.raises(DataError, match=said):
            opennmt.read([tmp_path / "more"], hparams=SETTINGS["shared"])
    only = {name: array for name, array in found["variables"].items() if not name.startswith("model/encoder")}
    save(tmp_path / "language_model", found, only)
    with pytest.raises(DataError, match="not of OpenNMT-tf's Transformer, which has encoder/layers/0/"):
        opennmt.read([tmp_path / "language_model"], hparams=SETTINGS["shared"])


def _said(imported: Imported, recipe: Any, vocabulary: OpenNmtVocabulary) -> dict[str, str]:
    return dict(
        import_report.lines(run_folder.Import(imported, recipe, (vocabulary, vocabulary), ("a", "a"), {}, {}), 1)
    )


def test_what_nothing_says_is_assumed_and_reported(tmp_path: Path) -> None:
    found = golden("shared")
    save(tmp_path, found)
    vocabulary = OpenNmtVocabulary(str(found["source_vocabulary"]).encode())
    given = opennmt.read([tmp_path], hparams=f"{SETTINGS['shared']},num_units=16,dropout=0.3")
    recipe = run_folder.recipe(given, {})
    assert (recipe.dropout, recipe.attention_dropout, recipe.relu_dropout) == (0.3, 0.1, 0.1)
    assert "activation" not in _said(given, recipe, vocabulary)
    assert _said(given, recipe, vocabulary)["dropout"].startswith("attention_dropout=0.1,ffn_dropout=0.1 (assumed; ")
    alone = opennmt.read([tmp_path], hparams="num_heads=2")
    assert _said(alone, run_folder.recipe(alone, {}), vocabulary)["activation"].startswith("relu (assumed; ")


def test_sinusoids_beside_relative_positions(tmp_path: Path) -> None:
    """OpenNMT-tf adds sinusoids unless position_encoder_class is None; the user must say which."""
    save(tmp_path, golden("relative"))
    with pytest.raises(DataError, match="does not say whether sinusoids are added, too. Give --hparams=position_enc"):
        opennmt.read([tmp_path])
    for name, positions in (("None", "none"), (SINES, "opennmt")):
        described = opennmt.read([tmp_path], hparams=f"position_encoder_class={name}").description
        assert (described.positions, described.max_relative_position) == (positions, 3)


def test_recipes_are_those_of_the_catalog() -> None:
    """ScalingNmtEnDe and EnFr have an optimizer and dropouts of their own."""
    names = ("dropout", "attention_dropout", "relu_dropout", "adam_beta2", "adam_epsilon", "schedule", "warmup_steps")
    wanted = {
        "TransformerBig": (0.1, 0.1, 0.1, 0.998, 1e-7, None, 8000),
        "ScalingNmtEnDe": (0.3, 0.1, 0, 0.98, 1e-8, "inverse_sqrt", 4000),
        "ScalingNmtEnFr": (0.1, 0, 0, 0.98, 1e-8, "inverse_sqrt", 4000),
    }
    found = {name: opennmt_settings.complete(opennmt_settings.read(name, None)) for name in wanted}
    assert {name: tuple(map(recipe.get, names)) for name, recipe in found.items()} == wanted
    assert [found[name].get("learning_rate") for name in wanted] == [None, 0.001, 0.0007]
    given = opennmt_settings.read("TransformerBase", "dropout=0.2")
    assert opennmt_settings.complete(given)["dropout"] == 0.2


@pytest.mark.parametrize(("name", "given"), [("relative", "TransformerBase"), ("shared", "TransformerBaseRelative")])
def test_a_name_of_the_catalog_has_the_positions_of_the_checkpoint(tmp_path: Path, name: str, given: str) -> None:
    save(tmp_path, golden(name))
    with pytest.raises(UsageError, match=r"the .* has relative positions, and the .* has none\. Give the name of its"):
        opennmt.read([tmp_path], hparams_set=given, hparams="num_units=16,num_heads=2")


def test_what_is_refused(tmp_path: Path) -> None:
    found = golden("shared")
    save(tmp_path, found)
    vocabulary = OpenNmtVocabulary(str(found["source_vocabulary"]).encode())

    def read(**settings: Any) -> Any:
        return opennmt.read([tmp_path], **settings)

    named = {"hparams_set": "TransformerBase", "hparams": "num_units=16"}
    assert [read(**given).description.num_heads for given in ({"hparams": "num_heads=2"}, named)] == [2, 8]
    for settings, error, said in (
        ({"hparams": "num_heads=3"}, DataError, "num_heads=3 does not divide the 16 columns"),
        ({"hparams": "ffn_activation=gelu"}, DataError, "ffn_activation=gelu .only relu"),
        ({"hparams": "head=3"}, UsageError, "head is no setting of an OpenNMT-tf model"),
        ({"hparams_set": "LuongAttention"}, UsageError, "no Transformer of OpenNMT-tf's catalog"),
        (
            {"hparams": "num_heads=2,position_encoder_class=PositionEmbedder"},
            DataError,
            "learned positions, and the checkpoint",
        ),
        ({"hparams": "num_units=32"}, DataError, "they say num_units=32, and the checkpoint has 16"),
        ({"hparams_set": "TransformerTiny"}, DataError, "they say num_units=64, and the checkpoint has 16"),
        ({"target_space_id": 1}, UsageError, "models of OpenNMT-tf have no target space"),
    ):
        with pytest.raises(error, match=said):
            read(**settings)
    with pytest.raises(DataError, match="does not say how many heads its attention has; the model_description.py of"):
        read()
    with pytest.raises(UsageError, match="--with_optimizer: .*ckpt-500 is of OpenNMT-tf, whose optimizer is not taken"):
        toolkits.read([str(tmp_path)], [vocabulary], [], with_optimizer=True)
    other = OpenNmtVocabulary(vocabulary.data + b"more\n")
    with pytest.raises(UsageError, match="has 19 tokens with <unk>, and the model's source embedding 18 rows"):
        toolkits.read([str(tmp_path)], [other], [], hparams="num_heads=2")
    prefix = save_t2t(tmp_path / "t2t" / "model.ckpt-1", t2t_variables())
    with pytest.raises(UsageError, match="is a checkpoint of tensor2tensor, and the vocabulary is not"):
        toolkits.read([prefix], [vocabulary], [])


def test_checkpoints_of_neither_toolkit_are_called_so(tmp_path: Path) -> None:
    """With OpenNMT-tf's vocabulary it may be of its release 1, whose variables have names of TensorFlow 1."""
    vocabulary = OpenNmtVocabulary(str(golden("shared")["source_vocabulary"]).encode())
    of_release_1 = {"transformer/encoder/layer_0/ffn/conv1d/kernel": np.ones((1, 2, 2), np.float32)}
    prefix = save_t2t(tmp_path / "model.ckpt-3", of_release_1)
    said = "is no checkpoint of tensor2tensor's Transformer, .* nor of OpenNMT-tf 2, .*; it holds transformer/encoder/l"
    with pytest.raises(DataError, match=rf"{said}.*/kernel\. If OpenNMT-tf 1 trained it: release 2 upgrades"):
        toolkits.read([prefix], [vocabulary], [])
    with pytest.raises(DataError, match=rf"{said}.*/kernel\.$"):
        toolkits.read([prefix], [ByteVocabulary()], [])
