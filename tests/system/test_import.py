"""t2t-lite-import and every command on the imported run, as whole processes: they give tensor2tensor's outputs."""

import json
import math
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from t2t_lite.demo import backends
from t2t_lite.export.exported import ExportedTranslator
from tests.serving.server import serve
from tests.system.conftest import Run, write_lines

pytestmark = pytest.mark.commit


@pytest.fixture(scope="module")
def golden(shared_data: Callable[[str], Path]) -> Path:
    """A model that tensor2tensor trained on Multi30k, with tensor2tensor's translations; in shared/data/t2t_golden."""
    return shared_data("t2t_golden") / "m30k_tiny"


@pytest.fixture(scope="module")
def theirs(golden: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = json.loads((golden / "translations.json").read_text("utf-8"))
    assert (len(found["batches_of_32"]), len(found["alone"])) == (64, 24)
    return found


@pytest.fixture(scope="module")
def imported(
    run: Run, golden: Path, theirs: dict[str, list[str]], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str]:
    """The imported run, and the output of t2t-lite-import."""
    folder = tmp_path_factory.mktemp("imported")
    decodes = write_lines(folder / "decodes", theirs["batches_of_32"])
    done = run(
        "importer",
        f"--checkpoint={golden}",
        f"--vocabulary={golden.parent}/subwords/vocab.translate_ende_m30k.4096.subwords",
        "--languages=en-de",
        f"--check_input={golden}/inputs.en",
        f"--check={decodes}",
        f"--output_dir={folder}/run",
        fresh=True,
    )
    assert done.stderr == ""
    return folder / "run", done.stdout


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")


def test_it_says_what_it_found(imported: tuple[Path, str], golden: Path) -> None:
    folder, said = imported
    found = dict(re.findall(r"^([\w ]+): +(.+)$", said, re.MULTILINE))
    assert found["checkpoint"].startswith(f"model.ckpt-401 in {golden}, variables transformer/body/")
    assert found["model"].startswith("Transformer, 2 + 2 layers, d_model 64, d_ff 256, 4 heads of 16, pre-norm, one ")
    assert found["variables"] == "81, each used once; left out: 1 of counters"
    assert found["vocabulary"].startswith("4,378 ids, subwords, of ")
    assert found["check"].startswith("64 of 64 outputs are equal to those of ")
    assert f"\nNext: t2t-lite-decoder --output_dir={folder} --input=FILE\n" in said
    record = json.loads((folder / "import.json").read_text("utf-8"))
    assert (record["from_shapes"]["d_model"], record["from_hparams"]["num_heads"]) == (64, 4)
    assert record["given"] == {"average": 1, "languages": "en-de"}
    assert sorted(record["checkpoints"][0]["sha256"]) == [
        "model.ckpt-401.data-00000-of-00001",
        "model.ckpt-401.index",
    ]
    assert sorted(path.name for path in folder.iterdir() if path.name[0] != ".") == [
        *("averaged", "hparams.json", "import.json", "problem.json", "vocabulary.subwords")
    ]
    vocabulary = Path(record["vocabularies"][0]["path"]).read_bytes()
    assert (folder / "vocabulary.subwords").read_bytes() == vocabulary


def test_the_decoder_writes_what_tensor2tensor_wrote(
    run: Run, imported: tuple[Path, str], golden: Path, theirs: dict[str, list[str]]
) -> None:
    """All lines are equal: 64 in batches, with white space around each, which t2t-decoder strips, and 24 alone."""
    flag, lines = f"--output_dir={imported[0]}", _lines((golden / "inputs.en").read_text("utf-8"))
    spaced = "".join(f"\u00a0 {line}\t \n" for line in lines)
    assert _lines(run("decoder", flag, input=spaced.encode()).stdout) == theirs["batches_of_32"]
    first = "".join(f"{line}\n" for line in lines[:24])
    alone = run("decoder", flag, "--decode_batch_tokens=1", "--json", input=first.encode()).stdout
    best = [json.loads(line)["outputs"][0] for line in _lines(alone)]
    assert [output["text"] for output in best] == theirs["alone"]
    scores = json.loads((golden / "translations.json").read_text("utf-8"))["alone_scores"]
    assert max(abs(output["score"] - score) for output, score in zip(best, scores, strict=True)) < 1e-4  # 4 digits


def test_probabilities_of_given_pairs(
    run: Run, imported: tuple[Path, str], golden: Path, theirs: dict[str, list[str]], tmp_path: Path
) -> None:
    """Scores of tensor2tensor's outputs equal its own where the text is split into the pieces that it wrote."""
    spaced = write_lines(tmp_path / "spaced", [f" {line} " for line in theirs["batches_of_32"]])
    pairs = [f"--sources={golden}/inputs.en", f"--targets={spaced}"]
    done = run("eval", f"--output_dir={imported[0]}", "--score", *pairs)
    equal = 0
    for line, score in zip(_lines(done.stdout), theirs["batches_of_32_scores"], strict=True):
        log_prob, pieces = map(float, line.split("\t")[:2])
        equal += abs(log_prob / ((5 + pieces) / 6) ** 0.6 - float(score)) < 1e-4
    assert equal >= 60


@pytest.mark.nightly
def test_an_export_serves_the_same(
    run: Run, imported: tuple[Path, str], golden: Path, theirs: dict[str, list[str]], tmp_path: Path
) -> None:
    """The decoder, a server over REST and gRPC, and the demo's backends serve the export: texts in, texts out."""
    base = tmp_path / "versions"
    flags = [f"--output_dir={imported[0]}", f"--export_dir={base}", "--signatures=nbest,score,tokens,attention"]
    done = run("exporter", *flags)
    assert done.stderr == ""
    assert (base / "1" / "assets" / "vocabulary.subwords").is_file()
    card = json.loads((base / "1" / "assets" / "model_card.json").read_text("utf-8"))
    assert card["problem"] | {"description": ""} == {
        "name": "imported",
        "description": "",
        "source_language": "en",
        "target_language": "de",
    }
    lines = (golden / "inputs.en").read_bytes()
    done = run("decoder", f"--saved_model={base}", input=lines)
    assert _lines(done.stdout) == theirs["batches_of_32"]
    few = _lines(lines.decode("utf-8"))[:4]
    with serve(base, "imported") as server:
        for protocol in ("rest", "grpc"):
            flags = [f"--server={server.address(protocol)}", "--model=imported", f"--protocol={protocol}"]
            asked = run("query", *flags, input="\n".join(few).encode())
            assert _lines(asked.stdout) == theirs["batches_of_32"][:4]
    page = backends.Export(ExportedTranslator(base))
    assert [found[0].text for found in page.translate([" " + line for line in few])] == theirs["batches_of_32"][:4]
    assert page.attention(few[0])["translations"][0]["text"] == theirs["batches_of_32"][0]


@pytest.mark.nightly
def test_ctranslate2(
    run: Run, imported: tuple[Path, str], golden: Path, theirs: dict[str, list[str]], tmp_path: Path
) -> None:
    """Runs the program in README.txt. Its length penalty has another formula, so an output may differ."""
    run("exporter", f"--output_dir={imported[0]}", "--format=ctranslate2", f"--export_dir={tmp_path}")
    readme = (tmp_path / "1" / "README.txt").read_text("utf-8")
    program = textwrap.dedent(readme[readme.index("    import json\n") : readme.index("\nCTranslate2 divides")])
    lines = (golden / "inputs.en").read_bytes() + b"\n  \n"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path / "1", input=lines, capture_output=True, check=True, timeout=120)
    *outputs, first, second = _lines(done.stdout.decode("utf-8"))
    assert (first, second) == ("", "")
    assert sum(one == other for one, other in zip(outputs, theirs["batches_of_32"], strict=True)) >= 58
    assert math.isclose(float(re.findall(r"length_penalty=([\d.]+)", readme)[0]), 0.48)
