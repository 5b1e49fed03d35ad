"""Grafana dashboards for the declared metrics. Pure.

The type, the labels and the name of a metric determine the query, the unit and the type of its
panel. `manage.py export dashboards` writes the dashboards to `deploy/monitoring`.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpuplatform.metrics import declared
from gpuplatform.metrics.declared import Metric, Type

COLUMNS: Final = 24
"""The number of columns of the Grafana grid."""
HEIGHT: Final = 8
SCHEMA_VERSION: Final = 39
DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
QUANTILES: Final = (0.5, 0.95)
_FLAG_WIDTH: Final = 4
_GRAPH_WIDTH: Final = 12


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel for a metric, with a label selector and the labels to group by."""

    title: str
    metric: Metric
    where: str = ""
    by: tuple[str, ...] | None = None
    """The labels to group by. By default these are all labels of the metric."""
    is_flag: bool = False
    """Whether the value is 0 or 1, so that only the current value is displayed."""
    good: int = 1
    """The value of a flag to display in green."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels to group by."""
        return self.metric.labels if self.by is None else self.by

    @property
    def width(self) -> int:
        """The width in columns of the grid."""
        return _FLAG_WIDTH if self.is_flag and not self.labels else _GRAPH_WIDTH

    def queries(self) -> Iterator[tuple[str, str]]:
        """Yield the queries with their legends."""
        name = self.metric.name
        legend = " ".join(f"{{{{{label}}}}}" for label in self.labels) or self.title
        match self.metric.type:
            case Type.GAUGE:
                yield self._gauge(), legend
            case Type.COUNTER:
                rate = f"rate({name}{self._selector}[$__rate_interval])"
                yield f"{self._grouped('sum')} ({rate})", legend
            case Type.HISTOGRAM:
                rate = f"rate({name}_bucket{self._selector}[$__rate_interval])"
                for quantile in QUANTILES:
                    buckets = f"{self._grouped('sum', 'le')} ({rate})"
                    percentile = f"p{quantile * 100:g} {legend}"
                    yield f"histogram_quantile({quantile}, {buckets})", percentile

    def _gauge(self) -> str:
        """Return the query of a gauge: the maximum of all pods, summed over the other labels."""
        series = f"{self.metric.name}{self._selector}"
        if self.labels == self.metric.labels:
            return f"{self._grouped('max')} ({series})"
        each = f"max by ({', '.join(self.metric.labels)}) ({series})"
        return f"{self._grouped('sum')} ({each})"

    @property
    def _selector(self) -> str:
        return f"{{{self.where}}}" if self.where else ""

    def _grouped(self, aggregation: str, *further: str) -> str:
        labels = ", ".join((*further, *self.labels))
        return f"{aggregation} by ({labels})" if labels else aggregation


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A dashboard. Its panels are placed in rows."""

    name: str
    title: str
    description: str
    panels: tuple[Panel, ...]


_POOLS: Final = 'kind=~"stockpool[.].*"'
_UNITS: Final = 'kind=~"unit[.].*|stock[.].*"'
_FUNCTIONS: Final = 'kind=~"function[.].*|invocation[.].*"'

DASHBOARDS: Final = (
    Dashboard(
        "fleet",
        "GPU Platform / Fleet",
        "Capacity of the cluster: nodes, stock and stock pools.",
        (
            Panel("Nodes by readiness", declared.NODES),
            Panel("GPUs by use", declared.GPUS, by=("resource", "use")),
            Panel("Stock units by phase", declared.UNITS, where='role="stock"', by=("phase",)),
            Panel("Stock pools by phase", declared.POOLS),
            Panel("Replicas of stock pools", declared.POOL_REPLICAS),
            Panel("Open operations", declared.OPERATIONS, where=_POOLS),
            Panel("Ended operations", declared.OPERATIONS_ENDED, where=_POOLS),
        ),
    ),
    Dashboard(
        "units",
        "GPU Platform / Units",
        "GPU units of users, and operations on units and stock.",
        (
            Panel("Active units by phase", declared.UNITS, where='role="active"', by=("phase",)),
            Panel("Open operations", declared.OPERATIONS, where=_UNITS),
            Panel("Ended operations", declared.OPERATIONS_ENDED, where=_UNITS),
            Panel("Age of the oldest open operation", declared.OLDEST_OPERATION),
            Panel("Time from acceptance to first claim", declared.CLAIM_SECONDS, where=_UNITS),
            Panel("Time from acceptance to success", declared.SUCCESS_SECONDS, where=_UNITS),
            Panel("Time from claim to ready", declared.CLAIM_TO_READY),
            Panel("Failed claims of stock", declared.CLAIMS_REJECTED),
            Panel("Grants to waiting requests", declared.GRANTS),
            Panel("Preemptions", declared.PREEMPTIONS),
            Panel("GPUs by tenant", declared.TENANT_GPUS),
            Panel("Use of limited resources by tenant", declared.TENANT_USED),
            Panel("Limits of tenants", declared.TENANT_LIMIT),
            Panel("Delay of the usage records", declared.USAGE_OVERDUE),
            Panel("Requests that the audit log omits", declared.AUDIT_OMITTED),
            Panel("Unsealed audit entries", declared.AUDIT_UNSEALED),
            Panel("Age of the oldest unsealed audit entry", declared.AUDIT_UNSEALED_SECONDS),
        ),
    ),
    Dashboard(
        "serverless",
        "GPU Platform / Serverless",
        "Invocations of functions, and the processes that handle them.",
        (
            Panel("Activator is leader", declared.ACTIVATOR_IS_LEADER, is_flag=True),
            Panel(
                "Serverless processes up",
                declared.PART_UP,
                where='part=~"activator|results"',
                is_flag=True,
            ),
            Panel("Open invocations by state", declared.INVOCATIONS),
            Panel("Age of the oldest open invocation", declared.OLDEST_INVOCATION),
            Panel("Failed invocations in the last hour", declared.FAILED_INVOCATIONS),
            Panel("Undelivered webhooks by state", declared.WEBHOOKS),
            Panel("Time for which the oldest webhook is due", declared.OLDEST_WEBHOOK),
            Panel("Open operations", declared.OPERATIONS, where=_FUNCTIONS),
            Panel("Ended operations", declared.OPERATIONS_ENDED, where=_FUNCTIONS),
        ),
    ),
    Dashboard(
        "platform",
        "GPU Platform / Platform",
        "Processes, servers, workload and API of the platform.",
        (
            Panel("Database up", declared.DATABASE_UP, is_flag=True),
            Panel("Broker up", declared.BROKER_UP, is_flag=True),
            Panel("Cluster up", declared.CLUSTER_UP, is_flag=True),
            Panel("Recovery needed", declared.RECOVERY_NEEDED, is_flag=True, good=0),
            Panel("Controller is leader", declared.IS_LEADER, is_flag=True),
            Panel("Processes up", declared.PART_UP, is_flag=True),
            Panel("Age of the oldest due row", declared.OLDEST_DUE),
            Panel("Messages in the broker", declared.QUEUE_MESSAGES),
            Panel("Duration of reconciliations", declared.RECONCILE_SECONDS, by=("kind",)),
            Panel("Task errors", declared.TASK_ERRORS),
            Panel("Requests by status", declared.HTTP_REQUESTS, by=("status",)),
            Panel("Duration of requests", declared.HTTP_SECONDS, by=("method",)),
            Panel("Time since the last list or event of a watch", declared.WATCH_AGE),
            Panel("Lists after a gap in a watch", declared.WATCH_RESTARTS),
        ),
    ),
)


def dashboard_files() -> dict[str, str]:
    """Return one file for each dashboard, by path in the repository."""
    directory = "deploy/monitoring/dashboards"
    return {f"{directory}/{one.name}.json": dashboard_json(one) for one in DASHBOARDS}


def dashboard_json(dashboard: Dashboard) -> str:
    """Return the dashboard in the JSON format of Grafana."""
    panels = [
        _panel(number, panel, place)
        for number, (panel, place) in enumerate(_placed(dashboard.panels), start=1)
    ]
    document = {
        "uid": f"gpu-platform-{dashboard.name}",
        "title": dashboard.title,
        "description": f"{dashboard.description} Generated by `manage.py export dashboards`.",
        "tags": ["gpu-platform"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": False,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [_DATASOURCE_VARIABLE]},
        "links": [_LINKS],
        "panels": panels,
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


_DATASOURCE_VARIABLE: Final = {
    "name": "datasource",
    "label": "Data source",
    "type": "datasource",
    "query": "prometheus",
}
_LINKS: Final = {
    "title": "GPU Platform",
    "type": "dashboards",
    "tags": ["gpu-platform"],
    "asDropdown": True,
    "includeVars": True,
    "keepTime": True,
}


def _placed(panels: tuple[Panel, ...]) -> Iterator[tuple[Panel, Mapping[str, int]]]:
    """Yield each panel with its position on the grid."""
    x = y = height = 0
    for panel in panels:
        if x + panel.width > COLUMNS:
            x, y = 0, y + height
        height = HEIGHT // 2 if panel.width == _FLAG_WIDTH else HEIGHT
        yield panel, {"x": x, "y": y, "w": panel.width, "h": height}
        x += panel.width


def _panel(number: int, panel: Panel, place: Mapping[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "title": panel.title,
        "description": panel.metric.help,
        "type": "stat" if panel.is_flag else "timeseries",
        "datasource": DATASOURCE,
        "gridPos": place,
        "targets": [
            {"refId": chr(ord("A") + index), "expr": query, "legendFormat": legend}
            for index, (query, legend) in enumerate(panel.queries())
        ],
        "fieldConfig": {"defaults": _field(panel), "overrides": []},
        "options": _options(panel),
    }


def _field(panel: Panel) -> dict[str, Any]:
    if not panel.is_flag:
        return {"unit": _unit(panel.metric), "min": 0}
    colors = {str(value): "green" if value == panel.good else "red" for value in (0, 1)}
    texts = {value: {"text": text, "color": colors[value]} for value, text in _FLAG_TEXTS.items()}
    return {"mappings": [{"type": "value", "options": texts}], "noValue": "no data"}


_FLAG_TEXTS: Final = {"0": "no", "1": "yes"}


def _options(panel: Panel) -> dict[str, Any]:
    if panel.is_flag:
        return {"colorMode": "background", "graphMode": "none", "textMode": "auto"}
    return {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}}


def _unit(metric: Metric) -> str:
    """Return the name of the unit in Grafana."""
    if metric.type is Type.COUNTER:
        return "ops"
    return "s" if metric.name.endswith("_seconds") else "short"
