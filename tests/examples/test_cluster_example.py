"""The cluster example: the supervisor restarts what it should, and the manifests give workers that t2t-lite reads.

tests/faults/elastic.py runs the supervisor with real trainers.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from t2t_lite.distributed.cluster import Cluster, read_cluster

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/cluster"

# Notes each start, and waits for what a test asks of it: the file "done", or "once", "fail" or "hang" with a worker's
# index.
TRAINER = """
run=${1#--output_dir=}; run=${run#file://}; mkdir -p "$run/checkpoints"
index=${TF_CONFIG##*\\"index\\": }; index=${index%%\\}*}
echo "$$ ${TF_CONFIG-}" >> "$run/starts"
trap '[ -e "$run/hang$index" ] || { touch "$run/checkpoints/model-$(wc -l < "$run/starts").index"; exit 143; }' TERM
while [ ! -e "$run/done" ]; do
  sleep 0.05
  mv "$run/once$index" "$run/failed" 2>/dev/null && exit 1
  [ -e "$run/fail$index" ] && exit "$(cat "$run/fail$index")"
done
exit 0
"""

pytestmark = pytest.mark.commit


class Supervised:
    """The supervisor of such a trainer, whose list of machines is the file `hosts`."""

    def __init__(
        self, folder: Path, *flags: str, hosts: str = "localhost:3001\nlocalhost:3002 # a comment\n", url: str = ""
    ) -> None:
        self.run, self.hosts = folder / "run", folder / "hosts"
        self.run.mkdir()
        self.hosts.write_text(hosts)
        (folder / "trainer.sh").write_text(TRAINER)
        command = [sys.executable, str(EXAMPLE / "supervise.py"), f"--hosts_file={self.hosts}", "--poll=0.1"]
        command += ["--pause=0.05", *flags, "--", "sh", "trainer.sh", f"--output_dir={url}{self.run}"]
        self.process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)

    def starts(self) -> list[tuple[int, Cluster | None]]:
        """Process and cluster of each trainer so far."""
        path = self.run / "starts"
        rows = [line.partition(" ") for line in path.read_text().splitlines()] if path.exists() else []
        return [(int(pid), read_cluster({"TF_CONFIG": config})) for pid, _, config in rows]

    def wait(self, condition: Callable[[], object]) -> None:
        end = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < end
            time.sleep(0.02)

    def end(self) -> tuple[int, str]:
        """Exit status and messages."""
        try:
            said = self.process.communicate(timeout=30)[1]
        finally:
            self.process.kill()
        return self.process.returncode, said


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_job_is_restarted_after_a_failure_and_on_other_machines_until_it_is_done(tmp_path: Path) -> None:
    job = Supervised(tmp_path)
    both = ("localhost:3001", "localhost:3002")
    job.wait(lambda: len(job.starts()) == 2)
    (job.run / "once1").touch()
    job.wait(lambda: len(job.starts()) == 4)
    assert len(list((job.run / "checkpoints").iterdir())) == 1  # the other was stopped, and saved
    job.hosts.write_text("localhost:3001\n")
    job.wait(lambda: len(job.starts()) == 5)
    (job.run / "done").touch()
    status, said = job.end()
    assert status == 0, said
    clusters = sorted((cluster.addresses, cluster.index) for _, cluster in job.starts()[:-1] if cluster)
    assert clusters == sorted([(both, 0), (both, 1)] * 2)
    assert job.starts()[-1][1] is None  # one machine is no cluster
    assert "localhost:3002 ended with status 1\n" in said
    assert "supervisor: the machines are now localhost:3001\n" in said


def test_a_trainer_that_does_not_end_is_killed_after_the_grace_period(tmp_path: Path) -> None:
    job = Supervised(tmp_path, "--grace=0.3", "--restarts=0")
    (job.run / "hang0").touch()
    job.wait(lambda: len(job.starts()) == 2)
    (job.run / "fail1").write_text("1")
    status, said = job.end()
    assert status == 1
    assert "supervisor: killing what has not ended in 0.3 s: localhost:3001\n" in said
    assert "supervisor: giving up: 0 restarts in a row brought no checkpoint after that of step 0\n" in said
    assert not any(_is_alive(pid) for pid, _ in job.starts())


def test_it_gives_up_after_restarts_without_a_checkpoint_and_waits_longer_each_time(tmp_path: Path) -> None:
    job = Supervised(tmp_path, "--restarts=3", "--longest_pause=0.1", hosts="localhost\n")
    (job.run / "fail").write_text("1")
    status, said = job.end()
    assert (status, len(job.starts())) == (1, 4)
    assert re.findall(r"; restart in (\S+) s", said) == ["0.05", "0.1", "0.1"]


def test_wrong_flags_are_not_tried_again(tmp_path: Path) -> None:
    job = Supervised(tmp_path, hosts="localhost\n")
    (job.run / "fail").write_text("2")
    assert job.end()[0] == 2
    assert len(job.starts()) == 1


def test_a_signal_stops_the_trainers_first(tmp_path: Path) -> None:
    job = Supervised(tmp_path)
    job.wait(lambda: len(job.starts()) == 2)
    job.process.send_signal(signal.SIGTERM)
    assert job.end()[0] == 128 + signal.SIGTERM
    assert [path.name for path in (job.run / "checkpoints").iterdir()] == ["model-2.index"]
    assert not any(_is_alive(pid) for pid, _ in job.starts())


def test_trainers_end_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    job = Supervised(tmp_path)
    job.wait(lambda: len(job.starts()) == 2)
    job.process.kill()
    job.process.communicate()
    job.wait(lambda: not any(_is_alive(pid) for pid, _ in job.starts()))


def test_machines_that_do_not_answer_are_left_out(tmp_path: Path) -> None:
    """A launcher in place of ssh: this machine alone answers to it."""
    launcher = tmp_path / "launch.sh"
    launcher.write_text('[ "$1" = here ] && exec sh -c "$2"\nexit 255\n')
    job = Supervised(tmp_path, f"--launch=sh {launcher} {{host}}", "--port=3003", hosts="gone\nhere\n")
    job.wait(lambda: len(job.starts()) == 1)
    (job.run / "done").touch()
    status, said = job.end()
    assert status == 0
    assert "supervisor: starting on 1: here:3003\n" in said


def test_a_run_at_a_url_is_restarted_as_long_as_checkpoints_come(tmp_path: Path) -> None:
    job = Supervised(tmp_path, "--restarts=1", hosts="localhost\n", url="file://")
    for starts in (1, 2, 3):
        job.wait(lambda starts=starts: len(job.starts()) == starts)  # type: ignore[misc]
        (job.run / "checkpoints" / f"model-{100 * starts}.index").touch()
        (job.run / "once").touch()
    job.wait(lambda: len(job.starts()) == 4)
    (job.run / "done").touch()
    status, said = job.end()
    assert status == 0, said
    assert re.findall(r"newest checkpoint is of step (\d+); restart in (\S+) s", said) == [
        (f"{100 * starts}", "0.05") for starts in (1, 2, 3)
    ]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "needs one --output_dir=DIR, a folder that this machine sees, too, or a URL"),
        (["--output_dir=s4://models/base"], "s4. Run supervise.py with the Python that t2t-lite is in"),
    ],
)
def test_without_an_output_dir_that_it_sees_it_says_what_is_missing(flags: list[str], said: str) -> None:
    command = [
        sys.executable,
        str(EXAMPLE / "supervise.py"),
        "--hosts_command=echo localhost",
        "--",
        "t2t-lite-trainer",
        *flags,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert said in done.stderr


def _print_config(tmp_path: Path) -> dict[str, str]:
    """An environment whose t2t-lite-trainer prints TF_CONFIG."""
    program = tmp_path / "t2t-lite-trainer"
    program.write_text('#!/bin/sh\nprintf "%s" "$TF_CONFIG"\n')
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}


def test_pods_get_the_cluster_that_the_service_leads_to(tmp_path: Path) -> None:
    service, job = yaml.safe_load_all((EXAMPLE / "kubernetes.yaml").read_text())
    spec = job["spec"]["template"]["spec"]
    [container] = spec["containers"]
    [workers] = container["env"]
    assert int(workers["value"]) == job["spec"]["completions"] == job["spec"]["parallelism"]
    assert spec["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    environment = {**_print_config(tmp_path), "WORKERS": "3", "JOB_COMPLETION_INDEX": "2"}
    command = [*container["command"], *container["args"]]
    said = subprocess.run(command, env=environment, capture_output=True, check=True, text=True).stdout
    addresses = tuple(f"t2t-{i}.t2t:2222" for i in range(3))
    assert read_cluster({"TF_CONFIG": said}) == Cluster(addresses, 2)


@pytest.mark.parametrize(
    ("status", "saves", "requeues"),
    [(143, True, True), (143, False, True), (1, True, True), (1, False, False), (0, True, False), (2, True, False)],
)
def test_a_slurm_job_is_requeued_where_that_helps(tmp_path: Path, status: int, saves: bool, requeues: bool) -> None:
    """With stand-ins for the programs of Slurm: the task of rank 3 of four on two nodes, in one process."""
    environment = _print_config(tmp_path)
    run = tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    (run / "checkpoints/model-9.index").touch()
    saved = f"touch {run}/checkpoints/model-10.index" if saves else ":"
    programs = {
        "scontrol": f'[ "$1" = requeue ] && touch {tmp_path}/requeued || printf "a\\nb\\n"',
        "srun": f'shift; "$@" > {tmp_path}/config; {saved}; exit {status}',
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    slurm = {"NTASKS": "4", "JOB_NUM_NODES": "2", "JOB_NODELIST": "a,b", "PROCID": "3", "JOB_ID": "7"}
    environment |= {"RUN": str(run), **{f"SLURM_{name}": value for name, value in slurm.items()}}
    done = subprocess.run(["bash", str(EXAMPLE / "train.sbatch")], env=environment, capture_output=True, check=False)
    assert done.returncode == status, done.stderr
    assert (tmp_path / "requeued").exists() is requeues
    expected = Cluster(("a:2222", "a:2223", "b:2224", "b:2225"), 3)
    assert read_cluster({"TF_CONFIG": (tmp_path / "config").read_text()}) == expected
