"""t2t-lite-eval as a whole process, on real files."""

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import sacrebleu

REFERENCES = ["The cat sat on the mat.", "A dog, small and brown, runs.", "Hello World!", "„Hallo“, sagt er."]
HYPOTHESES = ["The cat is on the mat.", "The dog, small and Brown, runs.", "hello world!", '"Hallo", sagt er .']


def evaluate(*flags: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "t2t_lite.bin.eval", *map(str, flags)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    hypotheses, references = write(tmp_path / "hyp", HYPOTHESES), write(tmp_path / "ref", REFERENCES)
    return f"--hypotheses={hypotheses}", f"--references={references}"


def test_prints_bleu_and_chrf_as_sacrebleu_does(files: tuple[str, str]) -> None:
    done = evaluate(*files)
    assert done.returncode == 0, done.stderr
    bleu = sacrebleu.BLEU()
    chrf = sacrebleu.CHRF()
    expected = []
    for metric in (bleu, chrf):
        result = metric.corpus_score(HYPOTHESES, [REFERENCES])
        expected.append(result.format(signature=str(metric.get_signature())))
    assert done.stdout.rstrip("\n").split("\n") == [line.rstrip() for line in expected]
    assert done.stdout.startswith("BLEU|nrefs:1|case:mixed|eff:no|tok:13a|")
    assert " = 42.12 69.2/54.5/38.9/21.4 (BP = 1.000 " in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("flags", "starts"),
    [
        (["--metric=bleu", "--lowercase"], ["BLEU|nrefs:1|case:lc|eff:no|tok:13a|"]),
        (["--metric=bleu", "--tokenize=none", "--lowercase"], ["BLEU|nrefs:1|case:lc|eff:no|tok:none|"]),
        (["--metric=bleu", "--tokenize=intl"], ["BLEU|nrefs:1|case:mixed|eff:no|tok:intl|"]),
        (["--metric=chrf"], ["chrF2|nrefs:1|case:mixed|"]),
        (["--lowercase"], ["BLEU|nrefs:1|case:lc|", "chrF2|nrefs:1|case:lc|"]),
    ],
)
def test_variants(files: tuple[str, str], flags: list[str], starts: list[str]) -> None:
    done = evaluate(*files, *flags)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.rstrip("\n").split("\n")
    assert len(lines) == len(starts)
    assert all(line.startswith(start) for line, start in zip(lines, starts, strict=True))


def test_json(files: tuple[str, str]) -> None:
    done = evaluate(*files, "--json", "--tokenize=none", "--lowercase")
    assert done.returncode == 0, done.stderr
    bleu, chrf = json.loads(done.stdout)["scores"]
    assert bleu["name"] == "BLEU"
    assert bleu["value"] == pytest.approx(46.602175, abs=1e-6)
    assert bleu["signature"].startswith("nrefs:1|case:lc|eff:no|tok:none|")
    assert chrf["value"] == pytest.approx(80.023061, abs=1e-6)


def test_gzipped_real_text_and_a_line_separator_inside_a_line(tmp_path: Path, shared_data: Callable[..., Path]) -> None:
    """U+2028 is an ordinary character; splitting at it would put the files out of step."""
    source = shared_data("multi30k") / "test_2016_flickr.de.gz"
    with gzip.open(source, "rt", encoding="utf-8", newline="\n") as file:
        lines = file.read().removesuffix("\n").split("\n")
    lines[0] += "\u2028!"
    done = evaluate(f"--hypotheses={write(tmp_path / 'hyp', lines)}", f"--references={source}", "--metric=bleu")
    assert done.returncode == 0, done.stderr
    assert 99.9 < float(done.stdout.split(" = ")[1].split()[0]) < 100


def test_unequal_line_counts(tmp_path: Path) -> None:
    hypotheses, references = write(tmp_path / "hyp", HYPOTHESES[:3]), write(tmp_path / "ref", REFERENCES)
    done = evaluate(f"--hypotheses={hypotheses}", f"--references={references}")
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {hypotheses} has 3 lines but {references} has 4;")
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_empty_missing_and_undecodable_files(tmp_path: Path) -> None:
    empty, bad = write(tmp_path / "empty", []), tmp_path / "bad"
    bad.write_bytes(b"good\n\xff\xfe\n")
    for path, message in ((empty, "empty"), (tmp_path / "absent", "absent"), (bad, "line 2")):
        done = evaluate(f"--hypotheses={path}", f"--references={path}")
        assert done.returncode == 1
        assert done.stderr.startswith("error: ")
        assert message in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "give --output_dir=RUN, or --hypotheses=FILE and --references=FILE"),
        (["--output_dir=runs/x", "--hypotheses=a"], "give --output_dir=RUN, or --hypotheses=FILE"),
        (["--hypotheses=a"], "scoring files needs --references=FILE too"),
        (["--references=a"], "scoring files needs --hypotheses=FILE too"),
        (["--hypotheses=a", "--references=b", "--beam_size=4"], "--beam_size goes with --output_dir, not with files"),
        (["--hypotheses=a", "--references=b", "--tokenize=13b"], "invalid choice: '13b'"),
        (["--output_dir=x", "--split=train"], "invalid choice: 'train'"),
        (["--output_dir=x", "--checkpoint=last"], "'last' is neither best, averaged, newest nor a step"),
        (["--output_dir=x", "--beam_size=0"], "'0' is not a whole number of at least 1"),
        (["--no_such_flag"], "--no_such_flag"),
    ],
)
def test_bad_flags(flags: list[str], message: str) -> None:
    done = evaluate(*flags)
    assert done.returncode == 2
    assert message in done.stderr
    assert "usage: t2t-lite-eval" in done.stderr


@pytest.mark.parametrize("flags", [["--help"], ["--hypotheses={f}", "--references={f}"]])
def test_neither_help_nor_files_load_tensorflow(tmp_path: Path, flags: list[str]) -> None:
    file = write(tmp_path / "lines", REFERENCES)
    code = (
        "import sys\nfrom t2t_lite.bin import eval as command\n"
        "try:\n    status = command.main(sys.argv[1:])\nexcept SystemExit as stop:\n    status = stop.code\n"
        "assert status in (0, None), status\n"
        "heavy = {'tensorflow', 'keras', 'tensorflow_text', 'jax'} & set(sys.modules)\nassert not heavy, heavy"
    )
    command = [sys.executable, "-c", code, *(flag.format(f=file) for flag in flags)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout
