"""Validation of the built-in kinds that the platform uses, with the messages of Kubernetes."""

from collections.abc import Callable, Generator, Iterator
from typing import TypeAlias

from gpuplatform.dev.simulator.apiserver.builtins import formats
from gpuplatform.dev.simulator.apiserver.builtins.config_data import (
    config_map_errors,
    secret_errors,
)
from gpuplatform.dev.simulator.apiserver.builtins.definitions import definition_errors
from gpuplatform.dev.simulator.apiserver.builtins.jobs import job_errors
from gpuplatform.dev.simulator.apiserver.builtins.metadata import annotation_errors, label_errors
from gpuplatform.dev.simulator.apiserver.builtins.pods import LABEL_OPERATORS, TYPES, pod_errors
from gpuplatform.dev.simulator.apiserver.builtins.statuses import node_status_errors
from gpuplatform.dev.simulator.apiserver.builtins.type_checks import type_errors
from gpuplatform.dev.simulator.apiserver.errors import (
    FieldError,
    duplicate,
    forbidden_value,
    invalid_value,
    required,
    unsupported,
)
from gpuplatform.dev.simulator.apiserver.objects import Manifest
from gpuplatform.dev.simulator.apiserver.resources import Resource
from gpuplatform.dev.simulator.apiserver.selectors import labels_match

Check: TypeAlias = Callable[[Manifest, Manifest | None], Iterator[FieldError]]

_TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g."
    " '1%',  or '93%', regex used for validation is '[0-9]+%')"
)


def validation_errors(resource: Resource, obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """Return the validation errors of `obj`, or of its update from `old`.

    Raises:
        ApiError: 501 if a CustomResourceDefinition uses a feature that is not simulated.
    """
    field_errors: list[FieldError] = []
    for name, sub in resource.schema["properties"].items():
        if name == "metadata" or (old and obj.get(name) == old.get(name)):
            continue
        part = {"properties": {name: sub}}
        field_errors += type_errors({name: obj[name]} if name in obj else {}, part, "", TYPES)
    check = _CHECKS.get(resource.kind)
    return [*field_errors, *check(obj, old)] if check else field_errors


def _workload(obj: Manifest, old: Manifest | None) -> Iterator[FieldError]:
    spec = obj["spec"]
    selector, template, path = spec.get("selector"), spec["template"], "spec.template"
    labels = template["metadata"].get("labels", {})
    is_valid = yield from _selector_errors(selector)
    if is_valid and not labels_match(labels, selector):
        detail = "`selector` does not match template `labels`"
        yield invalid_value(f"{path}.metadata.labels", labels, detail)
    yield from label_errors(labels, f"{path}.labels")
    annotations = template["metadata"].get("annotations", {})
    yield from annotation_errors(annotations, f"{path}.annotations")
    policy = template["spec"]["restartPolicy"]
    if policy in {"OnFailure", "Never"}:
        yield unsupported(f"{path}.spec.restartPolicy", policy, ("Always",))
    if "activeDeadlineSeconds" in template["spec"]:
        detail = "activeDeadlineSeconds in ReplicaSet is not Supported"
        yield forbidden_value(f"{path}.spec.activeDeadlineSeconds", detail)
    if old and selector != old["spec"].get("selector"):
        yield invalid_value("spec.selector", selector, "field is immutable")
    yield from _count_errors(obj.get("status", {}))


def _selector_errors(selector: Manifest | None) -> Generator[FieldError, None, bool]:
    """Yield the errors of a label selector; the return value is whether it can be evaluated."""
    path = "spec.selector"
    if selector is None:
        yield required(path)
        return True
    yield from label_errors(selector.get("matchLabels", {}), f"{path}.matchLabels")
    expressions = selector.get("matchExpressions", ())
    if not selector.get("matchLabels") and not expressions:
        yield invalid_value(path, selector, "empty selector is invalid for deployment")
    is_valid = all(
        e.get("operator") in LABEL_OPERATORS
        and bool(e.get("values")) == e["operator"].endswith("In")
        for e in expressions
    )
    if not is_valid:
        yield invalid_value(path, selector, "invalid label selector")
    return is_valid


def _count_errors(status: Manifest) -> Iterator[FieldError]:
    """Yield an error for each count in a status that exceeds the total."""
    total, ready = status.get("replicas", 0), status.get("readyReplicas", 0)
    available = status.get("availableReplicas", 0)
    for name in ("updatedReplicas", "readyReplicas", "availableReplicas"):
        if status.get(name, 0) > total:
            detail = "cannot be greater than status.replicas"
            yield invalid_value(f"status.{name}", status.get(name, 0), detail)
    if total >= available > ready:
        detail = "cannot be greater than readyReplicas"
        yield invalid_value("status.availableReplicas", available, detail)


def _deployment(obj: Manifest, old: Manifest | None) -> Iterator[FieldError]:
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
        yield from _rolling_errors(strategy["rollingUpdate"], f"{path}.rollingUpdate")
    if spec["progressDeadlineSeconds"] <= spec.get("minReadySeconds", 0):
        detail = "must be greater than minReadySeconds"
        yield invalid_value(
            "spec.progressDeadlineSeconds", spec["progressDeadlineSeconds"], detail
        )


def _rolling_errors(rolling: Manifest, path: str) -> Iterator[FieldError]:
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


def _service(obj: Manifest, old: Manifest | None) -> Iterator[FieldError]:
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
        yield from _target_errors(port["targetPort"], f"{here}.targetPort")
        if (number, port["protocol"]) in numbers:
            yield duplicate(here, {"port": number, "protocol": port["protocol"]})
        numbers.add((number, port["protocol"]))
    yield from label_errors(spec.get("selector", {}), "spec.selector")
    before = old["spec"] if old else spec
    if before["type"] == spec["type"] and before.get("clusterIP") != spec.get("clusterIP"):
        detail = "may not change once set"
        yield invalid_value("spec.clusterIPs[0]", spec.get("clusterIPs"), detail)


def _service_port_name(
    port: Manifest, path: str, names: set[str], *, must: bool
) -> Iterator[FieldError]:
    name = port.get("name", "")
    if not name:
        if must:
            yield required(f"{path}.name")
        return
    yield from (invalid_value(f"{path}.name", name, w) for w in formats.dns(name))
    if name in names:
        yield duplicate(f"{path}.name", name)
    names.add(name)


def _target_errors(target: int | str, path: str) -> Iterator[FieldError]:
    problems = (
        formats.port_number(target) if isinstance(target, int) else formats.port_name(target)
    )
    yield from (invalid_value(path, target, w) for w in problems)


def _priority_class(obj: Manifest, old: Manifest | None) -> Iterator[FieldError]:
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


def _node(obj: Manifest, _old: Manifest | None) -> Iterator[FieldError]:
    """Yield the errors of status and taints. The paths of taints are below `metadata`."""
    yield from node_status_errors(obj)
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


def _event(obj: Manifest, _old: Manifest | None) -> Iterator[FieldError]:
    namespace = obj.get("involvedObject", {}).get("namespace") or "default"
    if namespace != obj["metadata"]["namespace"]:
        yield invalid_value(
            "involvedObject.namespace", namespace, "does not match event.namespace"
        )


def _role_binding(obj: Manifest, old: Manifest | None) -> Iterator[FieldError]:
    if old and obj["roleRef"] != old["roleRef"]:
        yield invalid_value("roleRef", obj["roleRef"], "cannot change roleRef")


def _limit_range(obj: Manifest, _old: Manifest | None) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, item in enumerate(obj["spec"].get("limits") or ()):
        kind = str(item.get("type", ""))
        if kind in seen:
            yield duplicate(f"spec.limits[{index}].type", kind)
        seen.add(kind)


_CHECKS: dict[str, Check] = {
    "Pod": pod_errors,
    "Deployment": _deployment,
    "ReplicaSet": _workload,
    "Job": job_errors,
    "Service": _service,
    "PriorityClass": _priority_class,
    "ConfigMap": config_map_errors,
    "Secret": secret_errors,
    "Node": _node,
    "Event": _event,
    "RoleBinding": _role_binding,
    "LimitRange": _limit_range,
    "CustomResourceDefinition": definition_errors,
}
