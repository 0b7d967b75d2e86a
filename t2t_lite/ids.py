"""Ids that every vocabulary gives the same meaning: padding, the end of a sentence, an unknown piece."""

PAD, EOS, UNK = 0, 1, 2
