"""A run with untrained weights, written as the trainer does; all have the same vocabulary."""

from pathlib import Path

from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.runs.checkpoint import Checkpoints
from t2t_lite.runs.record import make_record
from t2t_lite.runs.run_dir import RunSpec, write_run
from t2t_lite.text.vocabulary_training import train_vocabulary

_TEXT = ["a small dog sees the big cat", "ein kleiner Hund sieht die Katze"] * 2


def write_spec(folder: Path, beam_size: int) -> RunSpec:
    hparams = TransformerHParams(num_layers=1, d_model=16, d_ff=16, num_heads=2, beam_size=beam_size, extra_length=3)
    spec = RunSpec("toy_ende", {}, "data", None, "base", "transformer", hparams)
    write_run(folder, spec)
    return spec


def make_run(folder: Path, beam_size: int) -> Path:
    vocabulary = train_vocabulary(_TEXT, size=60)
    spec = write_spec(folder, beam_size)
    vocabulary.save(folder / "vocabulary.model")
    model = Transformer.from_hparams(spec.hparams, vocabulary.size, vocabulary.size, True)
    Checkpoints(folder, model, record=make_record(spec)).save(7)
    return folder
