"""The GPU unit of a worker: manifests, credentials, and the request for it."""

from typing import Any

import pytest
import yaml

from gpuplatform.dev.simulator.kubelet.expansion import expanded_environment
from gpuplatform.errors import InvalidSpec
from gpuplatform.kube.kinds import Manifest
from gpuplatform.workloads.function_worker import SIDECAR_PORT
from gpuplatform.workloads.pods import STOCK_PRIORITY_CLASS
from serverless.core.spec import FunctionSpec
from serverless.core.workers import worker_request
from serverless.queue.names import CREDENTIALS_KEY, secret_name
from serverless.sidecar.health import DRAIN_TOKEN_HEADER
from serverless.sidecar.settings import Settings
from tests.conftest import GoldenFiles
from tests.factories.inventory import POD_SETTINGS
from tests.factories.planned_units import unit_resource
from units.core import manifests, workers
from units.core.spec import GPUUnitSpec
from units.core.view import UnitView
from units.requests import GpuUnitCreate, GpuUnitUpdate, WorkerUnitCreate

FUNCTION: dict[str, Any] = {
    "specName": "g1.1",
    "image": "registry.example.com/team/model:2",
    "template": {"envs": [{"name": "MODEL", "value": "llama"}]},
    "framework": {"healthPath": "/health", "socketPath": "/run/serverless/model.sock"},
    "concurrency": 4,
    "timeoutSeconds": 120,
    "maxDeliver": 3,
    "backoffSeconds": [1, 5],
}


def worker_body(**changes: Any) -> WorkerUnitCreate:
    return worker_request(
        FunctionSpec.parse(FUNCTION | changes),
        function=7,
        tenant="acme",
        queue_url="nats://nats.platform:4222",
        name="fn-7-abc",
    )


def worker_spec(**changes: Any) -> GPUUnitSpec:
    stock = GPUUnitSpec.parse({"specName": "g1.1", "gpu": 1, "memory": "16Gi"})
    return worker_body(**changes).spec(stock)


def deployment(spec: GPUUnitSpec) -> Manifest:
    unit = unit_resource("fn-7-abc", template={})
    view = UnitView.parse({**unit, "spec": spec.normalised()})
    return manifests.deployment(
        view, replicas=1, priority=STOCK_PRIORITY_CLASS, settings=POD_SETTINGS
    )


def pod(spec: GPUUnitSpec) -> Manifest:
    found = deployment(spec)["spec"]["template"]["spec"]
    assert isinstance(found, dict)
    return found


def test_deployment_of_worker_matches_golden_file(golden: GoldenFiles) -> None:
    text = yaml.safe_dump(deployment(worker_spec()), sort_keys=False)

    golden("serverless/deployment-worker.yaml").check(text)


def test_worker_has_resources_of_stock() -> None:
    spec = worker_spec()

    assert (spec.gpu, spec.memory, spec.image) == (1, "16Gi", FUNCTION["image"])
    assert GPUUnitSpec.parse(spec.normalised()) == spec


def test_request_round_trip() -> None:
    payload = worker_body().payload()

    read = WorkerUnitCreate.parse({**payload, "operationID": "fn-7-abc", "name": "fn-7-abc"})

    assert read == worker_body()


def test_no_request_body_has_serverless_block() -> None:
    block = worker_body().normalised()["serverless"]
    body = {"operationID": "op-1", "name": "a", "specName": "g1.1", "image": "app"}

    for model, given in ((GpuUnitCreate, body), (GpuUnitUpdate, {"operationID": "op-1"})):
        with pytest.raises(InvalidSpec) as caught:
            model.parse({**given, "serverless": block})
        assert "serverless" in {fault.field for fault in caught.value.details}


def test_update_of_unit_keeps_block() -> None:
    spec = worker_spec()

    changed = GpuUnitUpdate.parse({"operationID": "op-1", "image": "other"}).applied_to(
        spec.normalised()
    )

    assert changed.serverless == spec.serverless


def test_update_cannot_let_the_program_of_a_worker_end() -> None:
    body = GpuUnitUpdate.parse({"operationID": "op-1", "template": {"restart": "never"}})

    with pytest.raises(InvalidSpec) as caught:
        body.applied_to(worker_spec().normalised())

    assert [error.field for error in caught.value.details] == ["template.restart"]


def test_the_setting_is_the_image_of_the_sidecar() -> None:
    _, sidecar = pod(worker_spec())["containers"]

    assert sidecar["image"] == POD_SETTINGS.sidecar_image
    assert sidecar["command"] == ["python", "-m", "serverless.sidecar"]


def test_a_worker_of_an_earlier_release_keeps_its_sidecar_and_its_hash() -> None:
    stored = worker_spec().normalised()
    stored["serverless"]["sidecarImage"] = "registry.example.com/sidecar:1"
    earlier = GPUUnitSpec.parse(stored)

    _, sidecar = pod(earlier)["containers"]

    assert sidecar["image"] == "registry.example.com/sidecar:1"
    assert manifests.spec_hash(earlier) == manifests.spec_hash(worker_spec())


def test_only_sidecar_mounts_credentials() -> None:
    function, sidecar = pod(worker_spec())["containers"]

    assert [one["mountPath"] for one in function["volumeMounts"]] == [
        "/dev/shm",
        "/run/serverless",
    ]
    assert {one["mountPath"] for one in sidecar["volumeMounts"]} == {
        "/run/serverless",
        "/run/queue",
    }
    assert not {one["name"] for one in function["env"]} & {
        "SERVERLESS_QUEUE_URL",
        "SERVERLESS_DRAIN_TOKEN",
    }


def test_template_cannot_reference_credentials() -> None:
    reference = {"name": secret_name(7), "key": CREDENTIALS_KEY}
    envs = [{"name": "A", "valueFrom": {"secretKeyRef": reference}}]
    field = "template.envs[0].valueFrom.secretKeyRef.name"
    by_hand = {**worker_spec().normalised(), "template": {"envs": envs}}

    for parse, raw in (
        (FunctionSpec.parse, {**FUNCTION, "template": {"envs": envs}}),
        (GPUUnitSpec.parse, by_hand),
    ):
        with pytest.raises(InvalidSpec) as caught:
            parse(raw)
        assert [fault.field for fault in caught.value.details] == [field]


def test_variable_from_secret_is_only_in_function_container() -> None:
    variable = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}}

    function, sidecar = pod(worker_spec(template={"envs": [variable]}))["containers"]

    assert variable in function["env"]
    assert "TOKEN" not in {one["name"] for one in sidecar["env"]}


def test_sidecar_reads_settings_of_manifest() -> None:
    _, sidecar = pod(worker_spec())["containers"]

    read = Settings.from_environment({one["name"]: one["value"] for one in sidecar["env"]})

    assert (read.tenant, read.function_id, read.worker_name) == ("acme", 7, "fn-7-abc")
    assert (read.concurrency, read.max_deliver) == (4, 3)
    assert read.backoff_seconds == (1, 5)
    assert read.socket_path == "/run/serverless/model.sock"
    assert read.health_path == "/health"
    assert read.health_address.port == SIDECAR_PORT
    assert (read.credentials_directory / CREDENTIALS_KEY).parts[:3] == ("/", "run", "queue")
    assert read.drain_seconds > FUNCTION["timeoutSeconds"]
    assert read.drain_token
    assert DRAIN_TOKEN_HEADER == workers.DRAIN_TOKEN_HEADER


def test_sidecar_reads_port_of_manifest() -> None:
    framework = {"port": 8000, "method": "PUT", "invokePath": "/v1/completions?stream=false"}

    function, sidecar = pod(worker_spec(framework=framework))["containers"]

    read = Settings.from_environment({one["name"]: one["value"] for one in sidecar["env"]})
    assert (read.framework_port, read.invoke_path) == (8000, framework["invokePath"])
    assert read.invoke_method == "PUT"
    assert "SERVERLESS_FRAMEWORK_PORT" not in {one["name"] for one in function["env"]}


def test_both_containers_have_the_query_of_the_path_unchanged() -> None:
    path = "/v1/models?$filter=$$(SERVERLESS_WORKER_NAME)"

    containers = pod(worker_spec(framework={"invokePath": path}))["containers"]

    for container in containers:
        assert expanded_environment(container)["SERVERLESS_INVOKE_PATH"] == path


def test_defaults_do_not_change_the_manifest_of_earlier_workers() -> None:
    _, sidecar = pod(worker_spec(framework={}))["containers"]

    names = {one["name"] for one in sidecar["env"]}
    assert names.isdisjoint({"SERVERLESS_FRAMEWORK_PORT", "SERVERLESS_INVOKE_METHOD"})


def test_grace_period_exceeds_drain() -> None:
    made = pod(worker_spec(timeoutSeconds=3600))

    environment = {one["name"]: one["value"] for one in made["containers"][1]["env"]}
    drain = int(environment["SERVERLESS_DRAIN_SECONDS"])
    assert 3600 < drain < made["terminationGracePeriodSeconds"]


def test_template_cannot_shorten_grace_period() -> None:
    template = {"terminationGracePeriodSeconds": 1}
    longer = {"terminationGracePeriodSeconds": 3600}

    assert pod(worker_spec(template=template))["terminationGracePeriodSeconds"] == 135
    assert pod(worker_spec(template=longer))["terminationGracePeriodSeconds"] == 3600


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"functionID": 0}, "serverless.functionID"),
        ({"tenant": "A.b"}, "serverless.tenant"),
        ({"queueURL": "nats://me:secret@host:1"}, "serverless.queueURL"),
        ({"queueURL": "http://host"}, "serverless.queueURL"),
        ({"credentialsSecret": "a/b"}, "serverless.credentialsSecret"),
        ({"concurrency": 65}, "serverless.concurrency"),
        ({"framework": {"socketPath": "/run/serverless/../x"}}, "serverless.framework.socketPath"),
        ({"framework": {"invokePath": "invoke"}}, "serverless.framework.invokePath"),
        ({"framework": {"port": SIDECAR_PORT}}, "serverless.framework.port"),
        ({"backoffSeconds": []}, "serverless.backoffSeconds"),
    ],
)
def test_invalid_block_is_rejected(change: dict[str, Any], field: str) -> None:
    raw = worker_spec().normalised()

    with pytest.raises(InvalidSpec) as caught:
        GPUUnitSpec.parse({**raw, "serverless": {**raw["serverless"], **change}})

    assert [fault.field for fault in caught.value.details] == [field]
    assert "secret" not in str(caught.value)
