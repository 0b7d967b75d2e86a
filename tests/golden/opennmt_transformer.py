"""Writes opennmt_transformer.npz: checkpoints of OpenNMT-tf 2.32, their logits and their translations.

Needs OpenNMT-tf 2.32 (TensorFlow 2.13, Python 3.10), not this package:

    PYTHON_OF_OPENNMT tests/golden/opennmt_transformer.py FOLDER

OpenNMT-tf's own command trains each model in FOLDER on made-up sentences: each word has a translation, some have two.
Then its own command translates. For each model, the file holds, as NAME/...: "values" and "shapes", the variables of
the checkpoint; "graph", its description of objects; "description", model_description.py; vocabularies; ids and logits;
"lines", which were translated one by one; and "nbest", four translations of each line, each after its score.
"""

import json
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import opennmt
import tensorflow as tf
from opennmt import config as config_util
from opennmt.bin import main as onmt_main

SIZES = "num_layers=2, num_units=16, num_heads=2, ffn_inner_dim=24, dropout=0.0, attention_dropout=0.0, ffn_dropout=0.0"
SHARING = "share_embeddings=opennmt.models.EmbeddingsSharingLevel"
# name: (arguments of opennmt.models.Transformer, one vocabulary for both sides, the source ends in </s>)
MODELS = {
    "shared": (f"{SIZES}, {SHARING}.ALL", True, False),
    "separate": (f"{SIZES}, pre_norm=False", False, True),
    "relative": (f"{SIZES}, {SHARING}.TARGET, position_encoder_class=None, maximum_relative_position=3", True, False),
    "learned": (
        f"{SIZES.replace('=2,', '=(2, 1),', 1)}, {SHARING}.SOURCE_TARGET_INPUT, mha_bias=False, "
        "output_layer_bias=False, "
        "position_encoder_class=lambda: opennmt.layers.PositionEmbedder(maximum_position=9)",
        True,
        False,
    ),
}
WORDS, LINES, STEPS = 14, 16, 500


def sentence(generator: random.Random, target_prefix: str) -> tuple[str, str]:
    """A source and its translation: word for word, but with more than four words the last two are swapped."""
    ids = [generator.randrange(WORDS) for _ in range(generator.randint(1, 9))]
    translated = [(i + 5) % WORDS if i % 4 or generator.random() < 0.6 else (i + 6) % WORDS for i in ids]
    if len(translated) > 4:
        translated[-2:] = translated[:-3:-1]
    return " ".join(f"w{i}" for i in ids), " ".join(f"{target_prefix}{i}" for i in translated)


def write(path: Path, lines: list[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def vocabulary(path: Path, prefix: str, number: int) -> str:
    return write(path, ["<blank>", "<s>", "</s>", *(f"{prefix}{i}" for i in range(number))])


def configure(folder: Path, shared: bool, source_end: bool) -> tuple[dict[str, Any], str]:
    """The configuration of a training, and the file with lines to translate."""
    generator = random.Random(3)
    prefix = "w" if shared else "v"
    pairs = [sentence(generator, prefix) for _ in range(4000)]
    source = vocabulary(folder / "source.vocab", "w", WORDS)
    target = source if shared else vocabulary(folder / "target.vocab", "v", WORDS + 2)
    data = {
        "train_features_file": write(folder / "train.source", [pair[0] for pair in pairs]),
        "train_labels_file": write(folder / "train.target", [pair[1] for pair in pairs]),
        "source_vocabulary": source,
        "target_vocabulary": target,
    }
    if source_end:
        data["source_sequence_controls"] = {"end": True}
    lines = [sentence(generator, prefix)[0] for _ in range(LINES - 1)]
    return {
        "model_dir": str(folder / "run"),
        "data": data,
        "params": {
            "optimizer": "LazyAdam",
            "learning_rate": 0.01,
            "decay_type": None,
            "label_smoothing": 0.1,
            "average_loss_in_time": True,
            "length_penalty": 0.6,
            "beam_width": 4,
        },
        "train": {
            "batch_size": 64,
            "batch_type": "examples",
            "effective_batch_size": None,
            "max_step": STEPS,
            "save_checkpoints_steps": STEPS,
            "average_last_checkpoints": 0,
            "save_summary_steps": STEPS,
            "length_bucket_width": 10,
        },
        "infer": {"n_best": 4, "with_scores": True, "batch_size": 1},
    }, write(folder / "lines", [*lines, "w1 unheard w2"])


def command(*arguments: str) -> None:
    sys.argv = ["onmt-main", *arguments]
    onmt_main.main()


def logits_of(folder: Path, config: dict[str, Any], lines: list[str], outputs: list[str]) -> dict[str, Any]:
    """Ids of both sides, and the logits with the target given."""
    model = config_util.load_model(config["model_dir"])
    model.initialize(config["data"], params=config["params"])
    model.create_variables()
    checkpoint = tf.train.Checkpoint(model=model)
    checkpoint.restore(tf.train.latest_checkpoint(config["model_dir"])).expect_partial()
    features = model.features_inputter.make_features(tf.constant(lines), training=False)
    labels = model.labels_inputter.make_features(tf.constant(outputs), training=False)
    features, labels = ({k: _dense(v) for k, v in side.items()} for side in (features, labels))
    found, _ = model(features, labels, training=False)
    return {
        "source": features["ids"].numpy().astype(np.int32),
        "source_length": features["length"].numpy().astype(np.int32),
        "target": labels["ids_out"].numpy().astype(np.int32),
        "target_length": labels["length"].numpy().astype(np.int32),
        "logits": found["logits"].numpy(),
    }


def _dense(value: Any) -> Any:
    return value.to_tensor() if isinstance(value, tf.RaggedTensor) else value


def make(name: str, folder: Path) -> dict[str, Any]:
    arguments, shared, source_end = MODELS[name]
    folder.mkdir(parents=True)
    config, lines_file = configure(folder, shared, source_end)
    description = f"import opennmt\n\n\ndef model():\n    return opennmt.models.Transformer({arguments})\n"
    model_file = write(folder / "model.py", description.split("\n")[:-1])
    config_file = write(folder / "config.yml", [json.dumps(config)])
    tf.keras.utils.set_random_seed(5)
    command("--model", model_file, "--config", config_file, "--auto_config", "train")
    outputs_file = str(folder / "outputs")
    given = ["--features_file", lines_file, "--predictions_file", outputs_file]
    command("--config", config_file, "--auto_config", "infer", *given)
    lines, nbest = (Path(file).read_text(encoding="utf-8").split("\n")[:-1] for file in (lines_file, outputs_file))
    outputs = [row.partition(" ||| ")[2] for row in nbest[::4]]
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(config["model_dir"]))
    shapes = dict(sorted(reader.get_variable_to_shape_map().items()))
    del shapes["_CHECKPOINTABLE_OBJECT_GRAPH"]
    if name != "shared":  # one model with the optimizer's variables is enough
        shapes = {path: shape for path, shape in shapes.items() if path[:6] == "model/" and ".OPTIMIZER" not in path}
    found = logits_of(folder, config, lines[-8:], outputs[-8:])
    values = [np.float32(reader.get_tensor(path)).ravel() for path in shapes]
    found |= {
        "values": np.concatenate(values),
        "shapes": np.array(json.dumps(list(shapes.items()))),
        "description": np.array(description),
        "lines": np.array(lines),
        "nbest": np.array(nbest),
        "source_vocabulary": np.array(Path(config["data"]["source_vocabulary"]).read_text()),
        "target_vocabulary": np.array(Path(config["data"]["target_vocabulary"]).read_text()),
    }
    if name == "shared":
        found["graph"] = np.frombuffer(reader.get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH"), np.uint8)
    return {f"{name}/{key}": value for key, value in found.items()}


if __name__ == "__main__":
    arrays: dict[str, Any] = {"opennmt": np.array(opennmt.__version__)}
    out = Path(sys.argv[1])
    for model_name in MODELS:
        arrays |= make(model_name, out / model_name)
    np.savez_compressed(Path(__file__).with_suffix(".npz"), **arrays)
