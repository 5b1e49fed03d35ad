"""The spec of a stock pool: accepted values, paths of errors, and one normal form."""

from typing import Any

import pytest

from gpuplatform.errors import InvalidSpec
from gpuplatform.workloads.template import MAX_VARIABLES
from inventory.core.spec import StockPoolSpec, StockPoolStatus


def raw(**changes: Any) -> dict[str, Any]:
    return {"specName": "g1.1", "replicas": 1, **changes}


def templated(**template: Any) -> dict[str, Any]:
    return raw(template=template)


def fields_of(value: object) -> list[str]:
    with pytest.raises(InvalidSpec) as caught:
        StockPoolSpec.parse(value)
    assert str(caught.value).endswith((".", ".)"))
    return [one.field for one in caught.value.details]


PORT = {"name": "http", "port": 80}


def secret(variable: str = "A", **changes: Any) -> dict[str, Any]:
    """Return a variable with a value from a Secret."""
    reference = {"name": "hf", "key": "token", **changes}
    return {"name": variable, "valueFrom": {"secretKeyRef": reference}}


_REFERENCE = "valueFrom.secretKeyRef"
ODD_SOURCES: list[tuple[dict[str, Any], str]] = [
    ({"name": "A", "valueFrom": {}}, "valueFrom"),
    ({"name": "A", "valueFrom": None}, "valueFrom"),
    ({"name": "A", "valueFrom": "hf"}, "valueFrom"),
    ({"name": "A", "valueFrom": {"secretKeyRef": None}}, _REFERENCE),
    ({"name": "A", "valueFrom": {"secretKeyRef": {"key": "k"}}}, f"{_REFERENCE}.name"),
    ({"name": "A", "valueFrom": {"secretKeyRef": {"name": "n"}}}, f"{_REFERENCE}.key"),
    ({"name": "A", "value": "x"} | secret(), "valueFrom"),
    ({"name": "A", "value": ""} | secret(), "valueFrom"),
    (secret(optional="true"), f"{_REFERENCE}.optional"),
    (secret(namespace="kube-system"), f"{_REFERENCE}.namespace"),
    *((secret(name=odd), f"{_REFERENCE}.name") for odd in ("", "A", "a_b", "a..b", "-a", "a/b")),
    *((secret(name=odd), f"{_REFERENCE}.name") for odd in ("a ", "x" * 254, 1, None)),
    *((secret(key=odd), f"{_REFERENCE}.key") for odd in ("", ".", "..", "..a", "a b", "a/b", "ä")),
    *((secret(key=odd), f"{_REFERENCE}.key") for odd in ("a\n", "k" * 254, 1, None)),
    *((secret(name=own), f"{_REFERENCE}.name") for own in ("fn-1-queue", "fn-007-queue")),
    *((secret(name=own), f"{_REFERENCE}.name") for own in ("gpu-platform-secrets",)),
]


@pytest.mark.parametrize(
    "value",
    [
        raw(),
        raw(replicas=0, gpu=0),
        raw(replicas=10_000, gpu=1024),
        raw(gpu=-0),
        raw(memory="1Mi", image="busybox"),
        raw(memory="1048576"),
        templated(),
        templated(envs=[{"name": "A-B", "value": "x\ty\n"}, {"name": "A.B"}, {"name": "PATH"}]),
        templated(ports=[PORT, {"name": "http-udp", "port": 80, "protocol": "UDP"}]),
        templated(command=["sh", "-c", ""], args=["", "🚀"]),
        templated(args=["\x1b[31m", "\x7f"], envs=[{"name": "A", "value": "\x01\u2028\uffff"}]),
        templated(envs=[{"name": f"A{n}", "value": "x" * 250} for n in range(1_000)]),
        templated(args=["x" * 262] * 1_000),
        templated(envs=[secret(), {"name": "B", "value": ""}, {"name": "C"}]),
        templated(envs=[secret(name="a.b-c.9", key="A_b-c.9"), secret("B", key=".a..b")]),
        templated(envs=[secret(name="fn-queue"), secret("B", name="fn-1-queue-of-mine")]),
        templated(envs=[secret(name="x" * 63), secret("B", key="k" * 253)]),
    ],
)
def test_accepted(value: dict[str, Any]) -> None:
    assert StockPoolSpec.parse(value).spec_name == "g1.1"


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (None, ""),
        ([], ""),
        ("x", ""),
        (7, ""),
        ({"replicas": 1}, "specName"),
        ({"specName": "g"}, "replicas"),
        (raw(specName=""), "specName"),
        (raw(specName=" g"), "specName"),
        (raw(specName="x" * 64), "specName"),
        (raw(specName=1), "specName"),
        (raw(specName=None), "specName"),
        (raw(gpuu=3), "gpuu"),
        (raw(replicas=-1), "replicas"),
        (raw(replicas=10_001), "replicas"),
        (raw(replicas=None), "replicas"),
        (raw(gpu=-1), "gpu"),
        (raw(gpu=1025), "gpu"),
        (raw(gpu=10**30), "gpu"),
        (raw(gpu="1"), "gpu"),
        (raw(gpu="1_0"), "gpu"),
        (raw(gpu="\u0663"), "gpu"),
        (raw(gpu=1.0), "gpu"),
        (raw(gpu=1.5), "gpu"),
        (raw(gpu=True), "gpu"),
        (raw(gpu=None), "gpu"),
        (raw(gpu=[1]), "gpu"),
        (raw(memory=16), "memory"),
        (raw(memory=None), "memory"),
        (raw(memory=""), "memory"),
        (raw(memory="not-a-quantity"), "memory"),
        (raw(memory="1e1000000"), "memory"),
        (raw(memory="0"), "memory"),
        (raw(memory="-1Gi"), "memory"),
        (raw(memory="Ki"), "memory"),
        (raw(memory="8Ei"), "memory"),
        (raw(image=""), "image"),
        (raw(image=" busybox"), "image"),
        (raw(image=None), "image"),
        (raw(template=None), "template"),
        (raw(template=[]), "template"),
        (templated(envs={"A": "b"}), "template.envs"),
        (templated(envs=None), "template.envs"),
        (templated(envs=[None]), "template.envs[0]"),
        (templated(envs=["A=b"]), "template.envs[0]"),
        (templated(envs=[{"value": "x"}]), "template.envs[0].name"),
        (templated(envs=[{"name": "A", "value": None}]), "template.envs[0].value"),
        (templated(envs=[{"name": "A", "value": 1}]), "template.envs[0].value"),
        (templated(envs=[{"name": "A", "value": "\x00"}]), "template.envs[0].value"),
        (templated(envs=[{"name": "A", "value": "x" * 32769}]), "template.envs[0].value"),
        *((templated(envs=[odd]), f"template.envs[0].{field}") for odd, field in ODD_SOURCES),
        (templated(envs=[secret(), secret()]), "template.envs[1].name"),
        (templated(envs=[secret("NVIDIA_VISIBLE_DEVICES")]), "template.envs[0].name"),
        (templated(envs=[{"name": "A"}, {"name": "A", "value": "b"}]), "template.envs[1].name"),
        (templated(envs=[{"name": f"A{n}"} for n in range(MAX_VARIABLES + 1)]), "template.envs"),
        (templated(args=["x" * 256] * 1_025), "template"),
        (
            templated(ports=[{"name": f"p{n}", "port": n + 1} for n in range(101)]),
            "template.ports",
        ),
        (templated(envs=[{"name": f"A{n}", "value": "x" * 32768} for n in range(9)]), "template"),
        (templated(command=[""]), "template.command"),
        (templated(command=["sh", None]), "template.command[1]"),
        (templated(command="sh"), "template.command"),
        (templated(args=["a", "\x00"]), "template.args[1]"),
        (templated(args=["\ud800"]), "template.args[0]"),
        (templated(hostNetwork=True), "template.hostNetwork"),
        (templated(ports=[{"name": "http"}]), "template.ports[0].port"),
        (templated(ports=[{"port": 80}]), "template.ports[0].name"),
        (templated(ports=[{"name": "http", "port": 0}]), "template.ports[0].port"),
        (templated(ports=[{"name": "http", "port": 65536}]), "template.ports[0].port"),
        (templated(ports=[{"name": "http", "port": "80"}]), "template.ports[0].port"),
        (templated(ports=[{**PORT, "protocol": "tcp"}]), "template.ports[0].protocol"),
        (templated(ports=[{**PORT, "protocol": None}]), "template.ports[0].protocol"),
        (templated(ports=[PORT, {"name": "ssh\n", "port": 22}]), "template.ports[1].name"),
        (templated(ports=[PORT, {"name": "http", "port": 81}]), "template.ports[1].name"),
        (templated(ports=[PORT, {"name": "web", "port": 80}]), "template.ports[1].port"),
    ],
)
def test_rejected_with_the_path_of_the_field(value: object, field: str) -> None:
    assert fields_of(value) == [field]


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA_VISIBLE_DEVICES",
        "NVIDIA_MIG_CONFIG_DEVICES",
        "NVIDIA_MIG_MONITOR_DEVICES",
        "NVIDIA_IMEX_CHANNELS",
        "AMD_VISIBLE_DEVICES",
        "SERVERLESS_QUEUE",
        "SERVERLESS_",
        "SPEC_NAME",
        "POOL_NAME",
        "UNIT_NAME",
        "GPU_COUNT",
        "MEMORY_LIMIT",
    ],
)
def test_names_that_the_platform_sets_are_reserved(name: str) -> None:
    assert fields_of(templated(envs=[{"name": name, "value": "all"}])) == ["template.envs[0].name"]


@pytest.mark.parametrize(
    "name",
    [
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "NVIDIA_DRIVER_CAPABILITIES",
        "NVIDIA_TF32_OVERRIDE",
        "CUDA_VISIBLE_DEVICES",
        "KUBERNETES_NAMESPACE",
        "KUBERNETES_SERVICE_HOST",
        "SERVERLESS",
        "GPU_COUNTS",
    ],
)
def test_other_names_belong_to_the_user(name: str) -> None:
    spec = StockPoolSpec.parse(templated(envs=[{"name": name, "value": "all"}]))

    assert spec.template is not None
    assert [one.name for one in spec.template.envs] == [name]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (raw(memory="16Gi"), raw(memory="16384Mi")),
        (raw(memory="1.5Gi"), raw(memory="1536Mi")),
        (raw(gpu=0), raw()),
        (raw(template={}), raw()),
        (raw(template={"envs": [], "ports": [], "args": [], "command": []}), raw()),
        (templated(ports=[PORT]), templated(ports=[{**PORT, "protocol": "TCP"}])),
        (templated(envs=[{"name": "A"}]), templated(envs=[{"name": "A", "value": ""}])),
    ],
)
def test_equal_specs_have_one_normal_form(one: object, other: object) -> None:
    assert StockPoolSpec.parse(one).normalised() == StockPoolSpec.parse(other).normalised()


def test_the_normal_form_is_stable() -> None:
    envs = [{"name": "A", "value": "b"}, secret("B")]
    spec = StockPoolSpec.parse(templated(command=["sh"], envs=envs, ports=[PORT]))

    assert StockPoolSpec.parse(spec.normalised()) == spec
    assert spec.normalised()["template"]["envs"] == envs


def test_several_faults_are_reported_together() -> None:
    assert fields_of({"gpu": "1", "template": {"args": [None]}, "x": 1}) == [
        "specName",
        "gpu",
        "replicas",
        "template.args[0]",
        "x",
    ]


def test_a_status_is_written_in_camel_case() -> None:
    status = StockPoolStatus.parse({"phase": "Ready", "available": 1, "serviceName": "pool-a"})

    assert status.service_name == "pool-a"
    assert status.normalised() == {"phase": "Ready", "available": 1, "serviceName": "pool-a"}
