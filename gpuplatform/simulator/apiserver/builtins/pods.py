"""Checks of pods and pod templates."""

from collections.abc import Iterator, Sequence

from gpuplatform.formats.names import DNS_SUBDOMAIN
from gpuplatform.formats.quantity import Quantity
from gpuplatform.simulator.apiserver.builtins import words
from gpuplatform.simulator.apiserver.objects import Manifest
from gpuplatform.simulator.apiserver.status import (
    Fault,
    duplicate,
    forbidden_value,
    invalid_value,
    required,
    unsupported,
)

_CONTAINERS = ("initContainers", "containers")
_CHOICES = {
    "restartPolicy": ("Always", "OnFailure", "Never"),
    "dnsPolicy": ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
}
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_POLICIES = ("Always", "IfNotPresent", "Never")
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_PLAIN_RESOURCES = {"cpu", "memory", "ephemeral-storage"}
_MUTABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def pod_spec_faults(spec: Manifest, path: str) -> Iterator[Fault]:
    """Yield what is wrong with a pod's spec."""
    containers = spec.get("containers", [])
    if not containers:
        yield required(f"{path}.containers")
    seen: set[str] = set()
    places = [(k, i, c) for k in _CONTAINERS for i, c in enumerate(spec.get(k, ()))]
    for kind, index, container in places:
        here, name = f"{path}.{kind}[{index}]", container.get("name", "")
        yield from _container_faults(container, here)
        if name and name in seen:
            yield duplicate(f"{here}.name", name)
        seen.add(name)
    for field, names in _CHOICES.items():
        if spec[field] not in names:
            yield unsupported(f"{path}.{field}", spec[field], names)
    yield from _number_faults(spec, path)
    for key, value in spec.get("nodeSelector", {}).items():
        for text, rule in ((key, words.label_key), (value, words.label_value)):
            yield from (invalid_value(f"{path}.nodeSelector", text, w) for w in rule(text))
    yield from _volume_faults(spec, path)


def _number_faults(spec: Manifest, path: str) -> Iterator[Fault]:
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= 2**31 - 1:
        detail = "must be between 1 and 2147483647, inclusive"
        yield invalid_value(f"{path}.activeDeadlineSeconds", deadline, detail)
    for index, toleration in enumerate(spec.get("tolerations", ())):
        operator = toleration.get("operator", "Equal")
        if operator not in ("Equal", "Exists"):
            yield unsupported(
                f"{path}.tolerations[{index}].operator", operator, ("Equal", "Exists")
            )


def _volume_faults(spec: Manifest, path: str) -> Iterator[Fault]:
    names: set[str] = set()
    for index, volume in enumerate(spec.get("volumes", ())):
        here, name = f"{path}.volumes[{index}].name", volume.get("name", "")
        if not name:
            yield required(here)
            continue
        yield from (invalid_value(here, name, w) for w in words.dns(name))
        if name in names:
            yield duplicate(here, name)
        names.add(name)
    for index, container in enumerate(spec.get("containers", ())):
        for place, mount in enumerate(container.get("volumeMounts", ())):
            here = f"{path}.containers[{index}].volumeMounts[{place}]"
            if mount.get("name") not in names:
                yield Fault(
                    "FieldValueNotFound", f"{here}.name", f'Not found: "{mount.get("name", "")}"'
                )
            if not mount.get("mountPath"):
                yield required(f"{here}.mountPath")


def _container_faults(container: Manifest, path: str) -> Iterator[Fault]:
    name = container.get("name", "")
    if not name:
        yield required(f"{path}.name")
    else:
        yield from (invalid_value(f"{path}.name", name, w) for w in words.dns(name))
    if not container.get("image"):
        yield required(f"{path}.image")
    policy = container["imagePullPolicy"]
    if policy not in _POLICIES:
        yield unsupported(f"{path}.imagePullPolicy", policy, _POLICIES)
    yield from _port_faults(container.get("ports", ()), f"{path}.ports")
    for index, variable in enumerate(container.get("env", ())):
        here, name = f"{path}.env[{index}]", variable.get("name", "")
        if not name:
            yield required(f"{here}.name")
        else:
            yield from (invalid_value(f"{here}.name", name, w) for w in words.env_name(name))
        if variable.get("valueFrom") is not None:
            yield from _source_faults(variable, f"{here}.valueFrom")
    yield from _resource_faults(container["resources"], f"{path}.resources")


def _source_faults(variable: Manifest, path: str) -> Iterator[Fault]:
    source = variable["valueFrom"]
    if "secretKeyRef" in source:
        yield from _secret_key_faults(source["secretKeyRef"], f"{path}.secretKeyRef")
    if not any(source.get(kind) is not None for kind in _SOURCES):
        detail = f"must specify one of: {_listed(_SOURCES)}"
    elif variable.get("value"):
        detail = "may not be specified when `value` is not empty"
    elif len(source) > 1:
        detail = "may not have more than one field specified at a time"
    else:
        return
    yield invalid_value(path, "", detail)


def _secret_key_faults(reference: Manifest, path: str) -> Iterator[Fault]:
    name, key = reference.get("name", ""), reference.get("key", "")
    yield from (invalid_value(f"{path}.name", name, w) for w in words.dns(name, DNS_SUBDOMAIN))
    if key:
        yield from (invalid_value(f"{path}.key", key, w) for w in words.config_key(key))
    else:
        yield required(f"{path}.key")


def _listed(names: Sequence[str]) -> str:
    *first, last = [f"`{name}`" for name in names]
    return f"{', '.join(first)} or {last}"


def _port_faults(ports: list[Manifest], path: str) -> Iterator[Fault]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        here, name = f"{path}[{index}]", port.get("name", "")
        problems = list(words.port_name(name)) if name else []
        yield from (invalid_value(f"{here}.name", name, w) for w in problems)
        if name and not problems and name in names:
            yield duplicate(f"{here}.name", name)
        names.add(name)
        if not port.get("containerPort"):
            yield required(f"{here}.containerPort")
        for field in ("containerPort", "hostPort"):
            number = port.get(field)
            if number:
                yield from (
                    invalid_value(f"{here}.{field}", number, w) for w in words.port_number(number)
                )
        if port["protocol"] not in _PROTOCOLS:
            yield unsupported(f"{here}.protocol", port["protocol"], _PROTOCOLS)


def _resource_faults(resources: Manifest, path: str) -> Iterator[Fault]:
    limits = resources.get("limits", {})
    for kind in ("limits", "requests"):
        for name, text in resources.get(kind, {}).items():
            here, amount = f"{path}.{kind}[{name}]", Quantity.parse(text)
            extended = "/" in name
            if not extended and name not in _PLAIN_RESOURCES and not name.startswith("hugepages-"):
                yield invalid_value(here, name, "must be a standard resource for containers")
            if amount < Quantity(0):
                yield invalid_value(here, text, "must be greater than or equal to 0")
            if extended and not amount.is_whole:
                yield invalid_value(here, text, "must be an integer")
    for name, text in resources.get("requests", {}).items():
        yield from _limit_faults(name, text, limits.get(name), path)


def _limit_faults(name: str, text: str, limit: str | None, path: str) -> Iterator[Fault]:
    if limit is None:
        if "/" in name:
            detail = "Limit must be set for non overcommitable resources"
            yield required(f"{path}.limits", detail)
        return
    amount, most = Quantity.parse(text), Quantity.parse(limit)
    if "/" in name and amount != most:
        yield invalid_value(f"{path}.requests", text, f"must be equal to {name} limit of {limit}")
    elif amount > most:
        detail = f"must be less than or equal to {name} limit of {limit}"
        yield invalid_value(f"{path}.requests", text, detail)


def pod_faults(pod: Manifest, old: Manifest | None) -> Iterator[Fault]:
    """Yield what is wrong with a pod, or with this change of it."""
    yield from pod_spec_faults(pod["spec"], "spec")
    for index, container in enumerate(pod["spec"].get("containers", ())):
        image = container.get("image", "")
        if image != image.strip():  # a template may have that; the real server lets it pass there
            here = f"spec.containers[{index}].image"
            yield invalid_value(here, image, "must not have leading or trailing whitespace")
    if old and _fixed(pod["spec"]) != _fixed(old["spec"]):
        detail = f"pod updates may not change fields other than {_MUTABLE}"
        yield forbidden_value("spec", detail)


def _fixed(spec: Manifest) -> Manifest:
    """Return the part of a pod's spec that never changes."""
    fixed = {k: v for k, v in spec.items() if k not in {"activeDeadlineSeconds", "tolerations"}}
    for kind in ("containers", "initContainers"):
        containers = spec.get(kind, ())
        fixed[kind] = [{k: v for k, v in c.items() if k != "image"} for c in containers]
    return fixed
