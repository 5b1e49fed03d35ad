"""Admission of new objects, for example the priority, tolerations and initial status of pods."""

import zlib

from gpuplatform.dev.simulator.apiserver import errors
from gpuplatform.dev.simulator.apiserver.builtins.jobs import generate_selector
from gpuplatform.dev.simulator.apiserver.objects import Manifest
from gpuplatform.dev.simulator.apiserver.store import Store
from gpuplatform.dev.simulator.apiserver.targets import Target

_SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def admit(store: Store, target: Target, obj: Manifest) -> None:
    """Complete a new object after defaulting and before validation.

    Raises:
        ApiError: 403 if the priority class of a pod does not exist or has another priority.
    """
    if target.resource.key == ("", "pods"):
        _request_defaults(store, target.namespace, obj)
        _set_priority(store, target, obj["spec"])
        _tolerate_failing_nodes(obj["spec"])
        obj["status"] = {"phase": "Pending", "qosClass": _qos_class(obj["spec"])}
    elif target.resource.key == ("", "nodes"):
        _taint(obj)
    elif target.resource.key == ("", "namespaces"):
        obj["spec"].setdefault("finalizers", ["kubernetes"])
        obj["status"] = {"phase": "Active"}
    elif target.resource.kind == "CustomResourceDefinition":
        names = [
            version["name"] for version in obj["spec"].get("versions", ()) if "name" in version
        ]
        obj["status"] = {"acceptedNames": {"kind": "", "plural": ""}, "storedVersions": names}
    elif target.resource.key == ("", "services"):
        _allocate(obj)
    elif target.resource.key == ("batch", "jobs"):
        generate_selector(obj)


def _request_defaults(store: Store, namespace: str, pod: Manifest) -> None:
    """Set the requests that containers omit from the LimitRanges of the namespace.

    Source: the admission plugin LimitRanger of Kubernetes. Limits are not simulated.
    """
    ranges = [entry.object for entry in store.find(("", "limitranges"), namespace)]
    items = [item for one in ranges for item in one["spec"]["limits"]]
    defaults: Manifest = {}
    for item in items:
        if item["type"] == "Container":
            defaults |= item.get("defaultRequest", {})
    changes: list[str] = []
    for field, noun in (("containers", "container"), ("initContainers", "init container")):
        for container in pod["spec"].get(field, ()):
            requests = container["resources"].get("requests", {})
            added = {name: defaults[name] for name in sorted(defaults) if name not in requests}
            if added:
                container["resources"]["requests"] = {**requests, **added}
                names = ", ".join(added)
                changes.append(f"{names} request for {noun} {container['name']}")
    if changes:
        annotations = pod["metadata"].setdefault("annotations", {})
        text = "LimitRanger plugin set: " + "; ".join(changes)
        annotations["kubernetes.io/limit-ranger"] = text


def _allocate(service: Manifest) -> None:
    spec = service["spec"]
    if spec["type"] == "ExternalName":
        return
    number = zlib.crc32(service["metadata"]["uid"].encode()) % 65534 + 1
    spec.setdefault("clusterIP", f"10.96.{number // 256}.{number % 256}")
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")


def keep_allocated(obj: Manifest, old: Manifest) -> None:
    """Keep the IP addresses of an updated Service unless the update sets them."""
    if obj["kind"] == "Service" and obj["apiVersion"] == "v1":
        for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if name in old["spec"]:
                obj["spec"].setdefault(name, old["spec"][name])


def _set_priority(store: Store, target: Target, spec: Manifest) -> None:
    classes = [e.object for e in store.find(("scheduling.k8s.io", "priorityclasses"))]
    name = spec.get("priorityClassName", "")
    if name in _SYSTEM_CLASSES:
        found: Manifest | None = {"value": _SYSTEM_CLASSES[name]}
    elif name:
        found = next((c for c in classes if c["metadata"]["name"] == name), None)
        if found is None:
            why = f"no PriorityClass with name {name} was found"
            raise errors.forbidden(target.resource, target.name, why)
    else:
        found = next((c for c in classes if c.get("globalDefault")), None)
        if found:
            spec["priorityClassName"] = found["metadata"]["name"]
    chosen = found or {}
    requested, priority = spec.get("priority"), chosen.get("value", 0)
    if requested not in {None, priority}:
        why = (
            f"the integer value of priority ({requested}) must not be provided in pod spec;"
            f" priority admission controller computed {priority} from the given PriorityClass name"
        )
        raise errors.forbidden(target.resource, target.name, why)
    spec["priority"] = priority
    spec["preemptionPolicy"] = chosen.get("preemptionPolicy", "PreemptLowerPriority")


def _tolerate_failing_nodes(spec: Manifest) -> None:
    tolerations = spec.setdefault("tolerations", [])
    for key in _TAINTS:
        if not any(
            t.get("key", key) == key and t.get("effect", "NoExecute") == "NoExecute"
            for t in tolerations
        ):
            toleration = {"key": key, "operator": "Exists", "effect": "NoExecute"}
            tolerations.append({**toleration, "tolerationSeconds": 300})


def _qos_class(spec: Manifest) -> str:
    resources = [c.get("resources", {}) for c in spec.get("containers", ())]
    if not any(r.get("limits") or r.get("requests") for r in resources):
        return "BestEffort"
    guaranteed = all(
        {"cpu", "memory"} <= r.get("limits", {}).keys()
        and r["limits"] == r.get("requests", r["limits"])
        for r in resources
    )
    return "Guaranteed" if guaranteed else "Burstable"


def _taint(node: Manifest) -> None:
    """Add the not-ready taint to a new node. The node controller removes the taint."""
    taints = node["spec"].setdefault("taints", [])
    key = _TAINTS[0]
    if not any(t.get("key") == key and t.get("effect") == "NoSchedule" for t in taints):
        taints.append({"key": key, "effect": "NoSchedule"})
