"""Makes system calls of the commands fail, each once, and runs the same command again.

Usage: python -m tests.faults.failed_calls [--only=training] [--errors=1]

All that a training writes to its folders of checkpoints ("saves"), a whole training, an averaging by hand, an export,
an import, the output of the decoder and the tables of a comparison are made. Each call that names their files (open,
read, write, fsync, close, rename, truncate, unlink, mkdir, rmdir, flock) fails once, at the first and the last time
that it is made, with --errors=N of the errors ENOSPC, EDQUOT, EIO, ESTALE and EACCES. Then the same command runs again.
It must end, with the weights, the output or the tables of a command that nothing disturbed.

The calls of Python and of TensorFlow are caught by failing.c, which needs a C compiler and Linux.
"""

import argparse
import collections
import contextlib
import ctypes
import errno
import functools
import hashlib
import importlib
import io
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from t2t_lite.cli import common
from t2t_lite.distributed.tensorflow_loading import load_tensorflow
from t2t_lite.runs.checkpoint_files import list_whole

ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE, errno.EACCES)
TRACEBACK = 99  # the exit status of a command that ends with one
SOURCE = Path(__file__).with_name("failing.c")
RECIPE = (
    "num_layers=1,d_model=16,d_ff=16,num_heads=2,batch_tokens=512,log_every=1,eval_every=2,eval_lines=4,train_steps=4,"
    "save_every=2,keep_checkpoints=2,average_checkpoints=2,beam_size=1,extra_length=1,warmup_steps=2"
)


class Scenario(NamedTuple):
    """A command whose calls fail.

    Attributes:
        prepare: makes what the command starts from in a folder; it is copied for each case.
        command: returns the command and its flags for that folder; "saves" is `save_all`.
        part: of the paths whose calls fail, below the folder.
        result: what the folder holds at the end, as a digest.
        repeats: whether the command may run again where it has ended well.
    """

    prepare: Callable[[Path], None]
    command: Callable[[Path], list[str]]
    part: str
    result: Callable[[Path], str]
    repeats: bool = True


class Case(NamedTuple):
    """A call that failed: its name, the file, the error, and what the command and the same command again did."""

    call: str
    file: str
    error: str
    status: int
    again: int
    same: bool
    said: str

    @property
    def outcome(self) -> str:
        if self.again:
            return "CANNOT END"
        if self.status == TRACEBACK:
            return "TRACEBACK"
        if not self.same:
            return "DIFFERENT"
        return "went on" if self.status == 0 else "ended, and the next start made it whole"


def build(folder: Path) -> Path | None:
    """Compiles failing.c; returns the library, or None where that cannot be done."""
    library, compiler = folder / "failing.so", shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        return None
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"]
    done = subprocess.run(command, capture_output=True, check=False)
    return library if done.returncode == 0 else None


def _main(command: Sequence[str]) -> tuple[int, str]:
    """Runs a command of t2t_lite.cli in this process; returns its exit status, or TRACEBACK, and what it said."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            if command[0] == "saves":
                status = common.run(lambda: save_all(Path(command[1])))
            else:
                status = importlib.import_module(f"t2t_lite.cli.{command[0]}").main(list(command[1:]))
        except SystemExit as end:
            status = int(end.code or 0)
        except BaseException:
            traceback.print_exc(limit=-3)
            status = TRACEBACK
    return status, err.getvalue()


def save_all(folder: Path) -> int:
    """What a training does with its checkpoints in four steps: it resumes, saves, keeps the best and the mean."""
    from t2t_lite.optimizers.adam import Adam
    from t2t_lite.runs.checkpoint import Checkpoints, list_checkpoints
    from t2t_lite.runs.checkpoint_files import AVERAGED, BEST

    model = _model()
    adam = Adam([weight.value for weight in model.trainable_weights], 0.9, 0.98, 1e-9)
    checkpoints = Checkpoints(folder / "run", model, adam, keep=2)
    for step in range(checkpoints.resume() + 1, 5):
        for i, variable in enumerate((*(weight.value for weight in model.weights), *adam.m, *adam.v)):
            variable.assign(_filled(variable, step + i / 100))
        if step % 2 == 0:
            checkpoints.save_weights(BEST, step)
        checkpoints.save(step)
    checkpoints.average(list_checkpoints(folder / "run")[-2:])  # a failed save may have kept an older one, too
    checkpoints.save_weights(AVERAGED, 4)
    return 0


@functools.cache
def _model() -> Any:
    from t2t_lite import config, registry
    from t2t_lite.runs.run_dir import make_model

    hparams = config.replace(registry.hparams("tiny"), num_layers=1, d_model=8, d_ff=8, num_heads=2)
    return make_model("transformer", hparams, 20, 20, True)


def _filled(variable: Any, value: float) -> Any:
    import tensorflow as tf

    return tf.fill(variable.shape, tf.cast(value, variable.dtype))


def _checked(*command: str) -> None:
    status, said = _main(command)
    assert status == 0, said


def _corpus(folder: Path) -> list[str]:
    from tests.faults.material import SMALL, write_corpus

    return write_corpus(folder / "corpus", SMALL, SMALL[:6])


def _training(folder: Path) -> list[str]:
    flags = [*_corpus(folder), f"--data_dir={folder / 'data'}", "--hparams_set=tiny", f"--hparams={RECIPE}"]
    return ["trainer", *flags, "--num_workers=1", f"--output_dir={folder / 'run'}"]


def _prepare_data(folder: Path) -> None:
    _checked("datagen", *_corpus(folder), f"--data_dir={folder / 'data'}", "--num_workers=1")


def _prepare_run(folder: Path) -> None:
    _checked(*_training(folder))


def _prepare_import(folder: Path) -> None:
    from tests.importers.made_up import save, variables
    from tests.subword_files import PIECES, file_of

    save(folder / "there" / "model.ckpt-100", variables(rows=len(PIECES)))
    (folder / "vocabulary").write_bytes(file_of(PIECES))


def _comparison(folder: Path) -> list[str]:
    recipe = RECIPE.replace("train_steps=4,", "")
    flags = ["--problem=toy_reverse", "--problem_options=train_size=200", "--sets=tiny", f"--hparams={recipe}"]
    return ["compare", *flags, "--train_steps=4", f"--output_dir={folder / 'compared'}"]


def _prepare_comparison(folder: Path) -> None:
    _checked(*_comparison(folder))
    for file in (folder / "compared").glob("table.*"):
        file.unlink()
    (folder / "compared" / "runs.json").unlink()


def _weights(folder: Path) -> str:
    from tests.faults.kills import digest

    return digest(folder / "run")


def _newest_weights(folder: Path) -> str:
    for path in list_whole(folder / "run" / "checkpoints")[:-2]:
        for file in Path(path).parent.glob(f"{Path(path).name}.*"):
            file.unlink()
    return _weights(folder)


def _imported(folder: Path) -> str:
    from tests.faults.kills import digest

    left = sorted(path.name for path in (folder / "out").iterdir())
    return " ".join([digest(folder / "out" / "run"), *left])


def _output(folder: Path) -> str:
    return hashlib.sha256((folder / "out").read_bytes()).hexdigest()


def _export(folder: Path) -> str:
    """The weights of all versions, which must be whole; with the number of versions that a server would find odd."""
    import tensorflow as tf

    from t2t_lite.export.export_folder import read_card, versions

    found = set()
    for version in versions(folder / "export").values():
        read_card(version)
        reader = tf.train.load_checkpoint(str(version / "variables" / "variables"))
        tensors = [reader.get_tensor(key) for key in sorted(reader.get_variable_to_shape_map())]
        found.add(hashlib.sha256(b"".join(getattr(each, "tobytes", lambda: b"")() for each in tensors)).hexdigest())
    left = [path.name for path in (folder / "export").iterdir() if not path.name.isdecimal()]
    return " ".join([*sorted(found), *left])


def _tables(folder: Path) -> str:
    found = (folder / "compared" / "table.txt").read_text()
    assert (folder / "compared" / "table.svg").is_file()
    return " ".join(re.findall(r"\S*tiny\S*", found))  # the rest has speeds


SCENARIOS = {
    "saves": Scenario(lambda folder: None, lambda folder: ["saves", str(folder)], "/run", _newest_weights),
    "training": Scenario(_prepare_data, _training, "/run", _weights),
    "averaging": Scenario(
        _prepare_run, lambda folder: ["avg_checkpoints", f"--output_dir={folder / 'run'}"], "/run", _weights
    ),
    "export": Scenario(
        _prepare_run,
        lambda folder: ["exporter", f"--output_dir={folder / 'run'}", f"--export_dir={folder / 'export'}"],
        "/export",
        _export,
    ),
    "import": Scenario(
        _prepare_import,
        lambda folder: [
            *("importer", f"--checkpoint={folder / 'there'}", f"--vocabulary={folder / 'vocabulary'}"),
            f"--output_dir={folder / 'out' / 'run'}",
        ],
        "/out",
        _imported,
        repeats=False,
    ),
    "decoding": Scenario(
        _prepare_run,
        lambda folder: [
            *("decoder", f"--output_dir={folder / 'run'}", f"--input={folder / 'corpus' / 'train.en'}"),
            f"--output={folder / 'out'}",
        ],
        "/out",
        _output,
    ),
    "comparison": Scenario(_prepare_comparison, _comparison, "/compared", _tables),
}


def try_scenario(name: str, folder: Path, errors: int, most: int = sys.maxsize) -> Iterator[Case]:
    """Yields a case for each call of a scenario; `most`: of each kind of call."""
    scenario, library = SCENARIOS[name], ctypes.CDLL(None)
    work, kept, log = folder / "work", folder / "kept", folder / "calls"
    work.mkdir(parents=True)
    scenario.prepare(work)
    shutil.copytree(work, kept, symlinks=True)
    command = scenario.command(work)

    def run(number: int, error: int, file: int = -1) -> tuple[int, str, bool]:
        library.fail_call(os.fsencode(f"{work}{scenario.part}"), ctypes.c_long(number), error, file)
        status, said = _main(command)
        failed = bool(library.fail_made())
        library.fail_call(b"", ctypes.c_long(0), 0, -1)
        return status, said, failed

    with open(log, "wb") as file:
        status, said, _ = run(0, 0, file.fileno())
    assert status == 0, said
    expected = scenario.result(work)
    kinds = itertools.cycle(ERRORS)
    chosen = _chosen(log.read_text(errors="replace").split("\n")[:-1], str(work), most)
    assert chosen, f"{name}: no call names {scenario.part}"
    for number, call, path in chosen:
        for _ in range(errors):
            error = next(kinds)
            shutil.rmtree(work)
            shutil.copytree(kept, work, symlinks=True)
            status, said, failed = run(number, error)
            if not failed:
                continue  # another call at that place this time, as of a thread
            again, more = _main(command) if status or scenario.repeats else (0, "")
            same = again == 0 and scenario.result(work) == expected
            yield Case(call, path, errno.errorcode[error], status, again, same, said[-600:] + more[-600:])


def _chosen(lines: Sequence[str], work: str, most: int) -> list[tuple[int, str, str]]:
    """The calls that are made to fail: of each call and file the first and the last one, by their numbers."""
    places: dict[tuple[str, str], list[int]] = {}
    for number, line in enumerate(lines, 1):
        call, _, path = line.partition("\t")
        place = re.sub(r"\d+", "N", path.replace(work, "").removesuffix(" (deleted)"))
        place = re.sub(r"(\.partial\.)[^/]+", r"\1X", re.sub(r"_temp/part|events\.out.*", "T", place))
        places.setdefault((call, place), []).append(number)
    kinds = collections.Counter[str]()
    chosen = []
    for (call, place), numbers in places.items():
        kinds[call] += 1
        if kinds[call] <= most:
            chosen += [(number, call, place) for number in dict.fromkeys((numbers[0], numbers[-1]))]
    return sorted(chosen)


def main() -> int:
    """The command; see the module. It starts itself again with failing.c loaded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=SCENARIOS)
    parser.add_argument("--errors", type=int, default=1, help="how many of the errors each call fails with")
    parser.add_argument("--most", type=int, default=sys.maxsize, help="of the files of each kind of call")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if "failing.so" not in os.environ.get("LD_PRELOAD", ""):
            library = build(Path(folder))
            if library is None:
                print("a C compiler and Linux are needed")
                return 2
            environment = {**os.environ, "LD_PRELOAD": str(library)}
            command = [sys.executable, "-m", "tests.faults.failed_calls", *sys.argv[1:]]
            return subprocess.run(command, env=environment, check=False).returncode
        return _report([args.only] if args.only else list(SCENARIOS), Path(folder), args.errors, args.most)


def _report(names: Sequence[str], folder: Path, errors: int, most: int) -> int:
    load_tensorflow()
    faults = 0
    for name in names:
        found = collections.Counter[tuple[str, str]]()
        for case in try_scenario(name, folder / name, errors, most):
            found[case.call, case.outcome] += 1
            bad = case.again or not case.same or case.status == TRACEBACK
            faults += bool(bad)
            outcome = f"{case.status}, then {case.again}: {case.outcome}"
            print(f"{name}: {case.call} {case.file} {case.error}: {outcome}", flush=True)
            if bad:
                print("   " + case.said.strip().replace("\n", "\n   "), flush=True)
        for (call, outcome), number in sorted(found.items()):
            print(f"| {name} | {call} | {outcome} | {number} |", flush=True)
    print(f"{faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
