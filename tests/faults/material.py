"""Helpers that the tests of faults share: a corpus, and the contents of a folder."""

import hashlib
from pathlib import Path

SMALL = [f"line {i} of {i * i}" for i in range(50)]
LARGE = [f"line {i} of {i * i}" for i in range(8_000)]


def write_corpus(folder: Path, train: list[str], dev: list[str]) -> list[str]:
    """Writes lines for training and dev, their target sides in capitals; returns the flags that name them."""
    folder.mkdir(exist_ok=True)
    for split, lines in (("train", train), ("dev", dev)):
        for language, text in (("en", lines), ("de", [line.upper() for line in lines])):
            (folder / f"{split}.{language}").write_bytes("".join(f"{line}\n" for line in text).encode())
    return ["--problem=text2text", f"--source_dir={folder}", "--languages=en-de", "--vocab_size=300"]


def contents(folder: Path) -> dict[str, str]:
    """The checksums of all files below a folder, except locks: commands may create them, and they are empty."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".lock"))
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
