"""Several processes as one job: it loses a worker, is stopped, moves to other machines, and ends as if alone."""

import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.cli import datagen
from t2t_lite.distributed.workers import worker_error
from tests.faults.material import LARGE, SMALL, write_corpus
from tests.faults.workers import Job, metrics

STEPS = 60
# Dropout is on; an evaluation, which only the chief makes, is due where the second job stops.
HPARAMS = (
    "num_layers=1,d_model=32,d_ff=32,num_heads=2,dropout=0.1,batch_tokens=2048,log_every=1,eval_every=30,"
    f"eval_lines=4,train_steps={STEPS},save_every=10,average_checkpoints=1,beam_size=1,extra_length=2"
)


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("data")
    corpus = write_corpus(folder / "corpus", LARGE[:2000], SMALL[:10])
    assert datagen.main([*corpus, f"--data_dir={folder}", "--num_workers=1"]) == 0
    return [*corpus, "--hparams_set=tiny", f"--hparams={HPARAMS}", f"--data_dir={folder}"]


def _weights(run: Path) -> dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(str(run / "checkpoints" / f"model-{STEPS}"))
    return {key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map() if key.startswith("weights/")}


@pytest.mark.nightly
def test_a_job_that_is_hurt_stopped_and_moved_ends_as_one_process_alone(flags: list[str], tmp_path: Path) -> None:
    alone, run = tmp_path / "alone", tmp_path / "run"
    single = Job(alone, 1, *flags)
    job = Job(run, 2, *flags, "--devices=2")
    job.reach(run, 11)
    job.signal(1, signal.SIGKILL)
    killed = time.monotonic()
    assert job.end() == [1, -signal.SIGKILL]
    assert time.monotonic() - killed < 60
    assert "\nerror: Another worker has ended or cannot be reached, so this one ends, too. " in job.errors()[0]
    assert "Traceback" not in job.errors()[0]
    assert single.end() == [0], single.errors()

    job = Job(run, 2, *flags)
    job.reach(run, 25)
    job.signal(1, signal.SIGTERM)
    assert job.end() == [143, 143], job.errors()
    for errors in job.errors():
        assert "of 60 is done and saved. Resume with the same command on every worker\n" in errors

    job = Job(run, 1, "--devices=2")
    assert job.end() == [0], job.errors()
    losses = [[line["loss"] for line in metrics(each) if "loss" in line] for each in (alone, run)]
    assert len(losses[0]) == STEPS
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    expected, found = _weights(alone), _weights(run)
    assert expected.keys() == found.keys()
    for name, tensor in expected.items():
        np.testing.assert_allclose(found[name], tensor, rtol=0, atol=1e-4, err_msg=name)
    assert sorted(path.name for path in run.iterdir()) == sorted(path.name for path in alone.iterdir())


@pytest.mark.commit
def test_workers_that_do_not_agree_say_so(flags: list[str], tmp_path: Path) -> None:
    run = tmp_path / "run"
    job = Job(run, 2, *flags, own=("--train_steps=8", "--train_steps=9"))
    assert job.end() == [2, 2], job.errors()
    for errors in job.errors():
        assert "\nerror: The workers do not agree on the recipe. All need the same command, " in errors
    assert not (run / "hparams.json").exists()


@pytest.mark.commit
def test_workers_with_different_numbers_of_devices_say_so(flags: list[str], tmp_path: Path) -> None:
    """Sums over such workers would wait for ever, so the workers must stop before that."""
    job = Job(tmp_path / "run", 2, *flags, own=("--devices=1", "--devices=2"))
    assert job.end(120) == [2, 2], job.errors()
    for errors in job.errors():
        assert (
            "\nerror: The workers do not agree on the number of devices: 1, 2. Give all of them the " in f"\n{errors}"
        )


@pytest.mark.parametrize(
    ("kind", "message", "said"),
    [
        (
            tf.errors.InternalError,
            "Graph execution error:\n\nDetected at node Sum defined at (most recent call last):\n"
            '  File "/connect/a.py", line 5\n\nFailed to launch the kernel: out of resources\n\t [[{{node Sum}}]]',
            r"^An operation of this worker failed, so .* \(Failed to launch the kernel: out of resources\)$",
        ),
        (
            tf.errors.InternalError,
            "Graph execution error:\n\nNCCL: remote process exited\n\t [[{{node Sum}}]]",
            r"^Another worker has ended or cannot be reached, .* \(NCCL: remote process exited\)$",
        ),
        (
            tf.errors.InternalError,
            "2 root error(s) found.\n  (0) INTERNAL: It broke.\nCollective ops is aborted by: Connection reset by peer",
            r"^Another worker has ended .* \(Collective ops is aborted by: Connection reset by peer\)$",
        ),
        (tf.errors.UnavailableError, "Gone.\n", r"^Another worker has ended or cannot be reached, .* \(Gone\.\)$"),
    ],
)
def test_an_error_of_the_workers_own_device_is_not_that_of_another(
    kind: type[tf.errors.OpError], message: str, said: str
) -> None:
    assert re.search(said, str(worker_error(kind(None, None, message))))
