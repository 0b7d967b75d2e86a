"""Training of a vocabulary with SentencePiece, on a sample of the text."""

import io
import itertools
import logging
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import sentencepiece

from t2t_lite.errors import DataError, UsageError
from t2t_lite.ids import EOS, PAD, UNK
from t2t_lite.text.any_vocabulary import WORD_START
from t2t_lite.text.vocabulary import Vocabulary

# Longer lines are cut for training only: SentencePiece would silently leave them out.
MAX_TRAINING_LINE = 4096  # characters
MAX_LINES, MAX_CHARS = 1_000_000, 200_000_000  # of the sample

# SentencePiece's trainer silently skips the names of special pieces, and lines with U+2585, its mark for an unknown
# character.
_NAMES = re.compile("<pad>|</s>|<unk>")
_UNKNOWN_MARK = "\u2585"
_BYTES = 256  # pieces of bytes

_log = logging.getLogger("t2t_lite")

Item = TypeVar("Item")


def train_vocabulary(
    lines: Iterable[str],
    *,
    size: int,
    kind: str = "bpe",
    character_coverage: float = 1.0,
    whole: Sequence[str] = (),
    labels: Sequence[str] = (),
    byte_fallback: bool = False,
    seed: int = 1,
    max_lines: int = MAX_LINES,
    max_chars: int = MAX_CHARS,
) -> Vocabulary:
    """Trains a vocabulary on an evenly drawn sample of `lines`; memory is bounded by the sample.

    The text is taken as it is: no Unicode normalisation, no lowercasing. If the corpus yields fewer pieces than `size`,
    the vocabulary has as many as there are; `warn_of_few_pieces` logs that.

    Args:
        size: pieces wanted, PAD, EOS and UNK included.
        kind: "bpe", "unigram"; "char" or "word" for a vocabulary of single characters or of whole words. There are
            usually fewer than `size`. Words have a piece each, however many there are, also those of lines that are cut
            or not drawn.
        character_coverage: share of the characters that get pieces; 1.0 means all of them.
        whole: texts that are pieces of their own wherever they occur, for each of which `can_be_whole` holds; or "\\n".
        labels: pieces that no text is cut into; their ids begin after UNK (labels.py).
        byte_fallback: whether characters without a piece are written in pieces of bytes, and are not unknown.
        max_lines, max_chars: bounds of the sample.

    Raises:
        DataError: no text at all.
        UsageError: `size` is below the number of different characters, or of `whole`; `kind` unknown.
    """
    if kind not in ("bpe", "unigram", "char", "word"):
        raise UsageError(f"vocab_type={kind!r} is not one of: bpe, unigram, char.")
    words: set[str] = set()
    watched = _collect(lines, words) if kind == "word" else lines
    sample = draw_lines(watched, max_lines=max_lines, max_chars=max_chars, seed=seed)
    sample += sorted(words.difference(itertools.chain.from_iterable(map(_words, sample))))  # one a line, so none is cut
    if not sample:
        raise DataError("There is no text to train a vocabulary on: every line is empty, or left out with its pair.")
    sample, settings = _keep_all_text(sample, kind, size, labels)
    if whole:
        settings["user_defined_symbols"] = [*settings.get("user_defined_symbols", ()), *whole]
    # Set only where they are wanted, so that other text gives the same file as before.
    settings |= {"control_symbols": list(labels)} if labels else {}
    if byte_fallback:
        settings["byte_fallback"] = True
        if size <= (least := _BYTES + UNK + 1 + len(labels) + len(whole)):
            raise UsageError(f"vocab_size={size} is too small: with byte_fallback it has to be above {least}.")
    vocabulary = _run_trainer(sample, size, kind, character_coverage, settings)
    if kind == "char" and vocabulary.size > size:
        raise _too_small(size, vocabulary.size)
    return vocabulary


def warn_of_few_pieces(vocabulary: Vocabulary, size: int, kind: str) -> None:
    """Logs a warning if a vocabulary of `train_vocabulary` has fewer pieces than were wanted."""
    if kind in ("bpe", "unigram") and vocabulary.size < size:
        _log.warning(
            "The corpus is too small for a vocabulary of %d pieces; the largest it gives has %d, which is used.",
            size,
            vocabulary.size,
        )


def _run_trainer(
    sample: Sequence[str], size: int, kind: str, character_coverage: float, settings: dict[str, Any]
) -> Vocabulary:
    """Returns what SentencePiece makes of the sample; `settings` are further ones of its trainer."""
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sample),
            model_writer=model,
            vocab_size=size,
            hard_vocab_limit=False,  # fewer pieces where the corpus has too few
            model_type=kind,
            character_coverage=character_coverage,
            normalization_rule_name="identity",
            pad_id=PAD,
            eos_id=EOS,
            unk_id=UNK,
            bos_id=-1,
            max_sentence_length=4 * MAX_TRAINING_LINE,  # bytes
            minloglevel=2,
            **settings,
        )
    except RuntimeError as error:
        too_small = re.search(r"smaller than required_chars\D+\d+ vs (\d+)", str(error))
        if too_small:
            raise _too_small(size, int(too_small[1])) from error
        raise DataError(f"SentencePiece could not train a vocabulary: {error}") from error
    return Vocabulary(model.getvalue())


def can_be_whole(text: str) -> bool:
    """Whether a text can be a piece of its own: without white space, SentencePiece's marks and names of pieces."""
    marks = (WORD_START, _UNKNOWN_MARK, "\0")
    return not (any(char.isspace() or char in marks for char in text) or _NAMES.fullmatch(text) or text == "<s>")


def _collect(lines: Iterable[str], words: set[str]) -> Iterator[str]:
    """Yields the lines as they come, and adds all of their words to `words`."""
    for line in lines:
        words.update(_words(line))
        yield line


def _words(line: str) -> list[str]:
    return [word for word in line.replace("\0", " ").split(" ") if word.strip()]


def _keep_all_text(sample: list[str], kind: str, size: int, labels: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Returns the text without U+2585, and settings that give pieces to it and to all characters of special names.

    Text that holds neither is trained on unchanged, so that it gives the same vocabulary as before.
    """
    # All characters, or all words, get a piece, and not only `size` of them. Fewer words need no setting, and so the
    # same words give the same file as before.
    many_words = kind == "word" and len({word for line in sample for word in line.split()}) > size - (UNK + 1)
    settings: dict[str, Any] = {"use_all_vocab": True} if kind == "char" or many_words else {}
    if any(_UNKNOWN_MARK in line for line in sample):
        cut = re.compile(rf"\S*{_UNKNOWN_MARK}\S*" if kind == "word" else _UNKNOWN_MARK)  # words are taken whole
        sample = [cut.sub(" ", line) for line in sample]
        settings |= {} if kind == "word" else {"user_defined_symbols": [_UNKNOWN_MARK]}
    names = re.compile("|".join([_NAMES.pattern, *map(re.escape, labels)]))
    lacking = {char for line in sample if "<" in line for name in names.findall(line) for char in name}
    for line in sample if lacking else ():
        lacking.difference_update(names.sub("", line))
        if not lacking:
            break
    if lacking and kind != "word":
        settings["required_chars"] = "".join(sorted(lacking))
    return sample, settings


def _too_small(size: int, needed: int) -> UsageError:
    return UsageError(
        f"vocab_size={size} is too small: the text's characters alone need {needed} pieces. Give a larger vocab_size; "
        "a problem of your own may have a character_coverage below 1 instead."
    )


def draw_lines(lines: Iterable[str], *, max_lines: int, max_chars: int, seed: int) -> list[str]:
    """Returns at most `max_lines` lines and about `max_chars` characters, each line being as likely as any other."""
    sized = ((line, len(line)) for line in filter(None, map(training_line, lines)))
    return draw(sized, max_lines=max_lines, max_chars=max_chars, seed=seed)


def training_line(line: str) -> str:
    """Returns a line as a vocabulary is trained on it, "" if it is blank."""
    if len(line) > MAX_TRAINING_LINE:
        line = line[:MAX_TRAINING_LINE].rpartition(" ")[0] or line[:MAX_TRAINING_LINE]  # no half words
    line = line.replace("\0", " ")
    return line if line.strip() else ""


def draw(sized: Iterable[tuple[Item, int]], *, max_lines: int, max_chars: int, seed: int) -> list[Item]:
    """Returns what `draw_lines` draws of lines, or of what stands for lines, each given with its characters."""
    generator = random.Random(seed)
    next_bits = generator.getrandbits
    sample: list[Item] = []
    sizes: list[int] = []
    chars = 0
    for seen, (item, size) in enumerate(sized, start=1):
        if len(sample) < max_lines:
            sample.append(item)
            sizes.append(size)
            chars += size
        else:
            # As randrange(seen) draws, which takes three times as long.
            bits = seen.bit_length()
            while (place := next_bits(bits)) >= seen:
                pass
            if place < max_lines:
                chars += size - sizes[place]
                sample[place], sizes[place] = item, size
        # A random half of an even sample is an even sample.
        if chars > max_chars and len(sample) > 1:
            order = list(range(len(sample)))
            generator.shuffle(order)
            max_lines = len(sample) // 2
            sample, sizes = [sample[i] for i in order[:max_lines]], [sizes[i] for i in order[:max_lines]]
            chars = sum(sizes)
    return sample
