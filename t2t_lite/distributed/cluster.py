"""Cluster: the machines that train together, from the environment variable TF_CONFIG, as TensorFlow reads it."""

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from t2t_lite.errors import UsageError

VARIABLE = "TF_CONFIG"
STRATEGIES = ("auto", "one_device", "mirrored", "multi_worker")
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

    @property
    def job(self) -> str:
        """What tells this job's processes from those of other jobs."""
        return hashlib.sha256(" ".join(self.addresses).encode()).hexdigest()[:16]


def read_cluster(environment: Mapping[str, str]) -> Cluster | None:
    """Returns what TF_CONFIG says, or None where it is not set or names no cluster.

    Raises:
        UsageError: it does not have the form that TensorFlow's documentation asks for.
    """
    try:
        config = json.loads(environment.get(VARIABLE, "").strip() or "{}")
        if not isinstance(config, dict):
            raise ValueError("no JSON object")
        return _read(config["cluster"], config.get("task")) if config.get("cluster") else None
    except (ValueError, OverflowError, RecursionError) as error:  # of json, too
        raise UsageError(
            f"The environment variable {VARIABLE} is not understood: {error}. It should be like {_EXAMPLE}."
        ) from error


def _read(cluster: Any, task: Any) -> Cluster:
    if not isinstance(cluster, dict) or not cluster.keys() <= {"chief", "worker"}:
        raise ValueError("its cluster is no table with the jobs worker and perhaps chief; all that train are these")
    chief, workers = (_addresses(job, cluster.get(job, [])) for job in ("chief", "worker"))
    every = [*chief, *workers]
    if not every or len(set(every)) < len(every) or len(chief) > 1:
        raise ValueError("its cluster has no address, one address twice, or more than one chief")
    if not isinstance(task, dict) or task.get("type") not in ("chief", "worker"):
        raise ValueError("its task does not say whether this process is a worker, or the chief")
    job = chief if task["type"] == "chief" else workers
    index = _index(task.get("index"))
    if index >= len(job):
        raise ValueError(f"its task's index is {index}, and {task['type']} has {len(job)}, counted from 0")
    return Cluster(tuple(every), index + (len(chief) if job is workers else 0))


def _index(value: Any) -> int:
    """Returns an index; schedulers' templates also write it as text ("0"), and some languages as 0.0."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float | str)
        or int(value) != float(value)
        or float(value) < 0
    ):
        raise ValueError(f"{value!r} is no index")
    return int(value)


def _addresses(job: str, given: Any) -> list[str]:
    """Returns a job's addresses, from a list or from a table {"0": address, "1": address, ...}."""
    if isinstance(given, dict):
        numbered = {_index(index): address for index, address in given.items()}
        if sorted(numbered) != [*range(len(given))]:
            raise ValueError(f"the indexes of {job}'s addresses do not count from 0 without a gap")
        given = [numbered[index] for index in range(len(numbered))]
    if not isinstance(given, list):
        raise ValueError(f"it has no list of addresses for {job}")
    for address in given:
        found = re.fullmatch(r"\S+:([0-9]{1,5})", address, re.ASCII) if isinstance(address, str) else None
        if found is None or not 0 < int(found[1]) < 65536:
            raise ValueError(f"the address {address!r:.80} is not host:port")
    return given
