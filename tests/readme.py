"""Runs the commands of README.md and PAGES, as written, in a fresh clone and a fresh environment: `make readme`.

The pages are read, not copied. The section that installs runs first. If a command cannot run as written, or would take
hours, RULES changes it, and the log shows what ran and why. Each command must end with status 0, without a warning or
an error, and print what EXPECTED names. tests/test_readme.py runs the commands that take seconds.

Only the standard library is imported, so that any Python can start it.
"""

import dataclasses
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/install.md", "docs/commands.md", "docs/settings.md")
INSTALL = "Install"  # this section runs first, as nothing runs without it

# Long enough for two checkpoints, an evaluation and an average; small enough for seconds.
SHORT = (
    "train_steps=6,log_every=3,eval_every=6,save_every=3,average_checkpoints=2,num_layers=1,d_model=64,d_ff=128,"
    "num_heads=2,warmup_steps=2,batch_tokens=1024,max_length=128,beam_size=2,extra_length=5"
)
# (condition on a command, pattern, replacement or None to leave it out, reason). All that match apply, in order.
RULES: list[tuple[str, str, str | None, str]] = [
    (r"^python3 -m venv ", r"^python3", shlex.quote(sys.executable), "the Python that runs this"),
    (r"^pip install git\+", r"git\+\S+", f"git+file://{ROOT}", "the address is the reader's"),
    (r"^pip install git\+|^pip wheel ", r"pip install", r"\g<0> --force-reinstall --no-deps", "it is there already"),
    (r"^make test\b", "", None, "tests/test_readme.py is a part of it"),
    (r"^TF_CONFIG='\{\.\.\.\}'", "", None, "takes several machines; tests/training starts such clusters"),
    (r"^tensorboard ", r"^.*$", r"timeout -s INT 60 \g<0> --port=0 || test $? = 124", "it would serve for ever"),
    (r"^(?!.*=runs/toy\b(?!_))t2t-lite-trainer .*--problem=(?!.* --hparams=)", r"$", f" --hparams={SHORT}",
     "else hours"),
    (r"^t2t-lite-trainer .*--problem=.* --hparams=(?!train_steps=6)", r"--hparams=", f"--hparams={SHORT},",
     "else hours"),
    (r"^t2t-lite-(trainer|datagen) .*--problem=wmt14_", r"$", " --raw_dir=wmt14", "nothing is downloaded"),
]  # fmt: skip
# (pattern of a command, pattern that its output must match). Only the first row that matches a command applies.
EXPECTED = [
    (r" --describe", r"parameters|updates per epoch"),
    (r"^t2t-lite-import ", r"\nrun: +runs/"),
    (r"^t2t-lite-trainer ", r"(?s)test set, .*\n(BLEU\||.*F1).*\nweights:"),
    (r"^t2t-lite-eval .* --score ", r"(?m)^-\d+\.\d+\t\d+\t"),
    (r"^t2t-lite-eval ", r"(BLEU|chrF2|F1).* = \d"),
    (r"\| t2t-lite-decoder ", r"\n"),
    (r"^t2t-lite-exporter ", r"(?s)[\d,]+ parameters of .*t2t-lite-decoder --saved_model="),
    (r"^pip install ", r"Successfully installed|already satisfied"),
    (r"^tensorboard ", r"TensorBoard \S+ at http"),
]
BAD = re.compile(r"Traceback|^\S*error: |Warning:|^warning:", re.IGNORECASE | re.MULTILINE)
WORDS = ("python3", "make", "pip", "source", ".", "echo", "tensorboard", "TF_CONFIG", "cat", "zcat")  # or t2t-lite-...
WHILE_LOADING = re.compile(r"^(WARNING: All log|[IWE]\d{4} |To enable the following).*\n", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Block:
    """A block of code: its section, its language ("" if indented) and its lines."""

    section: str
    language: str
    lines: tuple[str, ...]

    def commands(self) -> list[str]:
        """Returns the commands of the block: continued lines are joined, comments left out."""
        text = "\n".join(self.lines).replace("\\\n", " ")
        lines = (re.sub(r"\s+# .*|^# .*", "", line) for line in text.split("\n"))
        return [" ".join(line.split()) for line in lines if line.strip()]

    def is_listing(self) -> bool:
        """Whether it lists files: each line starts with a path."""
        return all(re.match(r"[\w.-]+/\S+", line) for line in self.lines if line)


def read_pages() -> str:
    """Returns the text of all PAGES, one after the other."""
    return "\n".join((ROOT / page).read_text(encoding="utf-8") for page in PAGES)


def blocks(text: str) -> list[Block]:
    """Returns the blocks of a page, the section INSTALL first."""
    found, section, lines = [], "", iter(text.split("\n"))
    before = ""
    for line in lines:
        if line.startswith("#"):
            section = line.lstrip("# ")
        elif line.startswith("```"):
            found.append(Block(section, line[3:].strip(), tuple(iter(lambda: next(lines), "```"))))
        elif line.startswith("    ") and not before.strip():
            rest = [line]
            while (line := next(lines, "")).startswith("    "):
                rest.append(line)
            found.append(Block(section, "", tuple(part[4:] for part in rest)))
        before = line
    if not any(block.section == INSTALL for block in found):
        raise ValueError(f"No section {INSTALL!r} has commands; INSTALL names the one that installs.")
    return sorted(found, key=lambda block: block.section != INSTALL)


def shell_commands(text: str) -> Iterator[str]:
    """Yields all commands of a page in the order in which they run; ValueError for a line that is no command."""
    for block in blocks(text):
        if block.language in ("", "sh", "bash") and not block.is_listing():
            for command in block.commands():
                if not command.startswith("t2t-lite-") and re.split("[ =]", command)[0] not in WORDS:
                    raise ValueError(f"{block.section}: {command!r} is no command that WORDS names.")
                yield command


def apply_rules(command: str) -> tuple[str | None, list[str]]:
    """Returns the command to run instead, or None for nothing, and the reasons of the rules that changed it."""
    reasons = []
    for condition, pattern, replacement, why in RULES:
        if re.search(condition, command):
            reasons.append(why)
            if replacement is None:
                return None, reasons
            command = re.sub(pattern, replacement, command, count=1)
    return command, reasons


def make_inputs(folder: Path, text: str) -> None:
    """Writes the corpora that the commands name, and as `opus-en-de` a small model that Marian trained."""
    for command in shell_commands(text):
        if given := re.search(r"--source_dir=(\S+)", command):
            for split, count in (("train", 2000), ("dev", 20), ("test", 20)):
                for language, lines in zip(("en", "de"), _pairs(count), strict=True):
                    _write(folder / given[1] / f"{split}.{language}", lines)
    shutil.copytree(ROOT / "tests" / "golden" / "marian" / "toy", folder / "opus-en-de")
    for stem, count in (("train", 12000), ("newstest2013", 20), ("newstest2014", 20)):
        sources, targets = _pairs(count)
        for language, lines in (("en", sources), ("de", targets), ("fr", targets)):
            _write(folder / "wmt14" / f"{stem}.{language}", lines)


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command as the next one of a shell: `folder` keeps the working folder and variables of the last one."""
    state, place = folder / ".variables", folder / ".place"
    script = f"""
        [ -f {state} ] && . {state} && cd "$(cat {place})"
        {command}
        status=$?
        export -p > {state}
        pwd > {place}
        exit $status
    """
    return subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, check=False, timeout=3600)


def faults(command: str, done: subprocess.CompletedProcess[str]) -> list[str]:
    """Returns what is wrong with a finished command."""
    stderr = WHILE_LOADING.sub("", done.stderr)
    wrong = [f"status {done.returncode}"] if done.returncode else []
    if "t2t-lite-" in command and (bad := BAD.search(stderr)):  # pip and git may warn
        wrong.append(f"stderr has {bad[0]!r}")
    for condition, pattern in EXPECTED:
        if re.search(condition, command):
            if not re.search(pattern, done.stdout + stderr):
                wrong.append(f"nothing matches {pattern!r}")
            break
    return wrong


def main() -> int:
    """Runs all commands in a temporary folder; returns 1 if anything is wrong."""
    text = read_pages()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="readme-") as temporary:
        folder = Path(temporary)
        # pip may install only into the environment that README.md makes.
        run("export PIP_REQUIRE_VIRTUALENV=1; unset PYTHONPATH VIRTUAL_ENV", folder)
        run(f"git clone --quiet file://{ROOT} t2t-lite && cd t2t-lite", folder).check_returncode()
        make_inputs(folder / "t2t-lite", text)
        for command in shell_commands(text):
            changed, reasons = apply_rules(command)
            print(f"\n$ {command}", *(f"  # {why}" for why in reasons), sep="\n", flush=True)
            if changed is None:
                continue
            if changed != command:
                print(f"  $ {changed}", flush=True)
            start = time.monotonic()
            done = run(changed, folder)
            wrong = faults(command, done)
            failed += bool(wrong)
            lines = (done.stdout + (done.stderr if wrong else "")).strip().split("\n")
            print(*(f"    {line}" for line in lines[-40 if wrong else -9 :]), sep="\n")
            print(f"  {'FAILED: ' + '; '.join(wrong) if wrong else 'ok'}, {time.monotonic() - start:.0f} s", flush=True)
            if wrong and "t2t-lite-" not in command:
                print("\nStopped: without this nothing else runs where it should.")
                break
    print(f"\nPython {sys.version.split()[0]}: {failed or 'no'} commands failed.")
    return bool(failed)


def _pairs(count: int) -> tuple[str, str]:
    """Returns made-up sentences, and the same reversed word by word, with enough words for the largest vocabulary."""
    draw = random.Random(count)
    syllables = [first + second for first in "bdfgklmnprst" for second in "aeiou"]
    lines = [[_word(draw, syllables) for _ in range(draw.randint(3, 12))] for _ in range(count)]
    sources = (" ".join(words) + "." for words in lines)
    targets = (" ".join(reversed(words)) + "." for words in lines)
    return "\n".join(sources), "\n".join(targets)


def _word(draw: random.Random, syllables: list[str]) -> str:
    return "".join(draw.choices(syllables, k=draw.randint(1, 4)))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
