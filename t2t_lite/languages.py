"""Language codes without region or script, the languages that put no spaces between words, and BLEU's tokenisers."""

import functools
import re
from collections.abc import Iterable

# Those of sacreBLEU; here and not in metrics/bleu.py, because --help lists them without loading sacreBLEU.
TOKENIZERS = ("13a", "intl", "none", "char", "zh", "ja-mecab", "ko-mecab", "flores200")

# Characters per word, in languages written without spaces between words. These are rough figures, for wide limits and
# ratios. Han characters and kana stand for more than letters do.
CHARACTERS_PER_WORD = {
    **dict.fromkeys("zh yue wuu lzh nan hak gan ja".split(), 2),
    **dict.fromkeys("th lo km my bo dz".split(), 5),
}


# ISO 639's codes of three letters for the languages above, for Korean, which has a tokeniser of its own, and for the
# languages of BLEU-paper. cn and jp are countries, but often name the languages; kr is left alone, as it is Kanuri, and
# Korean has spaces.
_TWO_LETTERS = {
    **dict.fromkeys(("zho", "chi", "cmn", "cn"), "zh"),
    **dict.fromkeys(("jpn", "jp"), "ja"),
    "kor": "ko",
    **dict.fromkeys(("deu", "ger"), "de"),
    "eng": "en",
    **dict.fromkeys(("fra", "fre"), "fr"),
    "tha": "th",
    "lao": "lo",
    "khm": "km",
    "dzo": "dz",
    "mya": "my",
    "bur": "my",
    "bod": "bo",
    "tib": "bo",
}

_UNSPACED = re.compile("[\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")  # Thai to Burmese, Khmer, kana, Han


@functools.lru_cache
def base_language(code: str) -> str:
    """Returns "zh" of "zh", "zh-CN", "zh_Hans" and "zho_Hans"."""
    base = re.split(r"[-_]", code, maxsplit=1)[0].lower()
    return _TWO_LETTERS.get(base, base)


def count_words(text: str, language: str) -> int:
    """Returns the number of words in a text; an estimate if words have no spaces between them."""
    characters = CHARACTERS_PER_WORD.get(base_language(language))
    if characters is None:
        return len(text.split())
    return -(-sum(not character.isspace() for character in text) // characters)


def lacks_spaces(lines: Iterable[str]) -> bool:
    """Whether most of a text is in a script without spaces between words, and it is not split into words."""
    words = [word for line in lines for word in line.split()]
    found = sum(len(_UNSPACED.findall(word)) for word in words)
    return 2 * found > sum(map(len, words)) and found > 4 * len(words)
