"""Validation of the built-in kinds that the platform uses, with Kubernetes' messages."""

from collections.abc import Callable, Generator, Iterator
from typing import TypeAlias

from gpuplatform.dev.simulator.apiserver.builtins import formats
from gpuplatform.dev.simulator.apiserver.builtins.config_data import (
    config_map_faults,
    secret_faults,
)
from gpuplatform.dev.simulator.apiserver.builtins.definitions import definition_faults
from gpuplatform.dev.simulator.apiserver.builtins.metadata import annotation_faults, label_faults
from gpuplatform.dev.simulator.apiserver.builtins.pods import LABEL_OPERATORS, TYPES, pod_faults
from gpuplatform.dev.simulator.apiserver.builtins.type_checks import type_faults
from gpuplatform.dev.simulator.apiserver.errors import (
    Fault,
    duplicate,
    forbidden_value,
    invalid_value,
    required,
    unsupported,
)
from gpuplatform.dev.simulator.apiserver.objects import Manifest
from gpuplatform.dev.simulator.apiserver.resources import Resource
from gpuplatform.dev.simulator.apiserver.selectors import labels_match

Check: TypeAlias = Callable[[Manifest, Manifest | None], Iterator[Fault]]

_TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g."
    " '1%',  or '93%', regex used for validation is '[0-9]+%')"
)


def faults_of(resource: Resource, obj: Manifest, old: Manifest | None) -> list[Fault]:
    """Return the faults of `obj`, or of the change from `old` to it.

    Raises:
        ApiError: 501, a custom resource definition uses a feature that is not simulated.
    """
    faults: list[Fault] = []
    for name, sub in resource.schema["properties"].items():
        if name == "metadata" or (old and obj.get(name) == old.get(name)):
            continue
        part = {"properties": {name: sub}}
        faults += type_faults({name: obj[name]} if name in obj else {}, part, "", TYPES)
    check = _CHECKS.get(resource.kind)
    return [*faults, *check(obj, old)] if check else faults


def _workload(obj: Manifest, old: Manifest | None) -> Iterator[Fault]:
    spec = obj["spec"]
    selector, template, path = spec.get("selector"), spec["template"], "spec.template"
    labels = template["metadata"].get("labels", {})
    is_sound = yield from _selector_faults(selector)
    if is_sound and not labels_match(labels, selector):
        detail = "`selector` does not match template `labels`"
        yield invalid_value(f"{path}.metadata.labels", labels, detail)
    yield from label_faults(labels, f"{path}.labels")
    annotations = template["metadata"].get("annotations", {})
    yield from annotation_faults(annotations, f"{path}.annotations")
    policy = template["spec"]["restartPolicy"]
    if policy in {"OnFailure", "Never"}:
        yield unsupported(f"{path}.spec.restartPolicy", policy, ("Always",))
    if "activeDeadlineSeconds" in template["spec"]:
        detail = "activeDeadlineSeconds in ReplicaSet is not Supported"
        yield forbidden_value(f"{path}.spec.activeDeadlineSeconds", detail)
    if old and selector != old["spec"].get("selector"):
        yield invalid_value("spec.selector", selector, "field is immutable")
    yield from _count_faults(obj.get("status", {}))


def _selector_faults(selector: Manifest | None) -> Generator[Fault, None, bool]:
    """Yield the faults of a label selector; return whether it can be evaluated."""
    path = "spec.selector"
    if selector is None:
        yield required(path)
        return True
    yield from label_faults(selector.get("matchLabels", {}), f"{path}.matchLabels")
    expressions = selector.get("matchExpressions", ())
    if not selector.get("matchLabels") and not expressions:
        yield invalid_value(path, selector, "empty selector is invalid for deployment")
    is_sound = all(
        e.get("operator") in LABEL_OPERATORS
        and bool(e.get("values")) == e["operator"].endswith("In")
        for e in expressions
    )
    if not is_sound:
        yield invalid_value(path, selector, "invalid label selector")
    return is_sound


def _count_faults(status: Manifest) -> Iterator[Fault]:
    """Yield the counts in a status that are greater than the total."""
    total, ready = status.get("replicas", 0), status.get("readyReplicas", 0)
    available = status.get("availableReplicas", 0)
    for name in ("updatedReplicas", "readyReplicas", "availableReplicas"):
        if status.get(name, 0) > total:
            detail = "cannot be greater than status.replicas"
            yield invalid_value(f"status.{name}", status.get(name, 0), detail)
    if total >= available > ready:
        detail = "cannot be greater than readyReplicas"
        yield invalid_value("status.availableReplicas", available, detail)


def _deployment(obj: Manifest, old: Manifest | None) -> Iterator[Fault]:
    yield from _workload(obj, old)
    spec, path = obj["spec"], "spec.strategy"
    strategy = spec["strategy"]
    if strategy["type"] == "Recreate":
        if strategy.get("rollingUpdate") is not None:
            detail = "may not be specified when strategy `type` is 'Recreate'"
            yield forbidden_value(f"{path}.rollingUpdate", detail)
    elif strategy["type"] != "RollingUpdate":
        yield unsupported(path, strategy, ("Recreate", "RollingUpdate"))
    else:
        yield from _rolling_faults(strategy["rollingUpdate"], f"{path}.rollingUpdate")
    if spec["progressDeadlineSeconds"] <= spec.get("minReadySeconds", 0):
        detail = "must be greater than minReadySeconds"
        yield invalid_value(
            "spec.progressDeadlineSeconds", spec["progressDeadlineSeconds"], detail
        )


def _rolling_faults(rolling: Manifest, path: str) -> Iterator[Fault]:
    for name in ("maxUnavailable", "maxSurge"):
        value, here = rolling[name], f"{path}.{name}"
        if isinstance(value, int):
            if value < 0:
                yield invalid_value(here, value, "must be greater than or equal to 0")
        elif not value[:-1].isdecimal() or not value.endswith("%"):
            yield invalid_value(here, value, _PERCENT)
        elif name == "maxUnavailable" and int(value[:-1]) > 100:
            yield invalid_value(here, value, "must not be greater than 100%")
    if all(str(rolling[name]).rstrip("%") == "0" for name in rolling):
        detail = "may not be 0 when `maxSurge` is 0"
        yield invalid_value(f"{path}.maxUnavailable", rolling["maxUnavailable"], detail)


def _service(obj: Manifest, old: Manifest | None) -> Iterator[Fault]:
    spec, ports = obj["spec"], obj["spec"].get("ports", [])
    if spec["type"] == "ExternalName":
        if not spec.get("externalName"):
            yield required("spec.externalName")
    elif not ports and spec.get("clusterIP") != "None":
        yield required("spec.ports")
    names: set[str] = set()
    numbers: set[tuple[int, str]] = set()
    for index, port in enumerate(ports):
        here, number = f"spec.ports[{index}]", port.get("port", 0)
        yield from _service_port_name(port, here, names, must=len(ports) > 1)
        if not number:
            yield from (invalid_value(f"{here}.port", 0, w) for w in formats.port_number(0))
        yield from _target_faults(port["targetPort"], f"{here}.targetPort")
        if (number, port["protocol"]) in numbers:
            yield duplicate(here, {"port": number, "protocol": port["protocol"]})
        numbers.add((number, port["protocol"]))
    yield from label_faults(spec.get("selector", {}), "spec.selector")
    before = old["spec"] if old else spec
    if before["type"] == spec["type"] and before.get("clusterIP") != spec.get("clusterIP"):
        detail = "may not change once set"
        yield invalid_value("spec.clusterIPs[0]", spec.get("clusterIPs"), detail)


def _service_port_name(
    port: Manifest, path: str, names: set[str], *, must: bool
) -> Iterator[Fault]:
    name = port.get("name", "")
    if not name:
        if must:
            yield required(f"{path}.name")
        return
    yield from (invalid_value(f"{path}.name", name, w) for w in formats.dns(name))
    if name in names:
        yield duplicate(f"{path}.name", name)
    names.add(name)


def _target_faults(target: int | str, path: str) -> Iterator[Fault]:
    problems = (
        formats.port_number(target) if isinstance(target, int) else formats.port_name(target)
    )
    yield from (invalid_value(path, target, w) for w in problems)


def _priority_class(obj: Manifest, old: Manifest | None) -> Iterator[Fault]:
    name = obj["metadata"]["name"]
    if old and obj["value"] != old["value"]:
        yield forbidden_value("value", "may not be changed in an update.")
    elif not old and name.startswith("system-"):
        detail = (
            "priority class names with 'system-' prefix are reserved for system use only. error:"
            f" {name} is not a known system priority class"
        )
        yield forbidden_value("metadata.name", detail)
    elif not old and obj["value"] > 1_000_000_000:
        detail = "maximum allowed value of a user defined priority is 1000000000"
        yield forbidden_value("value", detail)


def _node(obj: Manifest, _old: Manifest | None) -> Iterator[Fault]:
    """Yield the faults of taints; the real server reports them as fields of the metadata."""
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(obj["spec"].get("taints", ())):
        here, key = f"metadata.taints[{index}]", taint.get("key", "")
        effect = taint.get("effect", "")
        yield from (invalid_value(f"{here}.key", key, w) for w in formats.label_key(key))
        if not effect:
            yield required(f"{here}.effect")
        elif effect not in _TAINT_EFFECTS:
            yield unsupported(f"{here}.effect", effect, _TAINT_EFFECTS)
        if (key, effect) in seen:
            yield duplicate(here, taint)
        seen.add((key, effect))


def _event(obj: Manifest, _old: Manifest | None) -> Iterator[Fault]:
    namespace = obj.get("involvedObject", {}).get("namespace") or "default"
    if namespace != obj["metadata"]["namespace"]:
        yield invalid_value(
            "involvedObject.namespace", namespace, "does not match event.namespace"
        )


_CHECKS: dict[str, Check] = {
    "Pod": pod_faults,
    "Deployment": _deployment,
    "ReplicaSet": _workload,
    "Service": _service,
    "PriorityClass": _priority_class,
    "ConfigMap": config_map_faults,
    "Secret": secret_faults,
    "Node": _node,
    "Event": _event,
    "CustomResourceDefinition": definition_faults,
}
