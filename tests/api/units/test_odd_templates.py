"""Templates that users of other platforms send, at every route that accepts a template."""

from typing import Any

import pytest

from gpuplatform.operations.models import Operation
from inventory.models import StockPool
from serverless.models import Function
from tests.factories.unit_rows import stock_row
from tests.fakes.api import POOLS, UNITS, Api
from tests.fakes.cluster import FakeCluster
from units.models import GpuUnit

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("catalogue", "cluster")]

FUNCTIONS = "/api/v1/serverless/functions"
SHARED = {"operationID": "one", "specName": "g1.1"}
ROUTES: dict[str, dict[str, Any]] = {
    UNITS: {**SHARED, "name": "a", "image": "app:1"},
    POOLS: {**SHARED, "name": "a", "image": "app:1", "replicas": 1},
    FUNCTIONS: {**SHARED, "requestID": "a", "image": "app:1"},
}
SECRET = {"name": "hf", "key": "token"}


def variable(name: str = "A", **more: Any) -> dict[str, Any]:
    return {"envs": [{"name": name, **more}]}


ODD: dict[str, tuple[dict[str, Any], list[str]]] = {
    "shared memory with the unit of docker": ({"shmSize": "20GB"}, ["shmSize"]),
    "shared memory as a volume": (
        {
            "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
            "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
        },
        ["volumes", "volumeMounts"],
    ),
    "a pull secret as a name": ({"imagePullSecrets": ["regcred"]}, ["imagePullSecrets[0]"]),
    "a pull secret of the platform": (
        {"imagePullSecrets": [{"name": "gpu-platform-registry"}]},
        ["imagePullSecrets[0].name"],
    ),
    "all devices": (variable("NVIDIA_VISIBLE_DEVICES", value="all"), ["envs[0].name"]),
    "a variable of the platform": (variable("UNIT_NAME", value="b"), ["envs[0].name"]),
    "a variable of the sidecar": (variable("SERVERLESS_QUEUE", value="b"), ["envs[0].name"]),
    "a probe by the name of a port": (
        {"readiness": {"httpGet": {"port": "http"}}},
        ["readiness.httpGet.port"],
    ),
    "a probe in the words of Kubernetes": (
        {"readiness": {"tcpSocket": {"port": 1}, "initialDelaySeconds": 60}},
        ["readiness.initialDelaySeconds"],
    ),
    "a probe without a port": ({"readiness": {"httpGet": {}}}, ["readiness.httpGet.port"]),
    "a restart policy of Kubernetes": ({"restartPolicy": "Never"}, ["restartPolicy"]),
    "a field that no variable has": (
        variable(valueFrom={"fieldRef": {"fieldPath": "status.phase"}}),
        ["envs[0].valueFrom.fieldRef.fieldPath"],
    ),
    "a resource": (
        variable(valueFrom={"resourceFieldRef": {"resource": "limits.cpu"}}),
        ["envs[0].valueFrom.resourceFieldRef"],
    ),
    "two sources": (
        variable(valueFrom={"secretKeyRef": SECRET, "configMapKeyRef": SECRET}),
        ["envs[0].valueFrom"],
    ),
    "a value and a source": (
        variable(value="", valueFrom={"secretKeyRef": SECRET}),
        ["envs[0].valueFrom"],
    ),
    "an optional reference as text": (
        variable(valueFrom={"secretKeyRef": {**SECRET, "optional": "true"}}),
        ["envs[0].valueFrom.secretKeyRef.optional"],
    ),
    "more bytes than a process gets": ({"args": ["x" * 1000] * 300}, [""]),
    "more arguments than anybody": ({"args": ["x"] * 10_001}, ["args"]),
    "a privileged container": (
        {"securityContext": {"privileged": True}},
        ["securityContext.privileged"],
    ),
    "an annotation that gives devices": (
        {"annotations": {"cdi.k8s.io/gpu": "nvidia.com/gpu=all"}},
        ["annotations['cdi.k8s.io/gpu']"],
    ),
    "storage below its scratch space": (
        {"scratch": {"size": "2Gi"}, "ephemeralStorage": "1Gi"},
        ["ephemeralStorage"],
    ),
    "scratch space in a folder of the system": (
        {"scratch": {"size": "2Gi", "mountPath": "/proc/a"}},
        ["scratch.mountPath"],
    ),
}
SOUND: dict[str, dict[str, Any]] = {
    "shared memory": {"shmSize": "20Gi"},
    "a pull secret": {"imagePullSecrets": [{"name": "regcred"}]},
    "the libraries of the driver": {
        "envs": [
            {"name": "LD_LIBRARY_PATH", "value": "/usr/local/nvidia/lib64"},
            {"name": "LD_PRELOAD", "value": "/usr/lib/libtcmalloc.so"},
            {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "all"},
            {"name": "NVIDIA_TF32_OVERRIDE", "value": "0"},
            {"name": "CUDA_VISIBLE_DEVICES", "value": "0"},
            {"name": "KUBERNETES_NAMESPACE", "value": "a"},
        ]
    },
    "a probe of the second port": {
        "ports": [
            {"name": "ssh", "port": 22},
            {"name": "http", "port": 8000},
        ],
        "readiness": {"httpGet": {"path": "/health", "port": 8000}},
    },
    "the address of the pod": variable(valueFrom={"fieldRef": {"fieldPath": "status.podIP"}}),
    "a value of a ConfigMap": variable(valueFrom={"configMapKeyRef": SECRET}),
    "an optional Secret": variable(valueFrom={"secretKeyRef": {**SECRET, "optional": True}}),
    "dollars": {
        "args": ["echo pid $$ in $(UNIT_NAME); exec /start.sh"],
        "envs": [{"name": "PASSWORD", "value": "T)T}Bjxl&@s$$z!&UJN(e#cNE5cimmX%"}],
    },
    "1,000 variables and arguments": {
        "args": ["x" * 100] * 1000,
        "envs": [{"name": f"A{number}", "value": "x"} for number in range(1000)],
    },
}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", ODD)
def test_an_odd_template_is_rejected_with_its_field_and_leaves_nothing(
    api: Api, route: str, name: str
) -> None:
    template, fields = ODD[name]
    stock = stock_row()

    answer = api.post(route, {**ROUTES[route], "template": template})

    assert (answer.status, answer.code) == (400, "invalid_request")
    paths = [f"template.{field}".removesuffix(".") for field in fields]
    assert answer.fields == paths
    assert all(one["message"] for one in answer.json["error"]["details"])
    for model in (Operation, StockPool, Function):
        assert not model._default_manager.exists()
    assert GpuUnit.objects.get() == stock
    assert GpuUnit.objects.get().claimed_by is None


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", SOUND)
def test_a_sound_template_is_accepted_and_shown_unchanged(
    api: Api, cluster: FakeCluster, route: str, name: str
) -> None:
    stock_row()

    answer = api.post(route, {**ROUTES[route], "template": SOUND[name]})

    assert answer.status == 202, answer.json
    assert api.get(f"{route}/a").data["template"] == SOUND[name]
