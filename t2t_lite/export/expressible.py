"""What the Transformers of Marian and of Hugging Face's MarianMT can compute; models that they cannot are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from t2t_lite import config
from t2t_lite.config import HParams
from t2t_lite.errors import UsageError
from t2t_lite.groups import DecodeGroup
from t2t_lite.ids import UNK
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.recipe_text import value_text
from t2t_lite.text.any_vocabulary import AnyVocabulary
from t2t_lite.text.codec import Outputs

PADDING, END, UNKNOWN = "<pad>", "</s>", "<unk>"

_ANY = (
    *("num_layers", "num_decoder_layers", "d_model", "d_ff", "num_heads", "d_k", "d_v", "share_embeddings"),
    *("activation", "output_bias", "attention_biases", "share_between_vocabularies"),
)
# Settings that change no output.
_OF_TRAINING = (
    *("initial_weights", "dropout", "attention_dropout", "relu_dropout", "remat"),
    *("alignment_layer", "guided_alignment"),
)
# Format -> setting of the model -> its values there; those of _ANY and _OF_TRAINING may have any, others the default.
EXPRESSED: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "marian": {"positions": ("tensor2tensor",), "norm": ("post", "pre"), "norm_epsilon": (1e-6,)},
    "huggingface": {
        "positions": ("sinusoidal",),
        "norm": ("post",),
        "norm_epsilon": (1e-5,),
        "start_vector": (False, True),
    },
}
ENGINES = {"marian": "Marian", "huggingface": "MarianMT of Hugging Face"}
# Settings of a search that other engines do not have, or have in another form.
_OWN = ("coverage_penalty", "beam_groups")


def check_recipe(name: str, model: str, hparams: HParams) -> None:
    """Raises UsageError if a format cannot express a model.

    Args:
        name: of the format.
        model: the registered name of the model.
    """
    engine = ENGINES[name]
    if model != "transformer" or not isinstance(hparams, TransformerHParams):
        raise UsageError(f"{engine} runs the model 'transformer', not {model!r}; export it with --format=saved_model.")
    others = []
    for field in config.model_fields(type(hparams)):
        if field.name not in (*_ANY, *_OF_TRAINING):
            value, allowed = getattr(hparams, field.name), EXPRESSED[name].get(field.name, (field.default,))
            if value not in allowed:
                others.append(f"{field.name}={value_text(value)} (only {' or '.join(map(value_text, allowed))})")
    if set(hparams.head_sizes) != {hparams.d_model / hparams.num_heads}:
        d_k, d_v = hparams.head_sizes
        others.append(f"heads of d_k={d_k} and d_v={d_v} (only d_model / num_heads)")
    if others:
        raise UsageError(f"{engine} cannot compute {', '.join(others)}; export it with --format=saved_model.")


def check_search(name: str, decode: DecodeGroup, banned_words: Sequence[str]) -> None:
    """Raises UsageError if another engine's search has no such option, or has it in another form."""
    given = [f"{one}={value:g}" for one in _OWN if (value := getattr(decode, one)) != getattr(DecodeGroup, one)]
    given += ["banned_words"] * bool(banned_words)
    if given:
        engine = ENGINES.get(name, "CTranslate2")
        raise UsageError(
            f"The search of {engine} cannot be given {', '.join(given)} as this one has it. Leave it out, or export "
            "with --format=saved_model."
        )


def check_model(name: str, model: Any) -> None:
    """Raises UsageError if a format cannot express a model; a subclass may compute anything."""
    from t2t_lite.models.transformer import Transformer

    check_recipe(name, "transformer" if type(model) is Transformer else type(model).__name__, model.hparams)


def check_text(name: str, vocabularies: Sequence[AnyVocabulary], outputs: Outputs) -> None:
    """Raises UsageError unless outputs are text, and SentencePiece cuts text into pieces that a format can name."""
    engine = ENGINES[name]
    if not outputs.is_text:
        raise UsageError(f"{engine} writes text, and this model is a parser; export it with --format=saved_model.")
    for vocabulary in vocabularies:
        if vocabulary.sentencepiece is None:
            raise UsageError(
                f"{engine} has text cut by SentencePiece, and this model has a vocabulary of the kind "
                f"{vocabulary.suffix[1:]}; export it with --format=saved_model."
            )
        pieces = list_pieces(vocabulary)
        names = {END, UNKNOWN, ""} | ({PADDING} if name == "huggingface" else set())  # Marian has no padding
        if twice := names & set(pieces):
            raise UsageError(
                f"{engine} gives the name {min(twice)!r} to a piece of its own, and this vocabulary has an ordinary "
                "piece of that name; export it with --format=saved_model."
            )
        if len(set(pieces)) < len(pieces):
            raise UsageError(f"{engine} needs a name for each piece, and this vocabulary has one name for two pieces.")


def list_pieces(vocabulary: AnyVocabulary) -> list[str]:
    """Returns the pieces by id from the first that is not special."""
    return vocabulary.pieces(range(UNK + 1, vocabulary.size))


def power_penalty(decode: Any) -> float:
    """Returns the exponent of the length by which both divide a log-probability.

    For ((5 + n) / 6)^alpha it is the one that is as steep near 20 pieces, as for CTranslate2.
    """
    from t2t_lite.export.ctranslate2_readme import USUAL_LENGTH, engine_length_penalty

    alpha = float(decode.length_penalty)
    if decode.length_penalty_form == "power":
        return alpha
    return round(engine_length_penalty(alpha, USUAL_LENGTH), 2)
