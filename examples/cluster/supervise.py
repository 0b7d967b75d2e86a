"""Keeps a training job running on the machines that are there: starts one trainer on each, over ssh, and restarts them.

    python supervise.py --hosts_file=hosts.txt -- t2t-lite-trainer --problem=wmt14_ende --output_dir=/shared/runs/base
    python supervise.py --hosts_command='squeue_or_anything --that-prints-hosts' -- t2t-lite-trainer ...

A hosts file, or the output of the command, has a line `host` or `host:port` for each machine; `#` begins a comment.
Trainers of `localhost` and `127.0.0.1` are processes of this machine. The list is read again before each start and
every --poll seconds; machines that do not answer are left out. If it changes, the trainers save their step and end, and
the job resumes on the machines that are there then. If a trainer fails, the others are stopped, and all start again
after a pause, which doubles up to --longest_pause as long as no new checkpoint appears.

Exit status: 0 when the run is done; 2 for wrong flags, also if the first start refuses the trainer's; 1 after
--restarts restarts without a new checkpoint; 128 + N after signal N, once the trainers have ended. It needs Python 3.10
and nothing else, or t2t-lite's own Python for an --output_dir at a URL such as s3://models/base; the machines need sh,
and see the same folders.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

LOCAL = ("localhost", "127.0.0.1")
PROBE_SECONDS = 15.0
# What runs on each machine. Signals come as names, one a line, on standard input: a signal to ssh would not reach the
# trainer. If that ends, because the supervisor or the connection has gone, the trainer is stopped, too.
SCRIPT = """
cd {folder} || exit 1
exec 3<&0
env {config} {command} </dev/null 3<&- & trainer=$!
{{
  while read -r name; do kill -s "$name" $trainer; done
  kill -s TERM $trainer; sleep {grace}; kill -s KILL $trainer
}} <&3 >/dev/null 2>&1 &
wait $trainer; status=$?
kill $! 2>/dev/null
exit $status
"""


@dataclasses.dataclass(frozen=True)
class Options:
    """What the flags say; see main."""

    hosts_file: str
    hosts_command: str
    launch: str
    port: int
    least: int
    grace: float
    poll: float
    pause: float
    longest_pause: float
    restarts: int
    command: tuple[str, ...]

    @property
    def checkpoints(self) -> str:
        """The folder of the run's checkpoints, or its URL."""
        [run] = [flag.partition("=")[2] for flag in self.command if flag.startswith("--output_dir=")]
        return f"{run.rstrip('/')}/checkpoints"


class Supervisor:
    """One job, from its first start until it is done."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._stopped = threading.Event()
        self._signal = 0
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def run(self) -> int:
        """Returns the exit status."""
        options, starts, tries, pause = self._options, 0, 0, self._options.pause
        while hosts := self._wait_for_hosts():
            before = self._newest()
            status = self._train(hosts)
            starts += 1
            if status == 0 or (status == 2 and starts == 1):
                return status
            if self._stopped.is_set():
                break
            if self._newest() > before:
                tries, pause = 0, options.pause
            if tries == options.restarts:
                say(f"giving up: {tries} restarts in a row brought no checkpoint after that of step {before:,}")
                return 1
            tries += 1
            say(f"the newest checkpoint is of step {self._newest():,}; restart in {pause:g} s")
            self._stopped.wait(pause)
            pause = min(2 * pause, options.longest_pause)
        return 128 + self._signal

    def _on_signal(self, number: int, frame: object) -> None:
        self._signal = self._signal or number
        self._stopped.set()

    def _wait_for_hosts(self) -> list[str]:
        """Returns the addresses of the machines that are there, at least `least` of them; none after a signal."""
        said = False
        while not self._stopped.is_set():
            hosts = self._there()
            if len(hosts) >= self._options.least:
                return hosts
            if not said:
                say(f"waiting for machines: {len(hosts)} of at least {self._options.least} are there")
            said = True
            self._stopped.wait(self._options.poll)
        return []

    def _there(self, known: Sequence[str] = ()) -> list[str]:
        """The addresses of the list whose machines answer; those that are `known` are not asked."""
        listed = self._listed()
        new = [host for host in listed if host not in known]
        with concurrent.futures.ThreadPoolExecutor(64) as pool:
            answers = dict(zip(new, pool.map(self._answers, new), strict=True))
        return [host for host in listed if answers.get(host, True)]

    def _listed(self) -> list[str]:
        """The addresses host:port of the list; none where it cannot be read, as it may be a moment later."""
        options = self._options
        try:
            if options.hosts_file:
                text = Path(options.hosts_file).read_text(encoding="utf-8")
            else:
                command = ["sh", "-c", options.hosts_command]
                text = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            say(f"the list of machines cannot be read: {error}")
            return []
        names = [name for line in text.splitlines() if (name := line.partition("#")[0].strip())]
        return list(dict.fromkeys(name if ":" in name else f"{name}:{options.port}" for name in names))

    def _answers(self, address: str) -> bool:
        """Whether a machine runs a command within `PROBE_SECONDS`."""
        try:
            command = [*self._launch(address), "true"]
            how = {"stdin": subprocess.DEVNULL, "capture_output": True, "check": False}
            return subprocess.run(command, timeout=PROBE_SECONDS, **how).returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            return False

    def _launch(self, address: str) -> list[str]:
        """The command that runs its last argument, a line for a shell, on a machine."""
        host = address.rpartition(":")[0]
        return ["sh", "-c"] if host in LOCAL else shlex.split(self._options.launch.format(host=host))

    def _train(self, hosts: Sequence[str]) -> int:
        """Runs the trainers until all have ended; returns 0 when they are done, 2 for wrong flags, else 1."""
        say(f"starting on {len(hosts)}: {' '.join(hosts)}")
        trainers = {host: self._start(hosts, index) for index, host in enumerate(hosts)}
        looked, before = time.monotonic(), list(hosts)
        try:
            while not self._stopped.wait(0.2):
                statuses = {host: trainer.poll() for host, trainer in trainers.items()}
                if failed := [f"{host} ended with status {status}" for host, status in statuses.items() if status]:
                    say("; ".join(failed))
                if failed or all(status == 0 for status in statuses.values()):
                    break
                if time.monotonic() - looked > self._options.poll:
                    there, looked = self._there(hosts), time.monotonic()
                    if len(there) >= self._options.least and there == before != hosts:  # seen twice
                        say(f"the machines are now {' '.join(there)}")
                        break
                    before = there
        finally:
            self._end(trainers)
        ends = {trainer.returncode for trainer in trainers.values()}
        return 0 if ends == {0} else 2 if 2 in ends else 1

    def _start(self, hosts: Sequence[str], index: int) -> subprocess.Popen[bytes]:
        options = self._options
        config = {"cluster": {"worker": list(hosts)}, "task": {"type": "worker", "index": index}}
        script = SCRIPT.format(
            folder=shlex.quote(str(Path.cwd())),
            config="-u TF_CONFIG" if len(hosts) == 1 else shlex.quote(f"TF_CONFIG={json.dumps(config)}"),
            command=shlex.join(options.command),
            grace=options.grace,
        )
        # A session of its own: Ctrl-C on a terminal goes to the supervisor alone.
        return subprocess.Popen([*self._launch(hosts[index]), script], stdin=subprocess.PIPE, start_new_session=True)

    def _end(self, trainers: dict[str, subprocess.Popen[bytes]]) -> None:
        """Sends SIGTERM to all trainers, and SIGKILL after the grace period."""
        for name, seconds in (("TERM", self._options.grace), ("KILL", PROBE_SECONDS)):
            running = {host: trainer for host, trainer in trainers.items() if trainer.poll() is None}
            if running and name == "KILL":
                say(f"killing what has not ended in {self._options.grace:g} s: {' '.join(running)}")
            for trainer in running.values():
                _send(trainer, name)
            end = time.monotonic() + seconds
            while any(trainer.poll() is None for trainer in running.values()) and time.monotonic() < end:
                time.sleep(0.1)
        for trainer in trainers.values():  # the connection to a machine that is gone
            if trainer.poll() is None:
                trainer.kill()
            trainer.wait()

    def _newest(self) -> int:
        """The step of the run's newest checkpoint; 0 if there is none, or the folder cannot be read."""
        try:
            names = list_names(self._options.checkpoints)
        except FileNotFoundError:
            return 0
        except Exception as error:  # each store has its own
            say(f"the checkpoints cannot be listed: {error}")
            return 0
        return max((int(found[1]) for name in names if (found := re.fullmatch(r"model-(\d+)\.index", name))), default=0)


def _send(trainer: subprocess.Popen[bytes], name: str) -> None:
    try:
        trainer.stdin.write(f"{name}\n".encode())
        trainer.stdin.flush()
    except OSError:  # it has ended
        pass


def list_names(folder: str) -> list[str]:
    """Returns the names of the files in a folder, or at a URL."""
    if "://" not in folder:
        return os.listdir(folder)
    store, path = open_store(folder)
    return [name.rpartition("/")[2] for name in store.ls(path, detail=False)]


def open_store(url: str) -> tuple[Any, str]:
    """Returns the file system of a URL, which asks the store each time, and the path there."""
    import fsspec

    return fsspec.core.url_to_fs(url, use_listings_cache=False)


def say(text: str) -> None:
    """Prints a line with the time on standard error."""
    print(f"{time.strftime('%H:%M:%S')} supervisor: {text}", file=sys.stderr, flush=True)


def read_options(arguments: Sequence[str]) -> Options:
    """Returns the options that the command line gives."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--hosts_file", default="", metavar="FILE")
    where.add_argument("--hosts_command", default="", metavar="COMMAND")
    parser.add_argument(
        "--launch",
        default="ssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=10 -o ServerAliveCountMax=3 {host}",
        help="what runs a shell's line, given as its last argument, on {host}; default: %(default)s",
    )
    parser.add_argument("--port", type=int, default=2222, help="of lines without one; default: %(default)s")
    parser.add_argument("--least", type=int, default=1, metavar="N", help="machines to wait for; default: %(default)s")
    parser.add_argument(
        "--grace", type=float, default=300.0, metavar="SECONDS", help="from SIGTERM to SIGKILL; default: %(default)s"
    )
    parser.add_argument(
        "--poll",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="between two looks at the list; default: %(default)s",
    )
    parser.add_argument(
        "--pause", type=float, default=5.0, metavar="SECONDS", help="before a restart; default: %(default)s"
    )
    parser.add_argument("--longest_pause", type=float, default=300.0, metavar="SECONDS", help="default: %(default)s")
    parser.add_argument(
        "--restarts", type=int, default=5, metavar="N", help="without a new checkpoint; default: %(default)s"
    )
    parser.add_argument("command", nargs="+", help="the trainer's, after --; it must name --output_dir")
    given = vars(parser.parse_args(arguments))
    options = Options(**{**given, "command": tuple(given["command"])})
    if sum(flag.startswith("--output_dir=") for flag in options.command) != 1:
        parser.error("the trainer's command needs one --output_dir=DIR, a folder that this machine sees, too, or a URL")
    if "://" in options.checkpoints:
        try:
            open_store(options.checkpoints)
        except (ImportError, ValueError) as error:
            parser.error(f"--output_dir is a URL: {error}. Run supervise.py with the Python that t2t-lite is in")
    return options


if __name__ == "__main__":
    sys.exit(Supervisor(read_options(sys.argv[1:])).run())
