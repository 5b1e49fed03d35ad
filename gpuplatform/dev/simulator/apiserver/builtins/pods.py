"""Validation of pods and pod templates."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from gpuplatform.dev.simulator.apiserver.builtins import formats
from gpuplatform.dev.simulator.apiserver.builtins.statuses import pod_status_errors
from gpuplatform.dev.simulator.apiserver.builtins.type_checks import Checks, bounds, one_of, text
from gpuplatform.dev.simulator.apiserver.errors import (
    FieldError,
    duplicate,
    forbidden_value,
    invalid_value,
    required,
    unsupported,
)
from gpuplatform.dev.simulator.apiserver.objects import Manifest
from gpuplatform.formats.names import DNS_SUBDOMAIN
from gpuplatform.formats.quantity import Quantity

_CONTAINERS = ("containers", "initContainers")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_VOLUMES = (
    *("emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret"),
    *("nfs", "iscsi", "glusterfs", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "flocker"),
    *("downwardAPI", "fc", "flexVolume", "configMap", "azureFile", "vsphereVolume", "quobyte"),
    *("azureDisk", "storageos", "photonPersistentDisk", "projected", "portworxVolume", "scaleIO"),
    *("csi", "ephemeral", "image"),
)
_HANDLERS = ("exec", "httpGet", "tcpSocket")
_FIELDS = re.compile(
    r"metadata\.(name|namespace|uid|(labels|annotations)\['.*'\])"
    r"|spec\.(nodeName|serviceAccountName)|status\.(hostIPs?|podIPs?)"
)
_PLAIN_RESOURCES = {"cpu", "memory", "ephemeral-storage"}
LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_MUTABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def _unique_names(spec: Manifest, path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for kind in (*_CONTAINERS, "volumes"):
        if kind == "volumes":
            seen = set()
        for index, entry in enumerate(spec.get(kind, ())):
            name = entry.get("name", "")
            if name and name in seen:
                yield duplicate(f"{path}.{kind}[{index}].name", name)
            seen.add(name)


def _node_selector(spec: Manifest, path: str) -> Iterator[FieldError]:
    for key, value in spec.get("nodeSelector", {}).items():
        for found, rule in ((key, formats.label_key), (value, formats.label_value)):
            yield from (invalid_value(f"{path}.nodeSelector", found, w) for w in rule(found))


def _mounts(spec: Manifest, path: str) -> Iterator[FieldError]:
    volumes = {volume.get("name") for volume in spec.get("volumes", ())}
    for kind in _CONTAINERS:
        for index, container in enumerate(spec.get(kind, ())):
            paths: set[str] = set()
            for place, mount in enumerate(container.get("volumeMounts", ())):
                here = f"{path}.{kind}[{index}].volumeMounts[{place}]"
                name, folder = mount.get("name", ""), mount.get("mountPath", "")
                if name and name not in volumes:
                    yield FieldError("FieldValueNotFound", f"{here}.name", f'Not found: "{name}"')
                if folder and folder in paths:
                    yield invalid_value(f"{here}.mountPath", folder, "must be unique")
                paths.add(folder)


def _init_containers(spec: Manifest, path: str) -> Iterator[FieldError]:
    """Yield an error for each probe of an init container that cannot have probes."""
    for index, container in enumerate(spec.get("initContainers", ())):
        for name in (*_PROBES, "lifecycle"):
            if name in container and container.get("restartPolicy") != "Always":
                detail = "may not be set for init containers without restartPolicy=Always"
                yield forbidden_value(f"{path}.initContainers[{index}].{name}", detail)


def _container(container: Manifest, path: str) -> Iterator[FieldError]:
    if not container.get("image"):
        yield required(f"{path}.image")
    for name in ("livenessProbe", "startupProbe"):
        successes = container.get(name, {}).get("successThreshold", 1)
        if successes != 1:
            yield invalid_value(f"{path}.{name}.successThreshold", successes, "must be 1")
    for source in container.get("envFrom", ()):
        if not source.get("configMapRef") and not source.get("secretRef"):
            detail = f"must specify one of: {_listed(('configMapRef', 'secretRef'))}"
            yield invalid_value(f"{path}.envFrom", "", detail)
    yield from _port_names(container.get("ports", ()), f"{path}.ports")


def _port_names(ports: Sequence[Manifest], path: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        name = port.get("name", "")
        problems = list(formats.port_name(name)) if name else []
        yield from (invalid_value(f"{path}[{index}].name", name, w) for w in problems)
        if name and not problems and name in names:
            yield duplicate(f"{path}[{index}].name", name)
        names.add(name)


def _host_port(port: Manifest, path: str) -> Iterator[FieldError]:
    if port.get("hostPort"):
        yield from bounds(port["hostPort"], f"{path}.hostPort", 1, 65535)


def _variable(variable: Manifest, path: str) -> Iterator[FieldError]:
    source = variable.get("valueFrom")
    if source is None:
        return
    if not any(source.get(kind) is not None for kind in _SOURCES):
        detail = f"must specify one of: {_listed(_SOURCES)}"
    elif variable.get("value"):
        detail = "may not be specified when `value` is not empty"
    elif len(source) > 1:
        detail = "may not have more than one field specified at a time"
    else:
        return
    yield invalid_value(f"{path}.valueFrom", "", detail)


def _listed(names: Sequence[str]) -> str:
    *first, last = [f"`{name}`" for name in names]
    return f"{', '.join(first)} or {last}"


def _reference(reference: Manifest, path: str) -> Iterator[FieldError]:
    name = reference.get("name", "")
    yield from (invalid_value(f"{path}.name", name, w) for w in formats.dns(name, DNS_SUBDOMAIN))


def _field_reference(reference: Manifest, path: str) -> Iterator[FieldError]:
    name = reference.get("fieldPath", "")
    if name and not _FIELDS.fullmatch(name):
        detail = f"error converting fieldPath: field label not supported: {name}"
        yield invalid_value(f"{path}.fieldPath", name, detail)


def _port(action: Manifest, path: str) -> Iterator[FieldError]:
    port, here = action.get("port", 0), f"{path}.port"
    rule = formats.port_number(port) if isinstance(port, int) else formats.port_name(port)
    yield from (invalid_value(here, port, w) for w in rule)


def _toleration(toleration: Manifest, path: str) -> Iterator[FieldError]:
    operator, value = toleration.get("operator", ""), toleration.get("value", "")
    here = f"{path}.operator"
    if not toleration.get("key") and operator != "Exists":
        detail = (
            'operator must be Exists when `key` is empty, which means "match all values and all'
            ' keys"'
        )
        yield invalid_value(here, operator, detail)
    if "tolerationSeconds" in toleration and toleration.get("effect") != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield invalid_value(f"{path}.effect", toleration.get("effect", ""), detail)
    if operator in ("", "Equal"):
        problems = islice(formats.label_value(value), 1)
        yield from (invalid_value(here, value, w) for w in problems)
    elif operator != "Exists":
        yield unsupported(here, operator, ("Equal", "Exists"))
    elif value:
        yield invalid_value(here, value, "value must be empty when `operator` is 'Exists'")


def _requirement(requirement: Manifest, path: str) -> Iterator[FieldError]:
    operator, values = requirement.get("operator", ""), requirement.get("values", [])
    if operator in ("In", "NotIn") and not values:
        detail = "must be specified when `operator` is 'In' or 'NotIn'"
        yield required(f"{path}.values", detail)
    elif operator in ("Exists", "DoesNotExist") and values:
        detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        yield forbidden_value(f"{path}.values", detail)
    elif operator not in LABEL_OPERATORS:
        yield invalid_value(f"{path}.operator", operator, "not a valid selector operator")


def _node_requirement(requirement: Manifest, path: str) -> Iterator[FieldError]:
    if requirement.get("operator") not in ("Gt", "Lt"):
        yield from _requirement(requirement, path)
    elif len(requirement.get("values", ())) != 1:
        detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
        yield required(f"{path}.values", detail)


def _weight(term: Manifest, path: str) -> Iterator[FieldError]:
    weight = term.get("weight", 0)
    if not 1 <= weight <= 100:
        yield invalid_value(f"{path}.weight", weight, "must be in the range 1-100")


def _resources(resources: Manifest, path: str) -> Iterator[FieldError]:
    limits = resources.get("limits", {})
    for kind in ("limits", "requests"):
        for name, quantity in resources.get(kind, {}).items():
            here, amount = f"{path}.{kind}[{name}]", Quantity.parse(quantity)
            extended = "/" in name
            if not extended and name not in _PLAIN_RESOURCES and not name.startswith("hugepages-"):
                detail = "must be a standard resource type or fully qualified"
                yield invalid_value(here, name, detail)
                yield invalid_value(here, name, "must be a standard resource for containers")
            if amount < Quantity(0):
                yield invalid_value(here, quantity, "must be greater than or equal to 0")
            if extended and not amount.is_whole:
                yield invalid_value(here, quantity, "must be an integer")
    for name, quantity in resources.get("requests", {}).items():
        yield from _limit_errors(name, quantity, limits.get(name), path)


def _limit_errors(name: str, quantity: str, limit: str | None, path: str) -> Iterator[FieldError]:
    here = f"{path}.requests"
    if limit is None:
        if "/" in name:
            detail = "Limit must be set for non overcommitable resources"
            yield required(f"{path}.limits", detail)
        return
    amount, maximum = Quantity.parse(quantity), Quantity.parse(limit)
    if "/" in name and amount != maximum:
        yield invalid_value(here, quantity, f"must be equal to {name} limit of {limit}")
    elif amount > maximum:
        detail = f"must be less than or equal to {name} limit of {limit}"
        yield invalid_value(here, quantity, detail)


def _privileges(context: Manifest, path: str) -> Iterator[FieldError]:
    if context.get("privileged") and context.get("allowPrivilegeEscalation") is False:
        detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        yield invalid_value(path, context, detail)


TYPES: Checks = {
    "PodSpec": (
        *(_unique_names, _node_selector, _mounts, _init_containers),
        *(text("hostname", formats.dns), text("subdomain", formats.dns)),
    ),
    "Container": (text("name", formats.dns), _container),
    "ContainerPort": (_host_port,),
    "EnvVar": (text("name", formats.env_name), _variable),
    "ObjectFieldSelector": (_field_reference,),
    "SecretKeySelector": (_reference, text("key", formats.config_key)),
    "ConfigMapKeySelector": (_reference, text("key", formats.config_key)),
    "Volume": (text("name", formats.dns), one_of("volume", *_VOLUMES)),
    "Probe": (one_of("handler", *_HANDLERS, "grpc"),),
    "LifecycleHandler": (one_of("handler", *_HANDLERS, "sleep"),),
    "HTTPGetAction": (_port,),
    "TCPSocketAction": (_port,),
    "Toleration": (text("key", formats.label_key), _toleration),
    "LabelSelectorRequirement": (text("key", formats.label_key), _requirement),
    "NodeSelectorRequirement": (text("key", formats.label_key), _node_requirement),
    "PreferredSchedulingTerm": (_weight,),
    "WeightedPodAffinityTerm": (_weight,),
    "PodReadinessGate": (text("conditionType", formats.label_key),),
    "ResourceRequirements": (_resources,),
    "SecurityContext": (_privileges,),
}


def pod_errors(pod: Manifest, old: Manifest | None) -> Iterator[FieldError]:
    """Yield the validation errors that apply to pods but not to pod templates.

    For an update from `old`, yield the errors of changed immutable fields.
    """
    for index, container in enumerate(pod["spec"].get("containers", ())):
        image = container.get("image", "")
        if image != image.strip():
            here = f"spec.containers[{index}].image"
            yield invalid_value(here, image, "must not have leading or trailing whitespace")
    if old:
        yield from pod_status_errors(pod, old)
    if old and _fixed(pod["spec"]) != _fixed(old["spec"]):
        detail = f"pod updates may not change fields other than {_MUTABLE}"
        yield forbidden_value("spec", detail)


def _fixed(spec: Manifest) -> Manifest:
    """Return the immutable fields of the spec of a pod."""
    fixed = {k: v for k, v in spec.items() if k not in {"activeDeadlineSeconds", "tolerations"}}
    for kind in _CONTAINERS:
        containers = spec.get(kind, ())
        fixed[kind] = [{k: v for k, v in c.items() if k != "image"} for c in containers]
    return fixed
