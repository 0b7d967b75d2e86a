"""Report of an import."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from t2t_lite import config
from t2t_lite.importers import opennmt_settings, t2t_precision, t2t_training
from t2t_lite.importers.imported import Imported
from t2t_lite.importers.marian_vocabulary import MarianVocabulary
from t2t_lite.importers.run_folder import Import, hparams_set, training


def lines(found: Import, parameters: int) -> Iterator[tuple[str, str]]:
    """Yields (topic, a line about it).

    Args:
        parameters: number of parameters of the model as it was written.
    """
    imported, hparams = found.imported, config.to_dict(found.hparams)
    described, variables = imported.description, imported.variables
    names = ", ".join(os.path.basename(prefix) for prefix in imported.checkpoints)
    mean = f"the mean of {len(imported.checkpoints)}: " if len(imported.checkpoints) > 1 else ""
    yield "checkpoint", f"{mean}{names} in {os.path.dirname(imported.checkpoints[-1]) or '.'}, {_scope(imported)}"
    yield "model", _model(found.imported, parameters)
    if imported.toolkit == "tensor2tensor":
        of_training = {
            "precision": t2t_precision.describe(imported.hparams),
            "training": _training(imported, hparams),
            "optimizer": t2t_training.describe_optimizer(imported.hparams),
            "schedule": t2t_training.describe_schedule(imported.hparams),
        }
        yield from ((name, text) for name, text in of_training.items() if text)
        values, reason = imported.assumed
        if values:
            yield "assumed", f"{_pairs(values)} ({reason}; the training's hparams.json would)"
    assumed = imported.toolkit == "OpenNMT-tf" and "position_encoder_class" not in imported.hparams
    why = " (assumed; if there are none: --hparams=position_encoder_class=None)" if assumed else ""
    if of_recipe := training(imported.toolkit):
        learned = {name: of_recipe[name] for name in ("schedule", "learning_rate", "warmup_steps")}
        of_set = hparams_set(imported.toolkit)
        yield "training", f"{_pairs(learned)}, ... (of the hparams set {of_set}; only continued training has it)"
    yield "positions", f"{_positions(imported)}{why if described.positions == 'opennmt' else ''}"
    if imported.target_space is not None:
        yield "target space", f"{imported.target_space.row} ({imported.target_space.why})"
    if imported.toolkit == "OpenNMT-tf":
        why = "" if "source_end" in imported.hparams else " (assumed; if its data had it: --hparams=source_end=true)"
        yield "source", f"{'with' if described.source_end else 'without'} an end symbol{why}"
        if "ffn_activation" not in imported.hparams:
            yield "activation", "relu (assumed; no other can be imported)"
        if unsaid := [name for name in opennmt_settings.DROPOUTS if name not in imported.hparams]:
            taken = ",".join(f"{name}={opennmt_settings.DEFAULTS[name]}" for name in unsaid)
            yield "dropout", f"{taken} (assumed; only continued training has it; give others by --hparams)"
    sides = dict.fromkeys(found.vocabulary_files)
    for path, vocabulary in zip(sides, dict.fromkeys(found.vocabularies), strict=False):
        yield "vocabulary", f"{vocabulary.size:,} ids, {vocabulary.suffix[1:]}, of {path}"
    source = found.vocabularies[0]
    if isinstance(source, MarianVocabulary):
        changes = len(source.cleaning)
        yield "text", f"cut by SentencePiece{f', after {changes} replacements of preprocess.sh' if changes else ''}"
        if source.labels:
            yield "labels", f"each line begins with one of {', '.join(source.labels)}"
    if layer := described.alignment_layer:
        known = imported.toolkit != "Marian" or "guided-alignment" in imported.hparams
        doubt = "" if known else " (if it was trained with guided alignment, which its files do not say)"
        yield "alignments", f"of layer {layer} of the decoder, first head{doubt}"
    if imported.ignored:
        yield "ignored", f"{', '.join(imported.ignored)} (not followed here)"
    if imported.licence:
        yield "licence", f"{imported.licence.get('name', 'of its own')}, of {imported.licence.get('file', 'README.md')}"
    left = [(len(variables.slots), "of the optimizer"), (len(variables.counters), "of counters")]
    without = ", ".join(f"{number} {what}" for number, what in left if number)
    yield "variables", f"{len(variables.weights)}, each used once{f'; left out: {without}' if without else ''}"
    factor = hparams["max_length_factor"]
    longest = "" if factor == 1 else f"max_length_factor={factor:g}, "
    form = " (power)" if hparams["length_penalty_form"] == "power" else ""
    yield (
        "decoding",
        f"beam_size={hparams['beam_size']}, length_penalty={hparams['length_penalty']:g}{form}, "
        f"{longest}extra_length={hparams['extra_length']}, inputs of at most {hparams['max_source_length']} pieces",
    )


def _training(imported: Imported, recipe: Mapping[str, Any]) -> str | None:
    """Where settings of the training come from that no file beside the checkpoint says."""
    if imported.training_set:
        return (
            f"of {imported.training_set}, as tensor2tensor 1.15.7 has it (assumed; other releases may differ; only "
            "continued training has it)"
        )
    assumed = t2t_training.find_assumed(imported.hparams, recipe)
    return f"{_pairs(assumed)} (assumed; only continued training has it; give others by --hparams)" if assumed else None


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _scope(imported: Imported) -> str:
    """The scope of the variables, which shows the release that wrote them."""
    weights = imported.variables.weights
    if imported.toolkit != "tensor2tensor":
        return f"variables of {imported.toolkit}"
    return f"variables {next(full[: -len(name)] for name, full in weights.items() if name.startswith('body/'))}body/..."


def _model(imported: Imported, parameters: int) -> str:
    described = imported.description
    tables = "one table for source, target and softmax" if described.shared else "a table for each side"
    if not described.share_embeddings:
        tables += " and one for the softmax"
    layers = f"{described.num_layers} + {described.num_decoder_layers} layers"
    sizes = f"d_model {described.d_model}, d_ff {described.d_ff}, {described.num_heads} heads of {described.d_k}"
    if described.attention_biases:
        of_2017 = " (tensor2tensor 1.2.9 or before)" if imported.toolkit == "tensor2tensor" else ""
        sizes += f", attention with biases{of_2017}"
    return f"Transformer, {layers}, {sizes}, {described.norm}-norm, {tables}; {parameters:,} parameters"


def _positions(imported: Imported) -> str:
    described = imported.description
    rows, of_t2t = described.max_positions, imported.toolkit == "tensor2tensor"
    found = {
        "learned": f"learned, {rows - 1}, then zeros" if of_t2t else f"learned, {rows}",
        "tensor2tensor": "sines, then cosines",
        "opennmt": "sines, then cosines, from 1",
        "sinusoidal": "sines, then cosines, at transformers' rates, which differ from Marian's",
        "none": "none",
    }[described.positions]
    return (
        f"{found}; relative ones up to {described.max_relative_position}" if described.max_relative_position else found
    )
