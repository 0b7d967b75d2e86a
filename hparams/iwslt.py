"""The literature's recipe for IWSLT 2014 German-English: fairseq's."""

from t2t_lite import config
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.registry import register_hparams

from .transformer import base


@register_hparams
def transformer_iwslt() -> TransformerHParams:
    """fairseq's transformer_iwslt_de_en, trained as its examples/translation/README.md says, for IWSLT 2014 De-En."""
    return config.replace(
        base(),
        # fairseq/models/transformer/transformer_legacy.py: transformer_iwslt_de_en; other sizes are those of base
        d_ff=1024,
        num_heads=4,
        # the command of README.md, "IWSLT'14 German to English"
        optimizer="adamw",
        adam_beta2=0.98,  # --adam-betas '(0.9, 0.98)'
        weight_decay=1e-4,  # --weight-decay 0.0001
        schedule="inverse_sqrt",
        learning_rate=5e-4,  # --lr 5e-4
        warmup_steps=4000,  # --warmup-updates 4000
        dropout=0.3,
        label_smoothing=0.1,
        batch_tokens=4096,  # --max-tokens 4096
        beam_size=5,  # --eval-bleu-args '{"beam": 5, ...}'
        # fairseq's defaults where the command is silent
        adam_epsilon=1e-8,  # --adam-eps
        norm_epsilon=1e-5,  # PyTorch's LayerNorm
        positions="tensor2tensor",  # sinusoidal_positional_embedding.py: sines, then cosines
        initial_weights="fairseq012",
        label_smoothing_over="others",  # label_smoothed_nll_loss: eps / (V - 1)
        length_penalty=1.0,  # --lenpen 1, of length^lenpen
        length_penalty_form="power",
        max_length_factor=1.2,  # --eval-bleu-args '{..., "max_len_a": 1.2, "max_len_b": 10}'
        extra_length=10,
        # The command trains until it is stopped. An epoch is some 1,100 updates; Wu et al. (2019, arXiv 1901.10430)
        # average the last 10 checkpoints of epochs.
        train_steps=55_000,
        eval_every=1100,
        eval_lines=1000,
        save_every=1100,
        keep_checkpoints=10,
        average_checkpoints=10,
    )
