"""Input files for the tests of t2t-lite-eval, and the command run as a whole process."""

import html
import subprocess
from pathlib import Path

from tests import commands

REFERENCES = ["The cat sat on the mat.", "A dog, small and brown, runs.", "Hello World!", "„Hallo“, sagt er."]
HYPOTHESES = ["The cat is on the mat.", "The dog, small and Brown, runs.", "hello world!", '"Hallo", sagt er .']


def evaluate(*flags: object) -> subprocess.CompletedProcess[str]:
    return commands.call("eval", *flags)


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def sgm(path: Path, kind: str, segments: list[tuple[str, int, str]]) -> Path:
    """Writes an SGML file with one <doc> per segment: mteval also accepts a document in parts."""
    lines = [f'<doc docid="{d}" sysid="s">\n<seg id="{i}">{html.escape(t)}</seg>\n</doc>' for d, i, t in segments]
    return write(path, [f'<{kind} setid="news">', *lines, f"</{kind}>"])
