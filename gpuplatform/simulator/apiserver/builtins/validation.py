"""Checks of built-in kinds that the product relies on, in the words of Kubernetes' validation."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from gpuplatform.simulator.apiserver.builtins import words
from gpuplatform.simulator.apiserver.builtins.definitions import definition_faults
from gpuplatform.simulator.apiserver.builtins.metadata import annotation_faults, label_faults
from gpuplatform.simulator.apiserver.builtins.pods import pod_faults, pod_spec_faults
from gpuplatform.simulator.apiserver.objects import Manifest
from gpuplatform.simulator.apiserver.resources import Resource
from gpuplatform.simulator.apiserver.selectors import labels_match
from gpuplatform.simulator.apiserver.status import (
    Fault,
    duplicate,
    forbidden_value,
    invalid_value,
    required,
    unsupported,
)

Check: TypeAlias = Callable[[Manifest, Manifest | None], Iterator[Fault]]

_SERVICE_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def faults_of(resource: Resource, obj: Manifest, old: Manifest | None) -> list[Fault]:
    """Return what is wrong with `obj`, or with the change from `old` to it.

    Raises:
        ApiError: 501, a custom resource definition uses what is not simulated.
    """
    check = _CHECKS.get(resource.kind)
    return list(check(obj, old)) if check else []


def not_negative(spec: Manifest, name: str, path: str = "spec") -> Iterator[Fault]:
    """Yield a fault when the number `name` is below 0."""
    if spec.get(name, 0) < 0:
        yield invalid_value(f"{path}.{name}", spec[name], "must be greater than or equal to 0")


def _workload(obj: Manifest, old: Manifest | None) -> Iterator[Fault]:
    spec = obj["spec"]
    for name in ("replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"):
        yield from not_negative(spec, name)
    selector = spec.get("selector")
    if selector is None:
        yield required("spec.selector")
    else:
        yield from _selector_faults(selector)
    yield from _template_faults(spec["template"], selector)
    if old and selector != old["spec"].get("selector"):
        yield invalid_value("spec.selector", selector, "field is immutable")


def _selector_faults(selector: Manifest) -> Iterator[Fault]:
    path = "spec.selector"
    yield from label_faults(selector.get("matchLabels", {}), f"{path}.matchLabels")
    for index, expression in enumerate(selector.get("matchExpressions", ())):
        here, operator = f"{path}.matchExpressions[{index}]", expression.get("operator", "")
        if operator not in _OPERATORS:
            yield invalid_value(f"{here}.operator", operator, "not a valid selector operator")
        elif operator in {"In", "NotIn"} and not expression.get("values"):
            detail = "must be specified when `operator` is 'In' or 'NotIn'"
            yield required(f"{here}.values", detail)
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        yield invalid_value(path, selector, "empty selector is invalid for deployment")


def _template_faults(template: Manifest, selector: Manifest | None) -> Iterator[Fault]:
    path, labels = "spec.template", template["metadata"].get("labels", {})
    known = [
        e for e in (selector or {}).get("matchExpressions", ()) if e.get("operator") in _OPERATORS
    ]
    if selector is None or not labels_match(labels, {**selector, "matchExpressions": known}):
        detail = "`selector` does not match template `labels`"
        yield invalid_value(f"{path}.metadata.labels", labels, detail)
    yield from label_faults(labels, f"{path}.labels")
    annotations = template["metadata"].get("annotations", {})
    yield from annotation_faults(annotations, f"{path}.annotations")
    yield from pod_spec_faults(template["spec"], f"{path}.spec")
    policy = template["spec"]["restartPolicy"]
    if policy in {"OnFailure", "Never"}:
        yield unsupported(f"{path}.spec.restartPolicy", policy, ("Always",))


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
        value = rolling[name]
        if isinstance(value, int):
            yield from not_negative(rolling, name, path)
        elif not value[:-1].isdecimal() or not value.endswith("%"):
            detail = (
                "a valid percent string must be a numeric string followed by an ending '%' (e.g."
                " '1%',  or '93%', regex used for validation is '[0-9]+%')"
            )
            yield invalid_value(f"{path}.{name}", value, detail)
    if all(str(rolling[name]).rstrip("%") == "0" for name in rolling):
        detail = "may not be 0 when `maxSurge` is 0"
        yield invalid_value(f"{path}.maxUnavailable", rolling["maxUnavailable"], detail)


def _service(obj: Manifest, old: Manifest | None) -> Iterator[Fault]:
    spec, ports = obj["spec"], obj["spec"].get("ports", [])
    if spec["type"] not in _SERVICE_TYPES:
        yield unsupported("spec.type", spec["type"], _SERVICE_TYPES)
    if not ports and spec.get("clusterIP") != "None" and spec["type"] != "ExternalName":
        yield required("spec.ports")
    names: set[str] = set()
    numbers: set[tuple[int, str]] = set()
    for index, port in enumerate(ports):
        here, number = f"spec.ports[{index}]", port.get("port", 0)
        yield from _service_port_name(port, here, names, must=len(ports) > 1)
        yield from (invalid_value(f"{here}.port", number, w) for w in words.port_number(number))
        if port["protocol"] not in ("SCTP", "TCP", "UDP"):
            yield unsupported(f"{here}.protocol", port["protocol"], ("SCTP", "TCP", "UDP"))
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
    yield from (invalid_value(f"{path}.name", name, w) for w in words.dns(name))
    if name in names:
        yield duplicate(f"{path}.name", name)
    names.add(name)


def _target_faults(target: int | str, path: str) -> Iterator[Fault]:
    problems = words.port_number(target) if isinstance(target, int) else words.port_name(target)
    yield from (invalid_value(path, target, w) for w in problems)


def _priority_class(obj: Manifest, old: Manifest | None) -> Iterator[Fault]:
    if old and obj["value"] != old["value"]:
        yield forbidden_value("value", "may not be changed in an update.")
    if (
        not old
        and obj["value"] > 1_000_000_000
        and not obj["metadata"]["name"].startswith("system-")
    ):
        detail = "maximum allowed value of a user defined priority is 1000000000"
        yield forbidden_value("value", detail)
    policies = ("Never", "PreemptLowerPriority")
    if obj["preemptionPolicy"] not in policies:
        yield unsupported("preemptionPolicy", obj["preemptionPolicy"], policies)


def _config_map(obj: Manifest, old: Manifest | None) -> Iterator[Fault]:
    for name in ("data", "binaryData"):
        for key in obj.get(name, {}):
            yield from (invalid_value(f"{name}[{key}]", key, w) for w in words.config_key(key))
    if (
        old
        and old.get("immutable")
        and (obj.get("data"), obj.get("immutable")) != (old.get("data"), True)
    ):
        yield forbidden_value("data", "field is immutable when `immutable` is set")


def _event(obj: Manifest, _old: Manifest | None) -> Iterator[Fault]:
    namespace = obj.get("involvedObject", {}).get("namespace") or "default"
    if namespace != obj["metadata"]["namespace"]:
        yield invalid_value(
            "involvedObject.namespace", namespace, "does not match event.namespace"
        )


def _lease(obj: Manifest, _old: Manifest | None) -> Iterator[Fault]:
    for name in ("leaseDurationSeconds", "leaseTransitions"):
        value = obj.get("spec", {}).get(name)
        least = 1 if name == "leaseDurationSeconds" else 0
        if value is not None and value < least:
            detail = "must be greater than 0" if least else "must be greater than or equal to 0"
            yield invalid_value(f"spec.{name}", value, detail)


_CHECKS: dict[str, Check] = {
    "Pod": pod_faults,
    "Deployment": _deployment,
    "ReplicaSet": _workload,
    "Service": _service,
    "PriorityClass": _priority_class,
    "ConfigMap": _config_map,
    "Secret": _config_map,
    "Event": _event,
    "Lease": _lease,
    "CustomResourceDefinition": definition_faults,
}
