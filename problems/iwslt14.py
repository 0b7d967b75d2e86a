"""iwslt14_deen: IWSLT 2014 German to English, from the files that fairseq's prepare-iwslt14.sh leaves."""

from collections.abc import Iterator
from typing import Any

from t2t_lite.registry import register_problem

from .text2text import Text2text

_JOINT = "@@ "  # between the pieces of a word, as subword-nmt writes them


@register_problem
class Iwslt14Deen(Text2text):
    """IWSLT 2014 German to English: 160,000 pairs of talks, tokenised and lowercased, 10,000 pieces, tokenised BLEU.

    fairseq's examples/translation/prepare-iwslt14.sh makes the folder iwslt14.tokenized.de-en with train.de, valid.de,
    test.de and the same in .en. These are cut into pieces already; the text is joined again and cut by a vocabulary of
    its own. The script's folder tmp, which has the same text before that, serves as well. Nothing is downloaded.

    Args:
        source_dir: the folder; or several with weights, as of text2text: A,B:2.
        vocab_size: 10,000 unless given, the number of the script's merges.
        shared_vocab, keep_whole: as in Problem.
    """

    default_hparams = "transformer_iwslt"

    def __init__(
        self,
        source_dir: str,
        vocab_size: int | None = None,
        shared_vocab: bool | None = None,
        keep_whole: str | None = None,
    ) -> None:
        super().__init__(
            source_dir,
            "de-en",
            vocab_size=vocab_size or 10_000,
            shared_vocab=shared_vocab,
            metric="bleu_tok_lc",
            keep_whole=keep_whole,
        )

    def samples(self, split: str) -> Iterator[tuple[str, str]]:
        """As text2text, with whole words."""
        for source, target in super().samples(split):
            yield source.replace(_JOINT, ""), target.replace(_JOINT, "")

    def options(self) -> dict[str, Any]:
        """The constructor's arguments, with an absolute source_dir."""
        names = ("source_dir", "vocab_size", "shared_vocab", "keep_whole")
        return {name: value for name, value in super().options().items() if name in names}
