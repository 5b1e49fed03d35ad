"""Default values of built-in kinds."""

from base64 import b64encode
from collections.abc import Callable
from typing import TypeAlias

from gpuplatform.dev.simulator.apiserver.builtins.jobs import set_job_defaults
from gpuplatform.dev.simulator.apiserver.objects import Manifest
from gpuplatform.dev.simulator.apiserver.resources import Resource
from gpuplatform.dev.simulator.apiserver.schema import apply_defaults

Defaulter: TypeAlias = Callable[[Manifest], None]


def fill_defaults(resource: Resource, obj: Manifest) -> None:
    """Set the default values of absent fields of `obj`."""
    if resource.is_custom:
        apply_defaults(obj, resource.schema)
    elif resource.kind in _DEFAULTERS:
        _DEFAULTERS[resource.kind](obj)


def _pod(pod: Manifest) -> None:
    spec = pod.setdefault("spec", {})
    _pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    for container in [*spec.get("containers", ()), *spec.get("initContainers", ())]:
        limits = container["resources"].get("limits")
        if limits:
            requests = container["resources"].get("requests", {})
            container["resources"]["requests"] = {**limits, **requests}


def _pod_spec(spec: Manifest) -> None:
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    for container in [*spec.get("containers", ()), *spec.get("initContainers", ())]:
        _container(container)
    for volume in spec.get("volumes", ()):
        if set(volume) == {"name"}:
            volume["emptyDir"] = {}
        for source in ("configMap", "secret", "downwardAPI", "projected"):
            if source in volume:
                volume[source].setdefault("defaultMode", 420)


def _container(container: Manifest) -> None:
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", _pull_policy(container.get("image", "")))
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
    for variable in container.get("env", ()):
        reference = variable.get("valueFrom", {}).get("fieldRef")
        if reference is not None:
            reference.setdefault("apiVersion", "v1")
    for name in ("readinessProbe", "livenessProbe", "startupProbe"):
        if name in container:
            _probe(container[name])


def _pull_policy(image: str) -> str:
    last = image.rpartition("/")[2]
    if "@" in image:
        return "IfNotPresent"
    tag = last.partition(":")[2] or "latest"
    return "Always" if tag == "latest" else "IfNotPresent"


def _probe(probe: Manifest) -> None:
    for name, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1)):
        probe.setdefault(name, value)
    probe.setdefault("failureThreshold", 3)
    if "httpGet" in probe:
        probe["httpGet"].setdefault("path", "/")
        probe["httpGet"].setdefault("scheme", "HTTP")


def _template(owner: Manifest) -> Manifest:
    spec: Manifest = owner.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    _pod_spec(template.setdefault("spec", {}))
    return spec


def _deployment(deployment: Manifest) -> None:
    spec = _template(deployment)
    deployment.setdefault("status", {})
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    strategy = spec.setdefault("strategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxSurge", "25%")
        rolling.setdefault("maxUnavailable", "25%")


def _replica_set(replica_set: Manifest) -> None:
    _template(replica_set)
    replica_set.setdefault("status", {"replicas": 0})


def _job(job: Manifest) -> None:
    template = job.setdefault("spec", {}).setdefault("template", {})
    template.setdefault("metadata", {})
    _pod_spec(template.setdefault("spec", {}))
    set_job_defaults(job)


def _service(service: Manifest) -> None:
    spec = service.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    for port in spec.get("ports", ()):
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port", 0))
    spec.setdefault("internalTrafficPolicy", "Cluster")
    service.setdefault("status", {}).setdefault("loadBalancer", {})


def _secret(secret: Manifest) -> None:
    """Set the type of a Secret, and move the write-only `stringData` to `data`."""
    secret.setdefault("type", "Opaque")
    texts = secret.pop("stringData", {})
    if texts:
        encoded = {key: b64encode(text.encode()).decode() for key, text in texts.items()}
        secret["data"] = {**secret.get("data", {}), **encoded}


def _namespace(namespace: Manifest) -> None:
    metadata = namespace["metadata"]
    metadata["labels"] = metadata.get("labels", {}) | {
        "kubernetes.io/metadata.name": metadata["name"]
    }
    namespace.setdefault("spec", {})


def _node(node: Manifest) -> None:
    node.setdefault("spec", {})
    status = node.setdefault("status", {})
    if "capacity" in status:
        status.setdefault("allocatable", dict(status["capacity"]))


def _priority_class(priority_class: Manifest) -> None:
    priority_class.setdefault("preemptionPolicy", "PreemptLowerPriority")
    priority_class.setdefault("value", 0)


def _network_policy(policy: Manifest) -> None:
    spec = policy.setdefault("spec", {})
    spec.setdefault("podSelector", {})
    rules = [*spec.get("ingress", ()), *spec.get("egress", ())]
    for port in (port for rule in rules for port in rule.get("ports", ())):
        port.setdefault("protocol", "TCP")
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def _role_binding(binding: Manifest) -> None:
    """Set the API groups of the role and of users and groups."""
    group = "rbac.authorization.k8s.io"
    binding.setdefault("roleRef", {}).setdefault("apiGroup", group)
    for subject in binding.get("subjects", ()):
        if subject.get("kind") in {"User", "Group"}:
            subject.setdefault("apiGroup", group)


def _limit_range(limit_range: Manifest) -> None:
    """Set the defaults of containers, each from the next stricter value."""
    for item in limit_range.setdefault("spec", {}).get("limits") or ():
        if item.get("type") != "Container":
            continue
        default = {**item.get("max", {}), **item.get("default", {})}
        requests = {**item.get("min", {}), **default, **item.get("defaultRequest", {})}
        for name, amounts in (("default", default), ("defaultRequest", requests)):
            if amounts:
                item[name] = amounts


def _resource_quota(quota: Manifest) -> None:
    quota.setdefault("spec", {})
    quota.setdefault("status", {})


def _definition(definition: Manifest) -> None:
    spec = definition.setdefault("spec", {})
    spec.setdefault("conversion", {"strategy": "None"})
    names = spec.setdefault("names", {})
    if "kind" in names:
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", names["kind"] + "List")


_DEFAULTERS: dict[str, Defaulter] = {
    "Pod": _pod,
    "Deployment": _deployment,
    "ReplicaSet": _replica_set,
    "Job": _job,
    "Service": _service,
    "Secret": _secret,
    "Namespace": _namespace,
    "Node": _node,
    "PriorityClass": _priority_class,
    "NetworkPolicy": _network_policy,
    "RoleBinding": _role_binding,
    "LimitRange": _limit_range,
    "ResourceQuota": _resource_quota,
    "CustomResourceDefinition": _definition,
}
