"""Names of the metrics that a problem may choose, and other names for them. Imports nothing that counts."""

from __future__ import annotations

NAMES = ("bleu", "bleu_lc", "bleu_tok_lc", "chrf", "chrf2", "bleu_paper", "accuracy")
OF_SACREBLEU = ("bleu", "bleu_lc", "bleu_tok_lc")  # BLEU as sacreBLEU counts it
# chrF++ has many spellings; sacreBLEU prints it as chrF2++. tensor2tensor's accuracy_per_sequence is accuracy here.
_OTHERS = {
    **dict.fromkeys(("chrf++", "chrfpp", "chrf2++", "chrf2pp"), "chrf2"),
    "accuracy_per_sequence": "accuracy",
}


def canonical(name: str) -> str:
    """Returns the name in NAMES for another spelling, such as "chrf2" for "chrF++"; other names as they are."""
    return _OTHERS.get(name.lower(), name)
