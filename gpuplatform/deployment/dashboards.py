"""Grafana dashboards from the declared metrics. Pure.

A panel names a declared metric; type, labels and name of the metric decide the query, the unit and
the kind of panel. `manage.py export_dashboards` writes the dashboards to `deploy/monitoring`.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpuplatform.metrics import declared
from gpuplatform.metrics.declared import Metric, Type

COLUMNS: Final = 24
"""The width of Grafana's grid."""
HEIGHT: Final = 8
SCHEMA_VERSION: Final = 39
DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
QUANTILES: Final = (0.5, 0.95)
_FLAG_WIDTH: Final = 4
_GRAPH_WIDTH: Final = 12


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: a metric, restricted by a label selector and grouped by some of its labels."""

    title: str
    metric: Metric
    where: str = ""
    by: tuple[str, ...] | None = None
    """The labels of the legend; None: all labels of the metric."""
    is_flag: bool = False
    """The value is 0 or 1, and only the current one matters."""
    good: int = 1
    """The value of a flag that is displayed in green."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that the panel groups by."""
        return self.metric.labels if self.by is None else self.by

    @property
    def width(self) -> int:
        """The number of columns."""
        return _FLAG_WIDTH if self.is_flag and not self.labels else _GRAPH_WIDTH

    def queries(self) -> Iterator[tuple[str, str]]:
        """Yield each query with its legend."""
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
        """Return the value of one of the pods; values of labels that are dropped add up."""
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
    """One dashboard: a row of panels after the other."""

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
        "GPU units of users and the operations on units and stock.",
        (
            Panel("Active units by phase", declared.UNITS, where='role="active"', by=("phase",)),
            Panel("Open operations", declared.OPERATIONS, where=_UNITS),
            Panel("Ended operations", declared.OPERATIONS_ENDED, where=_UNITS),
            Panel("Age of the oldest open operation", declared.OLDEST_OPERATION),
            Panel("Acceptance to first claim", declared.CLAIM_SECONDS, where=_UNITS),
            Panel("Acceptance to success", declared.SUCCESS_SECONDS, where=_UNITS),
            Panel("Claim to ready", declared.CLAIM_TO_READY),
            Panel("Refused claims", declared.CLAIMS_REFUSED),
            Panel("GPUs by tenant", declared.TENANT_GPUS),
        ),
    ),
    Dashboard(
        "serverless",
        "GPU Platform / Serverless",
        "Invocations of functions and the processes that run them.",
        (
            Panel("Activator leads", declared.ACTIVATOR_IS_LEADER, is_flag=True),
            Panel(
                "Serverless processes up",
                declared.PART_UP,
                where='part=~"activator|results"',
                is_flag=True,
            ),
            Panel("Open invocations by state", declared.INVOCATIONS),
            Panel("Age of the oldest open invocation", declared.OLDEST_INVOCATION),
            Panel("Open operations", declared.OPERATIONS, where=_FUNCTIONS),
            Panel("Ended operations", declared.OPERATIONS_ENDED, where=_FUNCTIONS),
        ),
    ),
    Dashboard(
        "platform",
        "GPU Platform / Platform",
        "Processes, servers, work and API of the platform.",
        (
            Panel("Database answers", declared.STATE_IS_READ, is_flag=True),
            Panel("Broker answers", declared.BROKER_UP, is_flag=True),
            Panel("Cluster answers", declared.CLUSTER_UP, is_flag=True),
            Panel("Recovery needed", declared.RECOVERY_NEEDED, is_flag=True, good=0),
            Panel("Controller leads", declared.IS_LEADER, is_flag=True),
            Panel("Parts up", declared.PART_UP, is_flag=True),
            Panel("Age of the oldest due row", declared.OLDEST_DUE),
            Panel("Messages in the broker", declared.QUEUE_MESSAGES),
            Panel("Time of a reconciliation", declared.RECONCILE_SECONDS, by=("kind",)),
            Panel("Task errors", declared.TASK_FAULTS),
            Panel("Requests by status", declared.HTTP_REQUESTS, by=("status",)),
            Panel("Time of a request", declared.HTTP_SECONDS, by=("method",)),
            Panel("Age of the last list of a watch", declared.WATCH_AGE),
            Panel("Lists after a gap in a watch", declared.WATCH_RESTARTS),
        ),
    ),
)


def dashboard_json(dashboard: Dashboard) -> str:
    """Return the dashboard as Grafana imports it."""
    panels = [
        _panel(number, panel, place)
        for number, (panel, place) in enumerate(_placed(dashboard.panels), start=1)
    ]
    document = {
        "uid": f"gpu-platform-{dashboard.name}",
        "title": dashboard.title,
        "description": f"{dashboard.description} Generated by `manage.py export_dashboards`.",
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
    """Yield each panel with its place on the grid, from left to right and from top to bottom."""
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
    """Return Grafana's name of the unit."""
    if metric.type is Type.COUNTER:
        return "ops"
    return "s" if metric.name.endswith("_seconds") else "short"
