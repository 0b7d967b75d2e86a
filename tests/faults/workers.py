"""Jobs of several processes on this machine, for tests: TF_CONFIG, free ports, and their messages in files."""

import json
import os
import socket
import time
from collections.abc import Mapping, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests import commands

TRAINER = "t2t_lite.cli.trainer"


class Job:
    """t2t-lite-trainer in several processes, joined to one job by TF_CONFIG; the constructor starts it.

    Args:
        run: the run's folder; the processes' output is written beside it.
        workers: how many; 1: without TF_CONFIG.
        flags: the same for all workers, in addition to --output_dir.
        own: one more flag for each worker, if they are to differ.
        missing: how many more workers the cluster has that never come.
        addresses: of all workers; by default free ones.
        url: --output_dir, where that is a URL, of a store in `run` or elsewhere.
        environments: more variables for each worker.
    """

    def __init__(
        self,
        run: Path,
        workers: int,
        *flags: str,
        own: Sequence[str] = (),
        missing: int = 0,
        addresses: Sequence[str] = (),
        url: str = "",
        environments: Sequence[Mapping[str, str]] = (),
    ) -> None:
        self._errors = [run.with_name(f"{time.monotonic_ns()}.{index}.err") for index in range(workers)]
        self._before = _identity(run)
        addresses = addresses or free_addresses(workers + missing)
        self.processes: list[BaseProcess] = []
        for index, errors in enumerate(self._errors):
            task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
            environment = {**os.environ, **({"TF_CONFIG": json.dumps(task)} if len(addresses) > 1 else {})}
            environment |= environments[index] if environments else {}
            streams = {"out": errors.with_suffix(".out"), "err": errors}
            self.processes.append(
                commands.start(
                    TRAINER, f"--output_dir={url or run}", *flags, *own[index : index + 1], env=environment, **streams
                )
            )

    def reach(self, run: Path, step: int) -> None:
        """Returns when this job has logged `step` of the run; what an earlier job logged does not count."""
        end = time.monotonic() + 300
        while _identity(run) == self._before or not any(line["step"] >= step for line in metrics(run)):
            assert all(process.exitcode is None for process in self.processes), self.errors()
            assert time.monotonic() < end, self.errors()
            time.sleep(0.05)

    def say(self, text: str) -> None:
        """Returns when each process has written `text` to standard error."""
        end = time.monotonic() + 120
        while not all(text in errors for errors in self.errors()):
            assert all(process.exitcode is None for process in self.processes), self.errors()
            assert time.monotonic() < end, self.errors()
            time.sleep(0.05)

    def signal(self, index: int, number: int) -> None:
        """Sends a signal to one of the processes."""
        pid = self.processes[index].pid
        assert pid is not None
        os.kill(pid, number)

    def end(self, seconds: float = 300) -> list[int | None]:
        """Waits for the processes, and kills those that do not end; returns their exit statuses (None: killed here)."""
        end = time.monotonic() + seconds
        for process in self.processes:
            process.join(max(end - time.monotonic(), 0.1))
        statuses = [process.exitcode for process in self.processes]
        for process in self.processes:
            process.kill()
            process.join()
        return statuses

    def errors(self) -> list[str]:
        """What each process has written to standard error."""
        return [path.read_text(encoding="utf-8") if path.exists() else "" for path in self._errors]


def metrics(run: Path) -> list[dict[str, float]]:
    """The complete lines of a run's metrics.jsonl."""
    path = run / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []


def _identity(run: Path) -> int | None:
    """The inode of a run's metrics file; a trainer that goes on writes a new file."""
    path = run / "metrics.jsonl"
    return path.stat().st_ino if path.exists() else None


def free_addresses(number: int) -> list[str]:
    """Addresses "host:port" of this machine whose ports nobody uses."""
    sockets = [socket.socket() for _ in range(number)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return addresses
