"""tensor2tensor's names for flags, problems, hparams sets and hparams, and what each is called here.

If a user gives a name that only tensor2tensor knows, the message gives ours. docs/from_tensor2tensor.md has the same
names, and a test compares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Ours(NamedTuple):
    """Our name for one of tensor2tensor's: `name`, "" if there is none; `note`: what differs, or why there is none."""

    name: str
    note: str = ""


def answer(table: Mapping[str, Ours], name: str, suffix: str = "") -> str:
    """Returns " tensor2tensor's NAME is 'OURS' here (note)." or "" where `table` does not have the name.

    Args:
        suffix: appended to both names, such as "_rev".
    """
    if name not in table:
        return ""
    ours, note = table[name]
    if not ours:
        return f" tensor2tensor's {name}{suffix} has no counterpart here: {note}."
    return f" tensor2tensor's {name}{suffix} is {ours}{suffix} here{f' ({note})' if note else ''}."


_ONE_LOOP = "t2t-lite-trainer trains and evaluates, and the other commands do the rest"
_CLUSTER = "TF_CONFIG names the workers, see docs/scaling.md"

FLAGS: dict[str, Ours] = {
    "--hparams_range": Ours("", "there is no tuner; use a shell loop over --hparams"),
    "--tmp_dir": Ours("--raw_dir", "for the WMT problems: files that you have"),
    "--t2t_usr_dir": Ours("--usr_dir"),
    "--eval_steps": Ours("--hparams=eval_lines=N", "lines of dev that are scored; the loss is of all of dev"),
    "--local_eval_frequency": Ours("--hparams=eval_every=N"),
    "--log_step_count_steps": Ours("--hparams=log_every=N"),
    "--save_checkpoints_secs": Ours("--hparams=save_minutes=N"),
    "--keep_checkpoint_max": Ours("--hparams=keep_checkpoints=N"),
    "--eval_early_stopping_steps": Ours("--hparams=early_stopping=N", "evaluations, not steps"),
    "--worker_gpu": Ours("--devices", "all GPUs unless given"),
    "--worker_gpu_memory_fraction": Ours("", "memory grows as it is needed"),
    "--random_seed": Ours("--hparams=seed=N"),
    "--xla_compile": Ours("--hparams=jit=on"),
    "--gpu_automatic_mixed_precision": Ours("--hparams=precision=bfloat16"),
    "--eval_use_test_set": Ours("t2t-lite-eval --split=test"),
    "--schedule": Ours("", _ONE_LOOP),
    "--generate_data": Ours("", "t2t-lite-trainer prepares the data if they are not there"),
    "--worker_replicas": Ours("", _CLUSTER),
    "--ps_replicas": Ours("", "there are no parameter servers; " + _CLUSTER),
    "--sync": Ours("", "training is always synchronous"),
    "--cloud_mlengine": Ours("", "it starts no jobs elsewhere"),
    "--use_tpu": Ours("", "it runs on GPUs and CPUs"),
    "--decode_from_file": Ours("t2t-lite-decoder --input=FILE"),
    "--decode_to_file": Ours("t2t-lite-decoder --output=FILE"),
    "--decode_interactive": Ours("t2t-lite-decoder", "without --input it reads standard input"),
    "--decode_hparams": Ours("t2t-lite-decoder --beam_size=4", "each setting is a flag: --length_penalty for alpha"),
    "--checkpoint_path": Ours("t2t-lite-decoder --checkpoint=N"),
    "--score_file": Ours("t2t-lite-eval --score", "with --sources=FILE and --targets=FILE"),
    "--translation": Ours("--hypotheses", "of t2t-lite-eval"),
    "--reference": Ours("--references", "of t2t-lite-eval"),
    "--servable_name": Ours("--model", "of t2t-lite-query"),
    "--inputs_once": Ours("t2t-lite-query --input=FILE"),
}

PROBLEMS: dict[str, Ours] = {
    "translate_ende_wmt32k": Ours("wmt14_ende", "37,000 pieces, as in the paper"),
    "translate_enfr_wmt32k": Ours("wmt14_enfr"),
    "text2text_tmpdir": Ours("text2text", "with --source_dir=DIR --languages=en-de"),
    "translate_ende_wmt32k_packed": Ours("wmt14_ende", "with --hparams=packing=true"),
    "translate_enfr_wmt32k_packed": Ours("wmt14_enfr", "with --hparams=packing=true"),
    "translate_ende_wmt_bpe32k": Ours("wmt14_ende", "text of WMT14, not tokenised, not that of WMT16; 37,000 pieces"),
    "translate_ende_wmt_clean32k": Ours("wmt14_ende", "with --clean"),
    "algorithmic_reverse_binary40": Ours("toy_reverse"),
    "algorithmic_reverse_decimal40": Ours("toy_reverse"),
    "parsing_english_ptb8k": Ours("wsj_parsing", "with --source_dir=DIR, the sections themselves"),
    "parsing_english_ptb16k": Ours("wsj_parsing", "with --source_dir=DIR, the sections themselves"),
}

# Set of its Transformer -> number of heads (models/transformer.py at bafdc1b, 1.15.7).
HEADS = {
    **dict.fromkeys(("transformer_test", "transformer_teeny"), 2),
    **dict.fromkeys(
        (
            *("transformer_tiny", "transformer_small", "transformer_tiny_tpu", "transformer_small_tpu"),
            *("transformer_relative_tiny", *(f"transformer_tiny_bs{i}" for i in range(1, 4))),
        ),
        4,
    ),
    **dict.fromkeys(
        (
            *("transformer_base_v1", "transformer_base_v2", "transformer_base_v3", "transformer_base"),
            *("transformer_base_single_gpu", "transformer_parsing_base", "transformer_tpu", "transformer_packed_tpu"),
            *("transformer_l2", "transformer_l4", "transformer_l8", "transformer_l10", "transformer_k128"),
            *("transformer_k256", "transformer_hs256", "transformer_hs1024", "transformer_ff1024"),
            *("transformer_ff4096", "transformer_dr0", "transformer_dr2", "transformer_ls0", "transformer_ls2"),
            *("transformer_parsing_ice", "transformer_relative", "transformer_base_multistep8", "transformer_clean"),
            *("transformer_tpu_bf16_activation", "transformer_supervised_attention"),
            *("transformer_big_enfr_tpu", "transformer_clean_big", "transformer_clean_big_tpu"),  # though big
            *(f"transformer_base_bs{i}" for i in range(1, 11)),
        ),
        8,
    ),
    **dict.fromkeys(
        (
            *("transformer_big", "transformer_big_enfr", "transformer_big_single_gpu"),
            *("transformer_parsing_big", "transformer_cubbitt", "transformer_big_tpu", "transformer_mlperf_tpu"),
            *("transformer_big_bs1", "transformer_big_dr1", "transformer_big_dr2"),
            *("transformer_fairseq_fp16_activation_big", "transformer_relative_big"),
        ),
        16,
    ),
    **dict.fromkeys(("transformer_tall", "transformer_tall_big", "transformer_tall_train_tied"), 12),
    **{f"transformer_h{heads}": heads for heads in (1, 4, 16, 32)},
}

HPARAMS_SETS: dict[str, Ours] = {
    **dict.fromkeys(HEADS, Ours("", "t2t_base or t2t_big with --hparams come nearest")),  # unless named below
    "transformer_base_v1": Ours("base"),
    "transformer_base": Ours("t2t_base", "the paper's: base"),
    "transformer_base_v3": Ours("t2t_base", "the paper's: base"),
    "transformer_big": Ours("t2t_big", "the paper's: big"),
    "transformer_big_enfr": Ours("t2t_big_enfr", "the paper's: big_enfr"),
    "transformer_relative": Ours("t2t_relative"),
    "transformer_base_single_gpu": Ours("base", "the paper's batch and schedule, on one GPU as on eight"),
    "transformer_big_single_gpu": Ours("big", "the paper's batch and schedule, on one GPU as on eight"),
    "transformer_h1": Ours("base_h1"),
    "transformer_h4": Ours("base_h4"),
    "transformer_h16": Ours("base_h16"),
    "transformer_h32": Ours("base_h32"),
    "transformer_k128": Ours("base_dk16", "named by the size of a head"),
    "transformer_k256": Ours("base_dk32", "named by the size of a head"),
    "transformer_l2": Ours("base_n2"),
    "transformer_l4": Ours("base_n4"),
    "transformer_l8": Ours("base_n8"),
    "transformer_hs256": Ours("base_d256"),
    "transformer_hs1024": Ours("base_d1024"),
    "transformer_ff1024": Ours("base_ff1024"),
    "transformer_ff4096": Ours("base_ff4096"),
    "transformer_dr0": Ours("base_drop0"),
    "transformer_dr2": Ours("base_drop2"),
    "transformer_ls0": Ours("base_ls0"),
    "transformer_ls2": Ours("base_ls2"),
    "transformer_tiny": Ours("tiny", "of other sizes"),
    "transformer_small": Ours("small", "of other sizes"),
    "transformer_parsing_base": Ours("parsing", "4 layers, as in the paper"),
    "transformer_parsing_big": Ours("parsing_semi", "4 layers, as in the paper"),
    "bytenet_base": Ours("t2t_bytenet"),
}

_NO_BUCKETS = "about 16 shapes are chosen from the data's lengths"

HPARAMS: dict[str, Ours] = {
    "hidden_size": Ours("d_model"),
    "filter_size": Ours("d_ff"),
    "num_hidden_layers": Ours("num_layers"),
    "num_encoder_layers": Ours("num_layers"),
    "use_target_space_embedding": Ours("source_vector"),
    "attention_key_channels": Ours("d_k", "of one head, not the sum over heads"),
    "attention_value_channels": Ours("d_v", "of one head, not the sum over heads"),
    "layer_preprocess_sequence": Ours("norm", '"n" is norm=pre'),
    "layer_postprocess_sequence": Ours("norm", '"dan" is norm=post'),
    "layer_prepostprocess_dropout": Ours("dropout"),
    "shared_embedding_and_softmax_weights": Ours("share_embeddings"),
    "pos": Ours("positions", '"timing" is tensor2tensor'),
    "self_attention_type": Ours(
        "attention_window", "for local attention; max_relative_position for relative positions"
    ),
    "batch_size": Ours("batch_tokens", "over all devices, per side"),
    "optimizer_multistep_accumulate_steps": Ours("--accumulate", "cuts the batch; does not make it larger"),
    "min_length_bucket": Ours("", _NO_BUCKETS),
    "length_bucket_step": Ours("", _NO_BUCKETS),
    "batch_shuffle_size": Ours("", "every epoch is shuffled whole"),
    "learning_rate_constant": Ours("learning_rate_factor", "1 is the paper's equation (3)"),
    "learning_rate_schedule": Ours("schedule", "the paper's equation (3) unless given"),
    "learning_rate_warmup_steps": Ours("warmup_steps"),
    "optimizer_adam_beta1": Ours("adam_beta1"),
    "optimizer_adam_beta2": Ours("adam_beta2"),
    "optimizer_adam_epsilon": Ours("adam_epsilon"),
    "clip_grad_norm": Ours("clip_norm"),
    "weight_decay": Ours("", "the paper has none"),
    "initializer": Ours("", "matrices start as Glorot's uniform distribution"),
    "initializer_gain": Ours("", "matrices start as Glorot's uniform distribution"),
    "activation_dtype": Ours("precision", "weights stay float32"),
    "weight_dtype": Ours("precision", "weights stay float32"),
    "alpha": Ours("length_penalty"),
}
