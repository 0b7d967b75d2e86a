"""Cluster: the machines that train together, from the environment variable TF_CONFIG, as TensorFlow reads it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Mapping
from typing import Any

from t2t_lite.errors import UsageError

VARIABLE = "TF_CONFIG"
STRATEGIES = ("auto", "one_device", "mirrored", "multi_worker")
_JOBS = ("chief", "worker")
_EXAMPLE = (
    '{"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": {"type": "worker", "index": 0}}, the index counting '
    "from 0"
)


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The processes that train together, and which of them this one is.

    Attributes:
        addresses: "host:port" of each, the chief's first.
        index: this one's place among them.
    """

    addresses: tuple[str, ...]
    index: int

    @property
    def is_chief(self) -> bool:
        """Whether this process writes checkpoints and logs, and evaluates: the first one does."""
        return self.index == 0


def read_cluster(environment: Mapping[str, str]) -> Cluster | None:
    """Returns what TF_CONFIG says, or None where it is not set or names no cluster.

    Raises:
        UsageError: it does not have the form that TensorFlow's documentation asks for.
    """
    text = environment.get(VARIABLE, "").strip()
    if not text:
        return None
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _wrong(f"is not JSON ({error})") from error
    if not isinstance(config, dict):
        raise _wrong("is not a JSON object")
    if not config.get("cluster"):
        return None
    jobs = _jobs(config["cluster"])
    task = config.get("task")
    if not isinstance(task, dict):
        raise _wrong("has no task, which says which process of the cluster this one is")
    kind = task.get("type")
    if kind not in tuple(jobs):
        raise _wrong(f"has the task's type {kind!r}, of which the cluster has none")
    index = _index(task.get("index"), "the task's", f"{kind} has {len(jobs[kind])}, counted from 0")
    if not 0 <= index < len(jobs[kind]):
        raise _wrong(f"has the task's index {index!s:.80}; {kind} has {len(jobs[kind])}, counted from 0")
    before = len(jobs.get("chief", ())) if kind == "worker" else 0
    return Cluster(tuple(address for job in _JOBS for address in jobs.get(job, ())), before + index)


def _index(value: Any, whose: str, there_are: str) -> int:
    """Returns an index; schedulers' templates also write it as text ("0"), and some languages as 0.0."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError):  # words, or thousands of digits
            return int(value)
    elif type(value) is int or (isinstance(value, float) and value.is_integer()):
        return int(value)
    raise _wrong(f"has {whose} index {value!r:.80}, which is no whole number; {there_are}")


def _jobs(cluster: Any) -> dict[str, list[str]]:
    """Returns the addresses of each job; a job without any counts as not named."""
    if not isinstance(cluster, dict):
        raise _wrong("has a cluster that is no JSON object")
    for job in cluster:
        if job not in _JOBS:
            raise _wrong(
                f"has a job {job!r}; all processes that train here are workers (one of them perhaps the chief)"
            )
    jobs = {job: _addresses(job, addresses) for job, addresses in cluster.items()}
    jobs = {job: addresses for job, addresses in jobs.items() if addresses}
    every = [address for addresses in jobs.values() for address in addresses]
    if not every:
        raise _wrong("has a cluster without addresses")
    if twice := next((address for address in every if every.count(address) > 1), None):
        raise _wrong(f"has the address {twice} twice")
    if len(jobs.get("chief", ())) > 1:
        raise _wrong("has more than one chief")
    return jobs


def _addresses(job: str, given: Any) -> list[str]:
    """Returns a job's addresses, from a list or from a table {"0": address, "1": address, ...}."""
    if isinstance(given, dict):
        numbered = {_index(index, f"in {job}'s table the", "they count from 0"): given[index] for index in given}
        if sorted(numbered) != list(range(len(given))):
            raise _wrong(
                f"has a table of addresses for {job} with the indexes {', '.join(map(str, given))}; they count from 0, "
                "without a gap"
            )
        given = [numbered[index] for index in range(len(numbered))]
    if not isinstance(given, list):
        raise _wrong(f"has no list of addresses for {job}")
    for address in given:
        if not (isinstance(address, str) and re.fullmatch(r"\S+:[0-9]{1,5}", address) and 0 < _port(address) < 65536):
            raise _wrong(f"has the address {address!r:.80}, which is not host:port")
    return given


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


def _wrong(what: str) -> UsageError:
    return UsageError(f"The environment variable {VARIABLE} {what}. It should be like {_EXAMPLE}.")
