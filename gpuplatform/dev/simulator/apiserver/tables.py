"""Tables for `kubectl get`: the columns of each kind and their cells."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from gpuplatform import clock
from gpuplatform.dev.simulator.apiserver.jsonpath import values_at
from gpuplatform.dev.simulator.apiserver.objects import Manifest, condition, to_bytes
from gpuplatform.dev.simulator.apiserver.resources import Resource
from gpuplatform.dev.simulator.apiserver.store import Entry

Shape: TypeAlias = Callable[[Manifest], Manifest | None]

_SHAPES: dict[str, Shape] = {
    "Object": lambda obj: obj,
    "None": lambda _obj: None,
    "Metadata": lambda obj: {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj["metadata"],
    },
}


def table(
    resource: Resource,
    entries: Sequence[Entry],
    metadata: Manifest,
    include: str,
) -> bytes:
    """Return a Table object. `include` is the content of rows: `None`, `Metadata` or `Object`."""
    shape = _SHAPES.get(include, _SHAPES["Metadata"])
    return to_bytes(
        {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "columnDefinitions": [_definition(c) for c in resource.columns],
            "rows": [
                {"cells": [_cell(resource, column, entry.object) for column in resource.columns]}
                | ({"object": shape(entry.object)} if include != "None" else {})
                for entry in entries
            ],
        }
    )


def _definition(column: dict[str, Any]) -> dict[str, Any]:
    kept = {name: column.get(name, "") for name in ("name", "type", "format", "description")}
    if column["type"] == "date":
        kept["type"] = "string"
    return {**kept, "priority": column["priority"]}


def _cell(resource: Resource, column: dict[str, Any], obj: Manifest) -> object:
    source = column["source"]
    if source in _CELLS:
        return _CELLS[source](obj)
    values = values_at(obj, source)
    if not values:
        return None if resource.is_custom else "<none>"
    if column["type"] == "date":
        return age(str(values[0]))
    if column["type"] in {"integer", "number", "boolean"}:
        return values[0]
    return ",".join(_text(value) for value in values)


def _text(value: object) -> str:
    return value if isinstance(value, str) else to_bytes(value).decode()


_SCALES = (
    # Maximum age in seconds, unit, seconds per unit, second unit, seconds per second unit.
    (120, "s", 1, "", 0),
    (600, "m", 60, "s", 1),
    (10_800, "m", 60, "", 0),
    (28_800, "h", 3600, "m", 60),
    (172_800, "h", 3600, "", 0),
    (691_200, "d", 86_400, "h", 3600),
    (63_072_000, "d", 86_400, "", 0),
)
_YEAR = 31_536_000


def age(timestamp: str | None, *, until: datetime | None = None) -> str:
    """Return the age of a timestamp as text, such as `5m10s`, `3h` or `2d4h`."""
    if not timestamp:
        return "<unknown>"
    try:
        since = clock.parse_rfc3339(timestamp)
    except (ValueError, OverflowError):
        return "<invalid>"
    seconds = max(0, int(((until or clock.now()) - since).total_seconds()))
    for below, unit, size, second_unit, second_size in _SCALES:
        if seconds < below:
            rest = (seconds % size) // second_size if second_size else 0
            return f"{seconds // size}{unit}" + (f"{rest}{second_unit}" if rest else "")
    return f"{seconds // _YEAR}y"


def _containers(pod: Manifest) -> list[Manifest]:
    return list(pod.get("status", {}).get("containerStatuses", ()))


def _pod_status(pod: Manifest) -> str:
    status = pod.get("status", {})
    text = str(status.get("reason") or status.get("phase", "Pending"))
    if condition(pod, "PodScheduled").get("reason") == "SchedulingGated":
        text = "SchedulingGated"
    for container in reversed(_containers(pod)):
        state = container.get("state", {})
        if state.get("waiting", {}).get("reason"):
            text = state["waiting"]["reason"]
        elif "terminated" in state:
            ended = state["terminated"]
            text = ended.get("reason") or f"ExitCode:{ended.get('exitCode', 0)}"
    if "deletionTimestamp" in pod["metadata"]:
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return text


def _pod_restarts(pod: Manifest) -> str:
    containers = _containers(pod)
    count = sum(c.get("restartCount", 0) for c in containers)
    ended = [c.get("lastState", {}).get("terminated", {}).get("finishedAt") for c in containers]
    last = max(filter(None, ended), default=None)
    return f"{count} ({age(last)} ago)" if count and last else str(count)


def _pod_ready(pod: Manifest) -> str:
    ready = sum(bool(c.get("ready")) for c in _containers(pod))
    return f"{ready}/{len(pod['spec'].get('containers', ()))}"


def _pairs(pairs: dict[str, str] | None) -> str:
    return ",".join(f"{k}={v}" for k, v in sorted((pairs or {}).items())) or "<none>"


def _service_ports(service: Manifest) -> str:
    ports = service["spec"].get("ports", ())
    return ",".join(f"{p.get('port', 0)}/{p.get('protocol', '')}" for p in ports) or "<none>"


def _node_status(node: Manifest) -> str:
    ready = condition(node, "Ready")
    parts = (
        ["Unknown"] if not ready else ["Ready" if ready.get("status") == "True" else "NotReady"]
    )
    if node["spec"].get("unschedulable"):
        parts.append("SchedulingDisabled")
    return ",".join(parts)


def _node_roles(node: Manifest) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = node["metadata"].get("labels", {})
    return ",".join(sorted(k[len(prefix) :] for k in labels if k.startswith(prefix))) or "<none>"


def _event_seen(event: Manifest) -> str:
    last = event.get("lastTimestamp") or event.get("eventTime") or event.get("firstTimestamp")
    seen = age(last)
    count = event.get("count", 1)
    return f"{seen} (x{count} over {age(event.get('firstTimestamp'))})" if count > 1 else seen


def _event_object(event: Manifest) -> str:
    about = event.get("involvedObject", {})
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def _event_source(event: Manifest) -> str:
    source = event.get("source", {})
    parts = (source.get("component") or event.get("reportingComponent"), source.get("host"))
    return ", ".join(filter(None, parts))


def _endpoint_list(endpoints: Manifest) -> str:
    found = [
        f"{address.get('ip', '')}:{port.get('port', 0)}"
        for subset in endpoints.get("subsets", ())
        for address in subset.get("addresses", ())
        for port in subset.get("ports", ())
    ]
    more = f" + {len(found) - 3} more..." if len(found) > 3 else ""
    return ",".join(found[:3]) + more or "<none>"


def _template(obj: Manifest, field: str) -> str:
    containers = obj["spec"]["template"]["spec"].get("containers", ())
    return ",".join(c.get(field, "") for c in containers)


def _label_selector(obj: Manifest) -> str:
    return _pairs(obj["spec"].get("selector", {}).get("matchLabels"))


def _pod_selector(policy: Manifest) -> str:
    selector = policy["spec"]["podSelector"]
    words = {"Exists": "{}", "DoesNotExist": "!{}", "In": "{} in ({})", "NotIn": "{} notin ({})"}
    expressions = [
        words[one["operator"]].format(one["key"], ",".join(one.get("values", ())))
        for one in selector.get("matchExpressions", ())
    ]
    labels = [f"{key}={value}" for key, value in sorted(selector.get("matchLabels", {}).items())]
    return ",".join([*labels, *expressions]) or "<none>"


def _job_status(job: Manifest) -> str:
    found = {one["type"] for one in job["status"].get("conditions", ()) if one["status"] == "True"}
    for kind in ("Complete", "Failed"):
        if kind in found:
            return kind
    if "deletionTimestamp" in job["metadata"]:
        return "Terminating"
    for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if kind in found:
            return kind
    return "Running"


def _job_duration(job: Manifest) -> str:
    status = job.get("status", {})
    if "startTime" not in status:
        return ""
    end = status.get("completionTime")
    return age(status["startTime"], until=clock.parse_rfc3339(end) if end else None)


def _count(field: str) -> Callable[[Manifest], int]:
    return lambda obj: int(obj.get("status", {}).get(field, 0))


def _quota_cells(*, are_limits: bool) -> Callable[[Manifest], str]:
    """Return the cell with the usage of a quota: of the limits, or of all other resources."""

    def cell(quota: Manifest) -> str:
        status = quota.get("status", {})
        used = status.get("used", {})
        return ", ".join(
            f"{name}: {used.get(name, '0')}/{amount}"
            for name, amount in sorted(status.get("hard", {}).items())
            if name.startswith("limits.") == are_limits
        )

    return cell


def _subjects(kind: str) -> Callable[[Manifest], str]:
    """Return the cell with the subjects of a kind of a RoleBinding."""

    def cell(binding: Manifest) -> str:
        found = [one for one in binding.get("subjects", ()) if one.get("kind") == kind]
        return ", ".join(
            f"{one.get('namespace', '')}/{one['name']}"
            if kind == "ServiceAccount"
            else str(one["name"])
            for one in found
        )

    return cell


_CELLS: dict[str, Callable[[Manifest], Any]] = {
    "none": lambda _obj: "<none>",
    "age": lambda obj: age(obj["metadata"].get("creationTimestamp")),
    "pod_ready": _pod_ready,
    "pod_status": _pod_status,
    "pod_restarts": _pod_restarts,
    "service_ports": _service_ports,
    "service_selector": lambda obj: _pairs(obj["spec"].get("selector")),
    "node_status": _node_status,
    "node_roles": _node_roles,
    "event_seen": _event_seen,
    "event_first": lambda event: age(event.get("firstTimestamp") or event.get("eventTime")),
    "event_object": _event_object,
    "event_source": _event_source,
    "data_count": lambda obj: len(obj.get("data", {})) + len(obj.get("binaryData", {})),
    "endpoint_list": _endpoint_list,
    "replicas_ready": lambda obj: (
        f"{_count('readyReplicas')(obj)}/{obj['spec'].get('replicas', 1)}"
    ),
    "updated_replicas": _count("updatedReplicas"),
    "available_replicas": _count("availableReplicas"),
    "current_replicas": _count("replicas"),
    "ready_replicas": _count("readyReplicas"),
    "job_status": _job_status,
    "job_completions": lambda obj: (
        f"{_count('succeeded')(obj)}/{obj['spec'].get('completions', 1)}"
    ),
    "job_duration": _job_duration,
    "containers": lambda obj: _template(obj, "name"),
    "images": lambda obj: _template(obj, "image"),
    "label_selector": _label_selector,
    "pod_selector": _pod_selector,
    "quota_requests": _quota_cells(are_limits=False),
    "quota_limits": _quota_cells(are_limits=True),
    "bound_role": lambda obj: f"{obj['roleRef']['kind']}/{obj['roleRef']['name']}",
    "bound_users": _subjects("User"),
    "bound_groups": _subjects("Group"),
    "bound_accounts": _subjects("ServiceAccount"),
    "global_default": lambda obj: bool(obj.get("globalDefault")),
}
