"""Line breaks inside of a text."""

import re

BREAKS = r"(\r?\n)+"  # also of RE2, in graphs
_BREAKS = re.compile(BREAKS)


def breaks_as_spaces(text: str) -> str:
    """Returns a text as one line: each run of line breaks becomes a space."""
    return _BREAKS.sub(" ", text) if "\n" in text else text


def plain_breaks(text: str) -> str:
    """Returns a text whose line breaks are "\\n", also where they were "\\r\\n"."""
    return text.replace("\r\n", "\n")
