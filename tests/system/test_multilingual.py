"""docs/multilingual.md: the corpus, commands and outputs of the page, and the same model in Python and in the demo."""

import json
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

import t2t_lite
from t2t_lite.client.client import ServerTranslator
from t2t_lite.demo import backends
from t2t_lite.errors import DataError, UsageError
from t2t_lite.export.export_folder import read_card
from t2t_lite.export.warmup import WARMUP_FILE
from t2t_lite.runs.open_request import OpenRequest
from tests import commands
from tests.serving import server as serving_server
from tests.serving.served_model import Version

pytestmark = pytest.mark.nightly

Run = Callable[..., subprocess.CompletedProcess[str]]

PAGE = (Path(__file__).parents[2] / "docs" / "multilingual.md").read_text("utf-8")
TEXTS = ["the red dog sees the young cat", "", "the wide %s is the red tree 🙂"]

GERMAN, FRENCH = "der rote Hund sieht die junge Katze", "le chien rouge voit la chatte jeune"  # of the first


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Runs the page's script and commands; returns their folder, and what each command printed."""
    folder = tmp_path_factory.mktemp("multilingual")
    [script] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    subprocess.run([sys.executable, "-c", script], cwd=folder, check=True)
    printed = []
    for line in re.findall(r"^    ((?:echo .* )?t2t-lite-\w+ .*)$", PAGE, re.MULTILINE):
        [*given, command] = line.split(" | ")
        name, *flags = shlex.split(command)
        text = shlex.split(given[0])[1] if given else ""
        module = f"t2t_lite.cli.{commands.module_of(name.removeprefix('t2t-lite-'))}"
        done = commands.run(module, *flags, input=f"{text}\n".encode(), cwd=folder)
        assert done.returncode == 0, done.stderr.decode()
        printed.append(done.stdout.decode())
    return folder, printed


def test_the_page_is_true(outputs: tuple[Path, list[str]]) -> None:
    _, (trained, french, german, exported, of_export, scores) = outputs
    assert french == f"{FRENCH}\n"
    assert f"`{FRENCH}`" in PAGE
    assert german == "der rote Hund sieht das junge %s\n"
    assert of_export == f"{GERMAN}\n"
    assert "run/export" in exported
    mean, *_ = re.findall(r"^BLEU\|mean:de\+fr\|\S+ = (\S+) \(de (\S+), fr (\S+)\)$", scores, re.MULTILINE)
    assert min(map(float, mean)) > 90
    assert "BLEU|mean:de+fr|" in trained
    for language, value in zip(("de", "fr"), mean[1:], strict=True):
        assert re.search(rf"^{language}: BLEU\|nrefs:1\|\S+ = {value} ", scores, re.MULTILINE)


def test_python_export_and_demo_give_the_same(
    outputs: tuple[Path, list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    folder = outputs[0]
    run, export = t2t_lite.load(folder / "run"), t2t_lite.load(folder / "run" / "export")
    for language in ("de", "fr"):
        typed = [f">>{language}<< {text}" if text else "" for text in TEXTS]
        wanted = run.translate(typed)
        assert wanted[1] == ""
        assert "%s" in wanted[2]
        assert run.translate(TEXTS, target_language=language) == wanted
        assert export.translate(typed) == export.translate(TEXTS, target_language=language) == wanted
        assert run.nbest(TEXTS, 2, target_language=language)[0][0].text == wanted[0]
        pair = (TEXTS[0], wanted[0])
        assert run.score([pair], target_language=language) == run.score([(typed[0], wanted[0])])
        sentence = run.attention(TEXTS[0], target_language=language)
        assert sentence.source[0] == f">>{language}<<"
        np.testing.assert_array_equal(sentence.encoder, run.attention(typed[0]).encoder)
        for backend in (
            backends.open_run(OpenRequest(folders=(str(folder / "run"),)), language=language),
            backends.open_export(str(folder / "run" / "export"), language=language),
        ):
            assert backend.translate(["", TEXTS[0]])[1][0].text == wanted[0]
    assert not [message for message in caplog.messages if "unknown" in message]  # the emoji is written in bytes
    assert run.translate(TEXTS[:1], target_language="de") != run.translate(TEXTS[:1], target_language="fr")
    assert "A line begins with" not in caplog.text
    run.translate([">>de<< the dog"], target_language="fr")
    assert "A line begins with >>de<<, which is text to the model" in caplog.text
    for loaded in (run, export):
        with pytest.raises(DataError, match="does not begin with the label"):
            loaded.translate(TEXTS)
        with pytest.raises(UsageError, match="this model writes de, fr. Did you mean 'fr'"):
            loaded.translate(TEXTS, target_language="fra")
    labelled = backends.open_run(OpenRequest(folders=(str(folder / "run"),)))
    assert labelled.example == ">>de<< a"
    assert labelled.translate([labelled.example])


def test_a_file_resumes_only_with_its_language(run: Run, outputs: tuple[Path, list[str]], tmp_path: Path) -> None:
    folder = outputs[0] / "run"
    (tmp_path / "in").write_text("the red dog sees the tree\n" * 3)
    flags = [f"--output_dir={folder}", f"--input={tmp_path}/in"]
    done = run("decoder", *flags, "--target_language=de", "--json")
    assert done.stdout.count('"input": "the red dog sees the tree"') == 3
    assert "this model writes de, fr" in run("decoder", *flags, "--target_language=d", status=2, quick=True).stderr
    flags_of_export = [f"--saved_model={folder}/export", f"--input={tmp_path}/in", "--target_language=d"]
    assert "this model writes de, fr" in run("decoder", *flags_of_export, status=2, quick=True).stderr
    done = run("decoder", *flags, status=1)
    assert "Or name the language of all lines: --target_language=CODE." in done.stderr
    done = run("decoder", f"--output_dir={folder}", "--split=dev", "--target_language=de", status=2, quick=True)
    assert "goes with --input: the lines of a split have their labels" in done.stderr
    assert run("decoder", f"--output_dir={folder}", "--split=dev").stdout.count("\n") == 120
    (tmp_path / "de").write_text("der rote Hund sieht der rote Baum\n" * 3)
    flags = [f"--output_dir={folder}", "--score", f"--sources={tmp_path}/in", f"--targets={tmp_path}/de"]
    german, french = (run("eval", *flags, f"--target_language={code}").stdout.split("\t") for code in ("de", "fr"))
    assert float(german[0]) > float(french[0])


def test_a_server_takes_labels_and_its_warm_up_has_one(run: Run, outputs: tuple[Path, list[str]]) -> None:
    base = outputs[0] / "run" / "export"
    [version] = (path for path in base.iterdir() if path.name.isdecimal())
    assert read_card(version)["problem"]["labels"] == [">>de<<", ">>fr<<"]
    records = tf.data.TFRecordDataset(str(version / "assets.extra" / WARMUP_FILE)).as_numpy_iterator()
    requests = [prediction_log_pb2.PredictionLog.FromString(record).predict_log.request for record in records]
    loaded = Version(version)
    with serving_server.serve(base, "toy") as server:
        for request in requests:
            given = {name: tf.make_ndarray(proto) for name, proto in request.inputs.items()}
            assert all(text.startswith(b">>de<< ") for text in given["inputs"])
            answer = loaded.run(request.model_spec.signature_name, given, 60)
            assert {len(value) for value in answer.values()} == {len(given["inputs"])}
        with ServerTranslator(server.rest, "toy") as translator:
            found = [n[0].text for n in translator.translate([f">>de<< {TEXTS[0]}", "", f">>fr<< {TEXTS[0]}"])]
            assert found == [GERMAN, "", FRENCH]
            with pytest.raises(UsageError, match=r"A line does not begin .* each line: >>de<<, >>fr<<\. No line of"):
                translator.translate(["the red dog"])
        flags = [f"--server={server.rest}", "--model=toy", "--json"]
        done = run("query", *flags, "--target_language=fr", input=f"{TEXTS[0]}\n\n".encode())
        rows = [json.loads(row) for row in done.stdout.splitlines()]
        assert [(row["input"], row["outputs"][0]["text"]) for row in rows] == [(TEXTS[0], FRENCH), ("", "")]
        done = run("query", *flags, "--target_language=fra", input=b"the dog\n", status=2)
        assert "each line: >>de<<, >>fr<<. No line of this request is translated." in done.stderr
        page = backends.Server(server.rest, "toy", "fr")
        assert page.translate([TEXTS[0], " "])[0][0].text == FRENCH
        page.close()


def test_the_program_of_ctranslate2_reads_labels(run: Run, outputs: tuple[Path, list[str]], tmp_path: Path) -> None:
    run("exporter", f"--output_dir={outputs[0]}/run", "--format=ctranslate2", f"--export_dir={tmp_path}")
    readme = (tmp_path / "1" / "README.txt").read_text("utf-8")
    assert "begins with the label of its target language and a space: >>de<<, >>fr<<." in readme
    program = textwrap.dedent(readme[readme.index("    import sys\n") : readme.index("\nCTranslate2 divides")])
    text = ">>de<< the red dog sees the young cat\n\n>>fr<< the red dog sees the young cat\n"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path / "1", input=text.encode(), capture_output=True, check=True
    )
    assert done.stdout.decode().split("\n") == [GERMAN, "", FRENCH, ""]
