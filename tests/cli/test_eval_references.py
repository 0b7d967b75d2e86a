"""t2t-lite-eval with several references, several baselines, randomisation and TER, against sacreBLEU's own command."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.evaluated import HYPOTHESES, REFERENCES, evaluate, sgm, write

SECOND = ["A cat is on the mat.", "The small brown dog runs.", "Hello, world!", '"Hallo", sagte er.']
OTHERS = (["A cat was on a mat.", "Dogs run.", "Hello!", "Hallo, sagte sie."], ["The mat.", "Dogs.", "World.", "Er."])


def sacrebleu(*flags: object) -> str:
    done = subprocess.run([sys.executable, "-m", "sacrebleu", *map(str, flags)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


@pytest.fixture
def paths(tmp_path: Path) -> dict[str, Path]:
    lines = {"hyp": HYPOTHESES, "ref": REFERENCES, "ref2": SECOND, "old": OTHERS[0], "older": OTHERS[1]}
    return {name: write(tmp_path / name, text) for name, text in lines.items()}


@pytest.mark.commit
@pytest.mark.parametrize("metric", ["bleu", "chrf", "ter"])
def test_two_references_are_sacrebleus(paths: dict[str, Path], metric: str) -> None:
    flags = [f"--hypotheses={paths['hyp']}", f"--references={paths['ref']}", f"--references={paths['ref2']}"]
    done = evaluate(*flags, f"--metric={metric}", "--json")
    assert done.returncode == 0, done.stderr
    [ours] = json.loads(done.stdout)["scores"]
    theirs = json.loads(sacrebleu(paths["ref"], paths["ref2"], "-i", paths["hyp"], "-m", metric, "-w", 10))
    name, _, signature = ours["signature"].partition("|")
    assert name == "nrefs:2"
    assert f"{name}|{signature}" == theirs["signature"]
    assert ours["value"] == pytest.approx(theirs["score"], abs=1e-8)
    [one] = json.loads(evaluate(*flags[:2], f"--metric={metric}", "--json").stdout)["scores"]
    assert one["signature"].startswith("nrefs:1|")
    assert one["value"] != ours["value"]


def test_two_references_in_sgml_are_put_in_order(paths: dict[str, Path], tmp_path: Path) -> None:
    segments = [("news", 1), ("news", 2), ("talk", 1), ("talk", 2)]
    first = sgm(tmp_path / "1.sgm", "refset", [(*at, text) for at, text in zip(segments, REFERENCES, strict=True)])
    turned = [(*at, text) for at, text in zip(segments, SECOND, strict=True)]
    second = sgm(tmp_path / "2.sgm", "refset", [*turned[2:], *turned[:2]])
    hypotheses = f"--hypotheses={paths['hyp']}"
    done = evaluate(hypotheses, f"--references={first}", f"--references={second}", "--sgm")
    assert done.returncode == 0, done.stderr
    assert done.stdout == evaluate(hypotheses, f"--references={paths['ref']}", f"--references={paths['ref2']}").stdout


@pytest.mark.nightly
@pytest.mark.parametrize(("ours", "theirs"), [([], "--paired-bs"), (["--paired_ar"], "--paired-ar")])
def test_two_baselines_are_compared_as_sacrebleu_does(paths: dict[str, Path], ours: list[str], theirs: str) -> None:
    flags = [f"--hypotheses={paths['hyp']}", f"--references={paths['ref']}", f"--references={paths['ref2']}"]
    flags += [f"--baseline={paths['old']}", f"--baseline={paths['older']}", *ours]
    done = evaluate(*flags, "--json")
    assert done.returncode == 0, done.stderr
    bleu, chrf = json.loads(done.stdout)["scores"]
    for i, name in enumerate(("old", "older")):
        table = sacrebleu(
            *(paths["ref"], paths["ref2"], "-i", paths[name], paths["hyp"], "-m", "bleu", "chrf"),
            *("-w", 5, "-f", "text", theirs),
        )
        baseline, system = re.findall(r"│ +(?:Baseline: )?\S+ │ +(\d+\.\d{5}) .*?│ +(\d+\.\d{5}) ", table)
        [p_values] = re.findall(r"\(p = ([\d.]+)\).*\(p = ([\d.]+)\)", table)
        for score, *expected in zip((bleu, chrf), baseline, system, p_values, strict=True):
            pair = score["paired"][i]
            assert pair["file"] == str(paths[name])
            found = [f"{pair['baseline']['value']:.5f}", f"{score['value']:.5f}", f"{pair['p_value']:.4f}"]
            if ours:  # sacreBLEU does not count trials that differ as much: many, with four lines
                assert float(found.pop()) >= float(expected.pop())
            assert found == expected
    lines = evaluate(*flags, "--metric=ter").stdout.removesuffix("\n").split("\n")
    assert len(lines) == 5
    assert lines[0].startswith("TER|nrefs:2|case:lc|")
    assert lines[1].startswith(f"  baseline {paths['old']} ")
    kind = r"approximate randomisation, 10,000 trials" if ours else "bootstrap, 1,000 resamples"
    for line in (lines[2], lines[4]):
        assert re.fullmatch(
            rf"  difference -[\d.]+, lower is better, p = [01]\.\d+ \(paired {kind}, seed 12345\)", line
        )
    assert ("95% intervals" in lines[1]) is not bool(ours)


@pytest.mark.commit
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--hypotheses=a", "--references=b", "--paired_ar"], "--paired_ar compares with other translations; give "),
        (["--output_dir=x", "--references=a", "--references=b"], "--references does not go with --output_dir"),
        (
            ["--hypotheses=a", "--references=b", "--metric=ter", "--tokenize=intl"],
            "--tokenize is for BLEU, not",
        ),
        (["--output_dir=x", "--score"], "--score needs --output_dir=RUN, --sources=FILE and --targets=FILE"),
        (["--output_dir=x", "--sources=a"], "--sources does not go with --output_dir"),
        (["--output_dir=x", "--score", "--sources=a", "--targets=b", "--beam_size=2"], "--beam_size does not go with"),
        (["--output_dir=x", "--score", "--sources=a", "--targets=b", "--metric=ter"], "--metric does not go with"),
    ],
)
def test_flags_that_do_not_go_together(flags: list[str], message: str) -> None:
    done = evaluate(*flags)
    assert done.returncode == 2
    assert message in done.stderr
