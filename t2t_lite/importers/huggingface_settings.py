"""Settings of a MarianMT folder: those that decide what is computed, those that change nothing here, and all others.

Names and values are those of transformers 4.57 and 5.24.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from t2t_lite.errors import DataError

_MOST, _MOST_LAYERS = 10_000_000, 256
SIZES = ("d_model", "encoder_layers", "decoder_layers", "encoder_attention_heads", "encoder_ffn_dim", "vocab_size")
# Setting of config.json -> the values that a Transformer of this package has; None: not given.
EXPRESSED: Mapping[str, tuple[Any, ...]] = {
    "model_type": ("marian",),
    "activation_function": ("relu", "swish", "silu", "gelu"),
    "scale_embedding": (True,),
    "static_position_embeddings": (True, None),
    "architectures": (["MarianMTModel"], None),
    "is_encoder_decoder": (True, None),
    "pruned_heads": ({}, None),
    "chunk_size_feed_forward": (0, None),
    **dict.fromkeys(
        (
            *("normalize_embedding", "normalize_before", "add_final_layer_norm"),
            *("is_decoder", "add_cross_attention", "tie_encoder_decoder"),
        ),
        (False, None),
    ),
    **dict.fromkeys(("share_encoder_decoder_embeddings", "tie_word_embeddings"), (True, False, None)),
    **dict.fromkeys(("quantization_config", "auto_map", "cross_attention_hidden_size"), (None,)),
}
# Settings of generation_config.json that change what a search finds.
_SEARCHED: Mapping[str, tuple[Any, ...]] = {
    "do_sample": (False, None),
    "penalty_alpha": (0, None),
    **dict.fromkeys(("encoder_repetition_penalty", "num_beam_groups", "guidance_scale"), (1, None)),
    **dict.fromkeys(
        ("encoder_no_repeat_ngram_size", "diversity_penalty"),
        (0, None),
    ),
    **dict.fromkeys(
        (
            *("forced_bos_token_id", "suppress_tokens", "begin_suppress_tokens", "sequence_bias", "force_words_ids"),
            *("forced_decoder_ids", "constraints", "exponential_decay_length_penalty", "watermarking_config"),
            *("stop_strings", "max_time", "dola_layers"),
        ),
        (None,),
    ),
    "renormalize_logits": (False, True, None),
}
_READ = (
    *SIZES,
    *("decoder_vocab_size", "decoder_attention_heads", "decoder_ffn_dim"),
    *("pad_token_id", "eos_token_id", "decoder_start_token_id"),
)
_READ_OF_SEARCH = (
    *("num_beams", "length_penalty", "max_length", "max_new_tokens", "bad_words_ids"),
    *("no_repeat_ngram_size", "min_length", "min_new_tokens", "repetition_penalty"),
)
# Of training, of other models, of how transformers runs a model or shows it.
_HARMLESS = {
    *("dropout", "attention_dropout", "activation_dropout", "classifier_dropout", "classif_dropout", "init_std"),
    *("encoder_layerdrop", "decoder_layerdrop", "gradient_checkpointing", "label2id", "id2label", "num_labels"),
    *("_num_labels", "problem_type", "finetuning_task", "add_bias_logits", "save_step", "extra_pos_embeddings"),
    *("max_position_embeddings", "num_hidden_layers", "hidden_size", "num_attention_heads", "bos_token_id"),
    *("_name_or_path", "transformers_version", "torch_dtype", "dtype", "tokenizer_class", "torchscript"),
    *("use_bfloat16", "_attn_implementation_autoset"),
}
_HARMLESS_IN_SEARCH = {
    *("use_cache", "forced_eos_token_id", "_from_model_config"),
    *("temperature", "top_k", "top_p", "min_p", "top_h", "typical_p", "epsilon_cutoff", "eta_cutoff"),
    *("output_attentions", "output_hidden_states", "output_scores", "output_logits", "output_past"),
    *("return_dict", "return_dict_in_generate", "remove_invalid_values", "low_memory", "transformers_version"),
    *("cache_implementation", "cache_config", "return_legacy_cache", "pad_token_id", "bos_token_id"),
}


def check(settings: Mapping[str, Any], expressed: Mapping[str, tuple[Any, ...]]) -> None:
    """Raises DataError unless each setting has one of the values that are allowed."""
    for name, allowed in expressed.items():
        if settings.get(name) not in allowed:
            raise DataError(
                f"This model of Hugging Face cannot be expressed here: {name}={settings.get(name)!r:.80} (only "
                f"{' or '.join(map(str, allowed))})."
            )


def count(settings: Mapping[str, Any], name: str) -> int:
    """Returns a number of config.json; DataError if it is none."""
    number, most = settings.get(name), _MOST_LAYERS if name.endswith("_layers") else _MOST
    if type(number) is not int or not 0 < number <= most:
        raise DataError(f"config.json says {name}={number!r:.80}, which is no number from 1 to {most:,}.")
    return number


def read_search(settings: Mapping[str, Any], *, padding: int, unknown: int) -> dict[str, Any]:
    """Returns the search of generation_config.json: a score is the log-probability divided by length^length_penalty.

    An output has at most max_new_tokens pieces, or one less than max_length, which counts the start, as min_length.

    Args:
        padding, unknown: ids of these pieces.
    """
    never = settings.get("bad_words_ids")
    without_unknown = [[padding], [unknown]]
    check(settings, {**_SEARCHED, "bad_words_ids": (None, [], [[padding]], without_unknown)})
    found: dict[str, Any] = {"length_penalty_form": "power"}
    if never == without_unknown:
        found["unknown_output"] = False
    for name, field, usual in (
        ("num_beams", "beam_size", 1),
        ("length_penalty", "length_penalty", 1.0),
        ("repetition_penalty", "repetition_penalty", 1.0),
    ):
        value: Any = settings.get(name)
        found[field] = type(usual)(value) if type(value) in (int, type(usual)) else usual
        if value is not None and found[field] != value:
            raise DataError(f"The search of the model says {name}={value!r:.80}, which is no such number.")
    if found["repetition_penalty"] != 1 and settings.get("renormalize_logits"):
        raise DataError(
            "The search of the model says repetition_penalty and renormalize_logits=True. Here, what the penalty takes "
            "off a probability is not shared out again. Take one of them out of generation_config.json."
        )
    for name, field, start in (
        ("no_repeat_ngram_size", "no_repeat_ngram_size", 0),
        ("min_length", "min_length", 1),
        ("min_new_tokens", "min_length", 0),
    ):  # the larger one of the last two counts
        value = settings.get(name) or 0
        if type(value) is not int or value < 0:
            raise DataError(f"The search of the model says {name}={value!r:.80}, which is no such number.")
        if value > start:
            found[field] = max(found.get(field, 0), value - start)
    for name, start in (("max_length", 1), ("max_new_tokens", 0)):  # the second one counts if both are there
        value = settings.get(name)
        if value is not None:
            if type(value) is not int or value <= start:
                raise DataError(f"The search of the model says {name}={value!r:.80}, which is no such number.")
            found |= {"max_length_factor": 0.0, "extra_length": value - start}
    return found


def list_ignored(settings: Mapping[str, Any], search: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the settings that are not known here, or not followed, as "name=value of file".

    Args:
        settings, search: what config.json and generation_config.json hold; the first may hold the search, too.
    """
    of_search = {*_SEARCHED, *_READ_OF_SEARCH, *_HARMLESS_IN_SEARCH}
    of_config = {*EXPRESSED, *_READ, *_HARMLESS, *of_search}
    if search is not settings:
        of_config.add("early_stopping")  # generation_config.json has it, if it counts
        ids = ("eos_token_id", "decoder_start_token_id")
        of_search |= {name for name in ids if search.get(name) in (settings.get(name), [settings.get(name)])}
    files = {"config.json": (settings, of_config)}
    if search is not settings:
        files["generation_config.json"] = (search, of_search)
    return tuple(
        f"{name:.60}={value!r:.40} of {file}"
        for file, (values, known) in files.items()
        for name, value in values.items()
        if value is not None and name not in known and (name, value) != ("early_stopping", False)
    )
