"""The command lines of all commands: flags given twice, tensor2tensor's names, --version."""

import re
from importlib import metadata
from pathlib import Path

import pytest

from t2t_lite.cli import parser
from t2t_lite.version import local_version
from tests.commands import call

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = sorted(p.stem for p in (ROOT / "t2t_lite/cli").glob("*.py") if "\ndef main(" in p.read_text("utf-8"))


@pytest.mark.commit
@pytest.mark.parametrize("command", COMMANDS)
def test_a_flag_given_twice_is_an_error(command: str) -> None:
    """One flag that takes a value is tested for all: the parser does not look at which flag it is."""
    flag = {"query": "--server", "datagen": "--data_dir"}.get(command, "--output_dir")
    done = call(command, f"{flag}=a", flag, "b")
    assert done.returncode == 2
    assert f"error: {flag} is given twice: a and b. Give it once." in done.stderr
    assert done.stdout == ""


@pytest.mark.commit
@pytest.mark.parametrize(
    ("command", "flags", "message"),
    [
        ("trainer", ["--describe", "--describe"], "--describe is given twice. Give it once."),
        ("trainer", ["--devices=2", "--devices=3"], "--devices is given twice: 2 and 3."),
        ("trainer", ["--separate_vocabularies", "--separate_vocabularies"], "--separate_vocabularies is given twice."),
        ("eval", ["--metric=bleu", "--metric=chrf"], "--metric is given twice: bleu and chrf."),
        # A flag that is needed is misspelt.
        ("exporter", ["--output-dir=a"], "there is no flag --output-dir. Did you mean '--output_dir'"),
        ("datagen", ["--data_dir=d", "--problme", "toy_ende"], "there is no flag --problme. Did you mean '--problem'"),
        ("datagen", ["--data_dir=d"], "the following arguments are required: --problem"),
        (
            "decoder",
            ["--output_dir=a", "--output=gs://b/x"],
            "--output=gs://b/x: only paths of this machine are taken.",
        ),
        ("trainer", ["--usr_dir=s3://b/code"], "--usr_dir=s3://b/code: only paths of this machine are taken."),
        ("exporter", ["--output_dir=a,b", "--export_dir="], "--export_dir is given without a value, as with a "),
        (
            "exporter",
            ["--output_dir=a", "--constraints=x"],
            "there is no flag --constraints. No export has it; t2t-lite-",
        ),
        (
            "exporter",
            ["--output_dir=a", "--replace_unk"],
            "there is no flag --replace_unk. No export has it; t2t-lite-",
        ),
        (
            "exporter",
            ["--output_dir=a", "--prefix=x"],
            "there is no flag --prefix. It is given to t2t-lite-decoder --sav",
        ),
        (
            "decoder",
            ["--output_dir=a", "--checkpoint=bset"],
            "argument --checkpoint: 'bset' is neither best, averaged, ema, newest nor a step such as 1000. Did you",
        ),
    ],
)
def test_flags_of_each_kind(command: str, flags: list[str], message: str) -> None:
    done = call(command, *flags)
    assert done.returncode == 2
    assert f"error: {message}" in done.stderr


def test_a_tilde_is_the_home_folder_in_every_path() -> None:
    one = parser.Parser("prog", "")
    one.add_argument("--output_dir", metavar="DIR")
    one.add_argument("--text", metavar="TEXT")
    args, home = one.parse(["--output_dir=~/a,b,~/c~", "--text=~/a"]), Path.home()
    assert (args.output_dir, args.text) == (f"{home}/a,b,{home}/c~", "~/a")


@pytest.mark.commit
@pytest.mark.parametrize("command", COMMANDS)
def test_version(command: str) -> None:
    done = call(command, "--version")
    assert done.returncode == 0, done.stderr
    engines = f"TensorFlow {metadata.version('tensorflow')}, Keras {metadata.version('keras')}"
    assert done.stdout == f"t2t-lite {local_version()} ({engines})\n"
    assert done.stderr == ""


@pytest.mark.commit
@pytest.mark.parametrize(
    ("command", "flags", "message"),
    [
        ("trainer", ["--t2t_usr_dir=x"], "no flag --t2t_usr_dir. tensor2tensor's --t2t_usr_dir is --usr_dir here."),
        ("trainer", ["--schedule=train"], "tensor2tensor's --schedule has no counterpart here: t2t-lite-trainer "),
        ("decoder", ["--decode_from_file=x"], "--decode_from_file is t2t-lite-decoder --input=FILE here."),
        ("trainer", ["--worker_gpu_memory_fraction=0.9"], "has no counterpart here: memory grows as it is needed."),
        ("eval", ["--output_dir=x", "--problem=toy_ende"], "no flag --problem. Leave it out: the run in --output_dir "),
        ("decoder", ["--hparams_set=tiny"], "no flag --hparams_set. Leave it out: the run in --output_dir has it."),
        ("query", ["--server=a:1", "--problem=x"], "no flag --problem. Leave it out: the model on the server has it."),
        ("compare", ["--hparams_set=tiny"], "no flag --hparams_set. Did you mean '--hparams'"),
    ],
)
def test_flags_of_tensor2tensor(command: str, flags: list[str], message: str) -> None:
    done = call(command, *flags)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.commit
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--problem=translate_ende_wmt32k"], r"translate_ende_wmt32k is wmt14_ende here \(37,000 pieces"),
        (["--problem=translate_ende_wmt_bpe32k"], r"translate_ende_wmt_bpe32k is wmt14_ende here \(text of WMT14, "),
        (
            ["--problem=toy_ende", "--hparams_set=transformer_base_v2"],
            r"transformer_base_v2 has no counterpart here: t2t_base or t2t_big with --hparams come nearest\. Known: ",
        ),
        (["--problem=toy_ende", "--hparams_set=transformer_base"], "transformer_base is t2t_base here"),
        (["--problem=toy_ende", "--hparams=batch_size=4096"], r"batch_size is batch_tokens here \(over all devices"),
    ],
)
def test_names_of_tensor2tensor(flags: list[str], message: str, tmp_path: Path) -> None:
    done = call("trainer", *flags, f"--output_dir={tmp_path / 'run'}")
    assert done.returncode == 2
    assert re.search(f"tensor2tensor's {message}", done.stderr)
    assert list(tmp_path.iterdir()) == []
