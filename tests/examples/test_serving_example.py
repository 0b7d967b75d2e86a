"""The serving example: its files parse and agree with each other, and its page shows real answers of a server."""

import json
import re
import shlex
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format, wrappers_pb2
from tensorflow_serving.config.model_server_config_pb2 import ModelServerConfig

from t2t_lite.cli import query
from t2t_lite.export.warmup import BATCH_SIZE
from tests.examples.test_serving_gate import gate
from tests.export import conftest as export
from tests.serving.server import Server, serve

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "serving"
README = (EXAMPLE / "README.md").read_text(encoding="utf-8")
NAME = "ende"
METRICS = "/monitoring/prometheus/metrics"  # the test server lacks this path

# The tests of this group make the export.
pytestmark = [pytest.mark.commit, pytest.mark.xdist_group("export")]
exported = export.exported

# Each call, its status if that is not 200, and its answer.
_CALL = re.compile(r"```sh\n(curl (?:(?!```).)*?)\n```\n\n(?:(\d{3}):\n\n)?```json\n(.*?)```", re.DOTALL)
CALLS = _CALL.findall(README)


def _yaml(name: str) -> list[Any]:
    return list(yaml.safe_load_all((EXAMPLE / name).read_text(encoding="utf-8")))


def _config(name: str) -> str:
    return (EXAMPLE / "config" / name).read_text(encoding="utf-8")


[COMPOSE] = _yaml("compose.yaml")
[KUSTOMIZATION] = _yaml("kustomization.yaml")
MANIFESTS = {document["kind"]: document for name in KUSTOMIZATION["resources"] for document in _yaml(name)}
SERVING = COMPOSE["services"]["serving"]
POD = MANIFESTS["Deployment"]["spec"]["template"]["spec"]
[CONTAINER, GATE] = POD["containers"]


def _message(name: str, fields: dict[str, str]) -> Any:
    """Makes a message with these fields, as the package of TensorFlow Serving's API lacks it."""
    file = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", package="example", syntax="proto3")
    file.dependency.append(wrappers_pb2.DESCRIPTOR.name)
    message = file.message_type.add(name=name)
    for number, (field, kind) in enumerate(fields.items(), 1):
        added = message.field.add(name=field, number=number, label=descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL)
        if kind.endswith("Value"):
            added.type, added.type_name = added.TYPE_MESSAGE, f".google.protobuf.{kind}"
        else:
            added.type = getattr(added, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"example.{name}"))()


@pytest.fixture(scope="module")
def batching() -> Any:
    """batching.config, parsed with the fields of BatchingParameters in session_bundle_config.proto."""
    whole = "max_batch_size batch_timeout_micros max_enqueued_batches num_batch_threads max_execution_batch_size"
    fields = dict.fromkeys(whole.split(), "Int64Value") | {"enable_large_batch_splitting": "BoolValue"}
    parameters = _message("BatchingParameters", fields | {"pad_variable_length_inputs": "bool"})
    return text_format.Parse(_config("batching.config"), parameters)


def _models(text: str) -> Any:
    [model] = text_format.Parse(text, ModelServerConfig()).model_config_list.config
    return model


STEPS = [
    _models(text) for text in (_config("models.config"), *re.findall(r"```textproto\n(.*?)```", README, re.DOTALL))
]


@pytest.fixture(scope="module")
def server(exported: export.Exported, batching: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Serves the tests' export as the page's versions 1 and 2, with the labels of the page's first step."""
    base = tmp_path_factory.mktemp("versions")
    for number in STEPS[1].model_version_policy.specific.versions:
        (base / str(number)).symlink_to(exported.version)
    with serve(base, NAME, labels=STEPS[1].version_labels, keep="all") as served:
        served.model.max_batch_size = batching.max_batch_size.value
        yield served


def _ask(server: Server, path: str, body: str | None = None) -> tuple[int, Any]:
    request = urllib.request.Request(f"http://{server.rest}{path}", body and body.encode("utf-8"))
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def _shape(value: Any) -> Any:
    """Returns the names and types of an answer, without its values and lengths."""
    if isinstance(value, dict):
        return {name: _shape(inner) for name, inner in value.items()}
    if isinstance(value, list):
        shapes = [_shape(inner) for inner in value]
        assert all(shape == shapes[0] for shape in shapes)
        return shapes[:1]
    return str if isinstance(value, str) else float


@pytest.mark.nightly
@pytest.mark.parametrize(("command", "status", "answer"), CALLS)
def test_a_call_of_the_page_is_answered_as_shown(server: Server, command: str, status: str, answer: str) -> None:
    program, silent, url, *data = shlex.split(command.replace("\\\n", ""))
    assert (program, silent) == ("curl", "-s")
    assert data[:1] in ([], ["-d"])
    host, path = re.fullmatch(r"([^/]+)(/.*)", url).groups()
    assert host == "localhost:8501"
    got, said = _ask(server, path, *data[1:])
    assert got == int(status or 200)
    shown = json.loads(answer)
    assert _shape(said) == _shape(shown)
    assert not status or said == shown  # a refusal has the same text


def test_models_config_and_its_next_steps() -> None:
    """A label in use moves only to a version that the previous step has loaded."""
    assert len(STEPS) == 3
    for model in STEPS:
        assert (model.name, model.base_path, model.model_platform) == (NAME, f"/models/{NAME}", "tensorflow")
        assert set(model.version_labels.values()) <= set(model.model_version_policy.specific.versions)
        assert "stable" in model.version_labels
    for before, after in zip(STEPS, [*STEPS[1:], STEPS[1]], strict=True):  # the last step goes back
        loaded = set(before.model_version_policy.specific.versions)
        for label, version in after.version_labels.items():
            assert label not in before.version_labels or version in loaded
    assert [dict(model.version_labels) for model in STEPS] == [
        {"stable": 1},
        {"stable": 1, "canary": 2},
        {"stable": 2, "canary": 2},
    ]


def test_batching_takes_what_the_client_and_the_warm_up_send(batching: Any) -> None:
    args = query.make_parser().parse(["--server=localhost:8501", f"--model={NAME}"])
    assert batching.max_batch_size.value >= max(BATCH_SIZE, args.batch_size, gate.MAX_TEXTS)
    # The parts of a split request are joined as if all had the shape of the first; padding ends the process.
    assert not batching.enable_large_batch_splitting.value
    assert not batching.HasField("max_execution_batch_size")
    assert not batching.pad_variable_length_inputs
    for name in ("max_batch_size", "batch_timeout_micros", "num_batch_threads", "max_enqueued_batches"):
        assert f"| `{name}` | {getattr(batching, name).value} |" in README
    threads = next(int(flag.split("=")[1]) for flag in SERVING["command"] if "rest_api_num_threads" in flag)
    assert threads >= batching.num_batch_threads.value * batching.max_batch_size.value  # waiting requests hold threads
    assert str(batching.num_batch_threads.value) == CONTAINER["resources"]["limits"]["cpu"]


def test_monitoring_is_where_prometheus_looks() -> None:
    inner = re.fullmatch(r"prometheus_config \{(.*)\}\n", _config("monitoring.config"))
    parsed = text_format.Parse(inner[1], _message("PrometheusConfig", {"enable": "bool", "path": "string"}))
    assert (parsed.enable, parsed.path) == (True, METRICS)
    pod = MANIFESTS["Deployment"]["spec"]["template"]["metadata"]
    assert pod["annotations"]["prometheus.io/path"] == METRICS
    assert pod["annotations"]["prometheus.io/port"] == "8501"
    [adapter] = _yaml("kubernetes/prometheus-adapter.yaml")
    [rule] = adapter["rules"]["custom"]
    [metric] = MANIFESTS["HorizontalPodAutoscaler"]["spec"]["metrics"]
    assert rule["name"]["as"] == metric["pods"]["metric"]["name"]
    assert rule["seriesQuery"].partition("{")[0] in README


def test_docker_and_kubernetes_run_the_same_server() -> None:
    own = [
        f"--tensorflow_{kind}_op_parallelism={CONTAINER['resources']['limits']['cpu']}" for kind in ("intra", "inter")
    ]
    assert CONTAINER["args"] == [*SERVING["command"], *own]
    assert CONTAINER["image"] == SERVING["image"]
    configs = {flag.split("=/config/")[1] for flag in SERVING["command"] if "=/config/" in flag}
    [generator] = [each for each in KUSTOMIZATION["configMapGenerator"] if each["name"] == "ende-config"]
    assert {f"config/{name}" for name in configs} == set(generator["files"])
    assert configs == {path.name for path in (EXAMPLE / "config").iterdir()}
    assert generator["name"] == POD["volumes"][0]["configMap"]["name"]
    mounts = {mount["name"]: mount["mountPath"] for mount in CONTAINER["volumeMounts"]}
    assert (mounts["config"], mounts["models"]) == ("/config", STEPS[0].base_path)
    assert [volume.rsplit(":", 2)[-2:] for volume in SERVING["volumes"]] == [
        ["/config", "ro"],
        [STEPS[0].base_path, "ro"],
    ]
    claims = [volume["persistentVolumeClaim"]["claimName"] for volume in POD["volumes"] if volume["name"] == "models"]
    assert claims == [MANIFESTS["PersistentVolumeClaim"]["metadata"]["name"]]


def test_the_gate_is_the_only_way_in() -> None:
    services = COMPOSE["services"]
    assert SERVING["ports"] == ["127.0.0.1:8501:8501"]  # for the operator
    assert services["gate"]["ports"] == ["127.0.0.1:8600:8600"]
    assert {name for name, service in services.items() if "ports" in service} == {"serving", "gate", "proxy"}
    ports = {port["name"]: port["containerPort"] for port in [*CONTAINER["ports"], *GATE["ports"]]}
    assert ports == {"rest": 8501, "gate": 8600}
    service = MANIFESTS["Service"]["spec"]
    assert (service["type"], service["ports"]) == ("ClusterIP", [{"name": "gate", "port": 8600, "targetPort": "gate"}])
    labels = MANIFESTS["Deployment"]["spec"]["template"]["metadata"]["labels"]
    policy = MANIFESTS["NetworkPolicy"]["spec"]
    assert service["selector"] == policy["podSelector"]["matchLabels"] == labels
    who = {json.dumps(rule["from"]): [port["port"] for port in rule["ports"]] for rule in policy["ingress"]}
    assert {("may-call" in source, "monitoring" in source): ports for source, ports in who.items()} == {
        (True, False): ["gate"],
        (False, True): ["rest"],
    }
    assert (
        MANIFESTS["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]["name"]
        == MANIFESTS["Deployment"]["metadata"]["name"]
    )


def test_the_gate_is_run_with_flags_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    run: list[tuple[str, str, int]] = []

    class Running:
        def run(self) -> None:
            pass

    def make_server(app: Any, host: str, port: int) -> Running:
        run.append((app.name, host, port))
        return Running()

    monkeypatch.setattr(gate, "make_server", make_server)
    compose = COMPOSE["services"]["gate"]["command"][-1].partition("exec python ")[2].split()
    for command in (GATE["command"][1:], compose):
        assert command[0].endswith("/gate.py")
        monkeypatch.setattr("sys.argv", command)
        gate.main()
    assert run == [("gate", "0.0.0.0", 8600)] * 2
    [files] = [each["files"] for each in KUSTOMIZATION["configMapGenerator"] if each["name"] == "ende-gate"]
    assert files == ["gate.py"]
    volumes = {volume["name"]: volume for volume in POD["volumes"]}
    assert volumes["gate"]["configMap"]["name"] == "ende-gate"
    assert {"name": "gate", "mountPath": "/gate", "readOnly": True} in GATE["volumeMounts"]


@pytest.mark.nightly
def test_docker_sees_whether_the_model_is_there(server: Server) -> None:
    command, *rest = SERVING["healthcheck"]["test"]
    port = server.rest.rpartition(":")[2]

    def health(path: str, port: str) -> int:
        *shell, script = rest
        script = script.replace("/8501", f"/{port}").replace(f"/v1/models/{NAME}", path)
        return subprocess.run([*shell, script], capture_output=True, check=False, timeout=20).returncode

    assert command == "CMD"
    assert health(f"/v1/models/{NAME}", port) == 0
    assert health("/v1/models/other", port) != 0
    assert health(f"/v1/models/{NAME}", "1") != 0


@pytest.mark.nightly
def test_kubernetes_sends_requests_only_where_stable_can_be_asked(server: Server) -> None:
    started, ready = (CONTAINER[probe]["httpGet"]["path"] for probe in ("startupProbe", "readinessProbe"))
    assert _ask(server, started)[0] == _ask(server, ready)[0] == 200
    assert _ask(server, ready.replace("stable", "other"))[0] == 400


def test_the_proxy_lets_nothing_through_but_translation() -> None:
    text = (EXAMPLE / "nginx.conf").read_text(encoding="utf-8")
    [pattern] = re.findall(r"location ~ (\S+) \{", text)
    for label in ("stable", "Canary_2"):
        assert gate._LABEL.fullmatch(label)
        assert re.search(pattern, f"/v1/models/{NAME}/labels/{label}:predict")
    for path in (METRICS, f"/v1/models/{NAME}", f"/v1/models/{NAME}/labels/stable/metadata", "/v1/models/b:predict"):
        assert not re.search(pattern, path)
    assert "proxy_pass http://gate:8600;" in text
    services = COMPOSE["services"]
    assert services["proxy"]["depends_on"] == ["gate"]
    assert f"--server=http://serving:8501 --model={NAME}" in services["gate"]["command"][-1]
    [kilobytes] = re.findall(r"client_max_body_size (\d+)k;", text)
    assert gate.MAX_BODY <= int(kilobytes) * 1024 < 1.1 * gate.MAX_BODY
