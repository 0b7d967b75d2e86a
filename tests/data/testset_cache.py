"""A folder of sacreBLEU's with wmt14/full in it, as if it had downloaded and unpacked the archive."""

from pathlib import Path

PLACE, ARCHIVE = Path("wmt14", "full", "raw"), "wmt14_full.test-full.tgz"


def fill(cache: Path, sources: list[str], references: list[str]) -> Path:
    """Writes the set for English to German, and returns the folder for SACREBLEU."""
    raw = cache / PLACE
    (raw / "test-full").mkdir(parents=True)
    (raw / ARCHIVE).write_bytes(b"not read once it is unpacked")
    for kind, language, lines in (("src", "en", sources), ("ref", "de", references)):
        segments = [f'<seg id="{number}">{line}</seg>' for number, line in enumerate(lines, start=1)]
        text = "\n".join([f'<{kind}set setid="x">', '<doc docid="d" genre="news" origlang="en">', *segments, "</doc>"])
        (raw / "test-full" / f"newstest2014-deen-{kind}.{language}.sgm").write_text(text + "\n", "utf-8")
    return cache
