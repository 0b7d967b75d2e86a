"""What all commands share."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from t2t_lite.cli import common
from t2t_lite.distributed import tensorflow_loading
from t2t_lite.errors import UsageError
from tests.test_signals import trace_interrupted

SCRIPT = """
import gc
from t2t_lite.cli import common
from t2t_lite.distributed import tensorflow_loading

before = gc.get_freeze_count()  # some versions of Python freeze a few at their start
tensorflow_loading._import_tensorflow = lambda: print("while importing:", gc.isenabled())  # seconds less
{load}
print(gc.isenabled(), gc.get_freeze_count() > before, gc.get_threshold() == {usual})
"""


@pytest.mark.parametrize(
    ("load", "said"),
    [
        ("tensorflow_loading.load_tensorflow()", "while importing: True\nTrue False True\n"),
        ("common.run(lambda: tensorflow_loading.load_tensorflow() or 0)", "while importing: False\nTrue True False\n"),
    ],
    ids=["a program", "a command"],
)
def test_only_commands_change_how_garbage_is_collected(load: str, said: str) -> None:
    usual = subprocess.check_output([sys.executable, "-c", "import gc; print(gc.get_threshold())"], text=True).strip()
    script = SCRIPT.format(load=load, usual=usual)
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == said


KERAS = """
import sys
from t2t_lite.cli import common
from t2t_lite.distributed import tensorflow_loading
def body():
    sys.path.insert(0, sys.argv[1])
    import mine  # a user's code
    tensorflow_loading.load_tensorflow()
    return 0
raise SystemExit(common.run(body))
"""


LESS = """
import sys, keras, tensorflow as tf
print("jax" in sys.modules, "matplotlib" in sys.modules, type(sys.modules["tensorflow._api.v2.compat.v1"]).__name__)
import matplotlib
print(matplotlib.__name__, tf.compat.v1.get_default_graph.__name__, tf.compat.v2.zeros is tf.zeros)
"""


@pytest.mark.commit
def test_commands_import_less_and_find_all_of_it_later() -> None:
    load = "common.run(lambda: tensorflow_loading.load_tensorflow() or 0)"
    script = f"from t2t_lite.cli import common\nfrom t2t_lite.distributed import tensorflow_loading\n{load}\n{LESS}"
    found = subprocess.check_output([sys.executable, "-c", script], text=True)
    assert found == "False False _LazyModule\nmatplotlib get_default_graph True\n"


@pytest.mark.nightly
def test_a_users_code_imports_tensorflow_as_the_commands_do(tmp_path: Path) -> None:
    """A model in one file of --usr_dir imports Keras before the command does: no notices, and Keras' one backend."""
    code = "import sys, keras, tensorflow\nprint(keras.backend.backend(), file=sys.stderr)\n"
    (tmp_path / "mine.py").write_text(code, encoding="utf-8")
    environment = {**os.environ, "KERAS_BACKEND": "jax"}
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
    command = [sys.executable, "-c", KERAS, tmp_path]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    said = "KERAS_BACKEND=jax is ignored: t2t-lite computes with TensorFlow.\ntensorflow\n"
    assert (done.returncode, done.stderr) == (0, said)


def test_keras_with_another_backend_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keras.backend.backend", lambda: "jax")
    with pytest.raises(UsageError, match=r"has imported Keras with the backend 'jax', .* set KERAS_BACKEND=tensorflow"):
        tensorflow_loading.load_tensorflow()


def test_threads_that_hide_notices_give_standard_error_back(capfd: pytest.CaptureFixture[str]) -> None:
    entered = threading.Event()

    def hide() -> None:
        with tensorflow_loading.quiet():
            entered.set()

    with tensorflow_loading.quiet():
        other = threading.Thread(target=hide)
        other.start()
        assert not entered.wait(0.2)  # the other waits
        os.write(2, b"a notice\n")
    other.join(60)
    assert entered.is_set()
    os.write(2, b"an error\n")
    assert capfd.readouterr().err == "an error\n"


@pytest.mark.parametrize(("encoding", "said"), [("latin-1", b"\xfc \\u732b\n"), ("utf-8", "ü 猫\n".encode())])
def test_what_standard_output_cannot_hold_is_escaped(encoding: str, said: bytes) -> None:
    script = "from t2t_lite.cli import common; raise SystemExit(common.run(lambda: print('\\xfc \\u732b') or 0))"
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    assert subprocess.check_output([sys.executable, "-c", script], env=environment) == said


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_command_that_fails_because_keras_drops_a_signal_was_interrupted(
    number: int, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(number)
    assert common.run(lambda: trace_interrupted(number)) == status
    assert capsys.readouterr().err == "error: interrupted.\n"
    assert signal.getsignal(number) is before


def test_what_the_memory_cannot_hold_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert common.run(lambda: len(bytearray(1 << 62))) == 1
    assert capsys.readouterr().err == (
        "error: There is not enough memory. Give smaller files, or fewer lines at a time.\n"
    )
