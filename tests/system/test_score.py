"""t2t-lite-eval --score: log-probabilities of given pairs equal those of the run's export."""

import json
import math
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow_text  # noqa: F401 (the export uses its operations)

from tests.serving.served_model import Version

pytestmark = pytest.mark.nightly

Run = Callable[..., subprocess.CompletedProcess[str]]


def test_given_pairs_score_as_in_the_export(run: Run, trained: tuple[Path, str], corpus: Path, tmp_path: Path) -> None:
    folder = trained[0]
    sources, targets = (
        [*(corpus / f"test.{side}").read_text("utf-8").removesuffix("\n").split("\n"), *more]
        for side, more in (("en", ["", "a dog", "the \u2028 dog", "word " * 600]), ("de", ["Hund", " ", "日本", "x"]))
    )
    files = [tmp_path / "source.txt", tmp_path / "target.txt"]
    for file, lines in zip(files, (sources, targets), strict=True):
        file.write_bytes("".join(f"{line}\n" for line in lines).encode("utf-8"))
    flags = ("eval", f"--output_dir={folder}", "--score", f"--sources={files[0]}", f"--targets={files[1]}")
    done = run(*flags)
    rows = [line.split("\t") for line in done.stdout.removesuffix("\n").split("\n")]
    run("exporter", f"--output_dir={folder}", f"--export_dir={tmp_path / 'versions'}")
    version = Version(tmp_path / "versions" / "1")
    texts = {"inputs": sources, "targets": targets}
    given = {name: np.array([line.encode() for line in lines], object) for name, lines in texts.items()}
    answer = version.run("score", given, 60)
    assert len(rows) == len(sources) == 20
    assert [int(tokens) for _, tokens, _ in rows] == answer["tokens"].tolist()
    np.testing.assert_allclose([float(value) for value, _, _ in rows], answer["log_probs"], rtol=1e-4, atol=1e-3)
    for value, tokens, perplexity in rows:
        expected = math.exp(-float(value) / int(tokens)) if int(tokens) else math.nan
        assert float(perplexity) == pytest.approx(expected, rel=1e-3, nan_ok=True)
    assert [tokens for _, tokens, _ in rows].count(
        "0"
    ) == 1  # an empty source has no tokens, an empty target has its end symbol
    assert "1 of 20 sources are longer than 512 pieces; only their beginning is scored.\n" in done.stderr
    total = sum(answer["tokens"].tolist())
    assert "20 pairs, 1 of them with an empty source, which have no tokens; log-probability -" in done.stderr
    assert f" of {total:,} tokens, perplexity " in done.stderr
    records = [json.loads(line) for line in run(*flags, "--json").stdout.removesuffix("\n").split("\n")]
    assert [record["tokens"] for record in records] == answer["tokens"].tolist()
    assert records[16] == {"log_prob": 0.0, "tokens": 0, "perplexity": None}
    files[1].write_text("one line\n")
    refused = run(*flags, status=1, quick=True)
    assert refused.stderr.startswith(f"error: {files[0]} has 20 lines but {files[1]} has 1;")
