"""WMT's SGML files, used until 2020: sources (srcset), references (refset) and translations (tstset).

    <refset setid="newstest2014" srclang="any" trglang="de">
    <doc sysid="ref" docid="1012-bbc" origlang="de">
    <seg id="1">A sentence.</seg>

These files are not XML: an ampersand need not be escaped, and tags may be in capitals. So the text is searched for the
two tags that matter, and nothing in it is ever used as the name of another file.
"""

import html
import re
from collections.abc import Sequence
from html.entities import html5

from t2t_lite.errors import DataError
from t2t_lite.files import StrPath

Segments = dict[tuple[str, str], str]  # (document, segment) -> text, in the file's order

_START = re.compile(r"\s*<(\?xml|!doctype|(src|ref|tst)set|mteval|doc)\b", re.IGNORECASE)
_TAG = re.compile(r"<(/?)(doc|seg)\b([^<>]*)>", re.IGNORECASE)
_ENTITY = re.compile(r"&(#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]*);")
_BLANKS = re.compile(r"[ \t\r\n]+")


def is_sgm(lines: Sequence[str]) -> bool:
    """Whether a file of these lines begins as WMT's SGML files do."""
    return _START.match("\n".join(lines[:10])) is not None


def parse(lines: Sequence[str], path: StrPath) -> Segments:
    """Returns the segments of an SGML file; messages name it by `path`.

    Raises:
        DataError: there are no segments, or a segment occurs twice (as in a file with several references), does not
            end, is in no document, or has no id; the message has the line, the document and the segment.
    """
    text = "\n".join(lines)
    segments: Segments = {}
    document = segment = None
    start = 0
    for tag in _TAG.finditer(text):
        closing, kind = bool(tag[1]), tag[2].lower()
        where = f"segment {segment} of document {document}"
        if segment is not None and (kind == "doc" or not closing):
            raise _error(path, tag, f"{where} has no </seg> before this <{tag[1]}{kind}>.")
        if kind == "doc":
            document = None if closing else _name(path, tag, "docid")
        elif not closing:
            if document is None:
                raise _error(path, tag, "this <seg> is in no <doc>; segments are found by document and number.")
            segment, start = _name(path, tag, "id"), tag.end()
        elif document is not None and segment is not None:
            if (document, segment) in segments:
                raise _error(path, tag, f"{where} is there twice. Of several references or systems keep one.")
            segments[document, segment] = _text(text[start : tag.start()])
            segment = None
    if segment is not None:
        raise DataError(f"{path}: segment {segment} of document {document} has no </seg>; the file is not whole.")
    if not segments:
        raise DataError(f'{path} holds no segments; --sgm is for files with <doc docid="..."> and <seg id="...">.')
    return segments


def in_order(segments: Segments, references: Segments, path: StrPath, reference_path: StrPath) -> list[str]:
    """Returns the text of the segments in the order of the references.

    Raises:
        DataError: a segment that only one of the two files has.
    """
    for there, here, has, lacks in (
        (references, segments, reference_path, path),
        (segments, references, path, reference_path),
    ):
        missing = [key for key in there if key not in here]
        if missing:
            document, segment = missing[0]
            more = f", and {len(missing) - 1:,} more" if len(missing) > 1 else ""
            raise DataError(f"{lacks} lacks segment {segment} of document {document}, which {has} has{more}.")
    return [segments[key] for key in references]


def _name(path: StrPath, tag: re.Match[str], attribute: str) -> str:
    found = re.search(rf"""\s{attribute}\s*=\s*("[^"]*"|'[^']*'|[^\s"'/]+)""", tag[3], re.IGNORECASE)
    if found is None:
        raise _error(path, tag, f'{tag[0]} has no {attribute}="...".')
    return _text(found[1].strip("\"'"))


def _error(path: StrPath, tag: re.Match[str], message: str) -> DataError:
    line = tag.string.count("\n", 0, tag.start()) + 1
    return DataError(f"{path}, line {line:,}: {message}")


def _text(raw: str) -> str:
    """Returns the text that a file writes as `raw`: entities decoded once, runs of spaces and line ends made one."""
    return _BLANKS.sub(" ", _ENTITY.sub(_character, raw)).strip(" ")


def _character(entity: re.Match[str]) -> str:
    return html.unescape(entity[0]) if entity[1].startswith("#") else html5.get(f"{entity[1]};", entity[0])
