"""TF_CONFIG as TensorFlow documents it, and what may be wrong with it; strategies that cannot be combined."""

import json
from typing import Any

import pytest
import tensorflow as tf

from t2t_lite.distributed.cluster import Cluster, read_cluster
from t2t_lite.distributed.devices import Devices, make_strategy
from t2t_lite.errors import UsageError

TWO = {"worker": ["a:1", "b:22222"]}


def _task(cluster: Any, kind: Any = "worker", index: Any = 0) -> dict[str, str]:
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        ({"TF_CONFIG": "{}"}, None),
        ({"TF_CONFIG": '{"cluster": {}}'}, None),
        (_task(TWO), Cluster(("a:1", "b:22222"), 0)),
        (_task(TWO, index=1), Cluster(("a:1", "b:22222"), 1)),
        (_task({"chief": ["c:3"], **TWO}, "chief"), Cluster(("c:3", "a:1", "b:22222"), 0)),
        (_task({**TWO, "chief": ["c:3"]}, index=1), Cluster(("c:3", "a:1", "b:22222"), 2)),
        (_task(TWO, index="1"), Cluster(("a:1", "b:22222"), 1)),
        (_task(TWO, index=1.0), Cluster(("a:1", "b:22222"), 1)),
        (_task({"chief": [], **TWO}, index=1), Cluster(("a:1", "b:22222"), 1)),
        (_task({"worker": {"1": "b:22222", "0": "a:1"}}, index="0"), Cluster(("a:1", "b:22222"), 0)),
        (_task({"worker": {"0": "b:1"}, "chief": {"0": "a:1"}}), Cluster(("a:1", "b:1"), 1)),
    ],
)
def test_read(environment: dict[str, str], expected: Cluster | None) -> None:
    found = read_cluster(environment)
    assert found == expected
    if found is not None:
        assert found.is_chief == (found.index == 0)
        assert _read_by_tensorflow(environment) == found


def _read_by_tensorflow(environment: dict[str, str]) -> Cluster:
    """What TensorFlow's own resolver understands, the chief first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TF_CONFIG", environment["TF_CONFIG"])
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        jobs, kind, index = _tasks(resolver.cluster_spec()), resolver.task_type, resolver.task_id
    chief = [jobs["chief"][index] for index in sorted(jobs.get("chief", {}))]
    workers = [jobs["worker"][index] for index in sorted(jobs["worker"])]
    return Cluster((*chief, *workers), index + (len(chief) if kind == "worker" else 0))


def _tasks(spec: tf.train.ClusterSpec) -> dict[str, dict[int, str]]:
    return {job: {index: spec.task_address(job, index) for index in spec.task_indices(job)} for job in spec.jobs}


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"TF_CONFIG": "{'cluster'"}, "property name"),  # JSON's own words
        ({"TF_CONFIG": "[1]"}, "no JSON object"),
        ({"TF_CONFIG": "[" * 100_000}, "recursion"),
        ({"TF_CONFIG": '{"cluster": ["a:1"]}'}, "its cluster is no table"),
        ({"TF_CONFIG": json.dumps({"cluster": TWO})}, "its task does not say"),
        (_task({"ps": ["a:1"]}), "its cluster is no table with the jobs worker and perhaps chief"),
        (_task({"worker": "a:1"}), "no list of addresses for worker"),
        (_task({"worker": ["a"]}), "the address 'a' is not host:port"),
        (_task({"worker": ["a:1", "b:65536"]}), "the address 'b:65536' is not host:port"),
        (_task({"worker": ["a:1", "a:1"]}), "one address twice"),
        (_task({"chief": ["a:1", "b:1"]}, "chief"), "more than one chief"),
        (_task({"worker": []}), "its cluster has no address"),
        (_task(TWO, "chief"), "its task's index is 0, and chief has 0"),
        (_task(TWO, index="2"), "its task's index is 2, and worker has 2, counted from 0"),
        (_task(TWO, index=-1), "-1 is no index"),
        (_task(TWO, index="first"), "first"),
        (_task(TWO, index=0.5), "0.5 is no index"),
        (_task(TWO, index=float("inf")), "infinity"),
        (_task(TWO, index=None), "None is no index"),
        (_task({"worker": {"1": "a:1", "2": "b:1"}}), "do not count from 0 without a gap"),
    ],
)
def test_what_is_wrong_is_said(environment: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=rf"^The environment variable TF_CONFIG .*{message}.* It should be like \{{"):
        read_cluster(environment)


@pytest.mark.parametrize(
    ("devices", "environment", "message"),
    [
        (Devices(strategy="multi_worker"), {}, "needs the environment variable TF_CONFIG"),
        (Devices(strategy="mirrored"), _task(TWO), "TF_CONFIG names a cluster"),
        (Devices(2, "one_device"), {}, "--strategy=one_device, but --devices=2"),
    ],
)
def test_what_does_not_go_together(
    devices: Devices, environment: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=message):
        make_strategy(devices)
