"""Texts that are markup: lines of a file of XML, SGML or HTML, and not sentences."""

import re

_TAG = re.compile(r"<[/?!]?([A-Za-z][\w:.-]*)(?:\s[^<>]*)?/?>")
# Tags around words, as messages of software have them: "<b>Note</b>" is a sentence.
_INLINE = frozenset("a abbr b big br code em font i img kbd q qt s small span strong sub sup tt u var".split())


def is_element(text: str) -> bool:
    """Whether a text is one element, such as "<url>...</url>" and "<title>A talk</title>", or a single tag."""
    if "<" not in text or not (text := text.strip()).startswith("<") or not text.endswith(">"):
        return False
    tag = _TAG.match(text)
    if tag is None or tag[1].lower() in _INLINE:
        return False
    rest = text[tag.end() :]
    return not rest or rest.lower().find(f"</{tag[1].lower()}>") == len(rest) - len(f"</{tag[1]}>")
