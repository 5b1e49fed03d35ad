"""Dashboards use declared metrics and labels, and every declared metric is on a dashboard."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuplatform.metrics.declared import METRICS
from tests.contract.promql import grouped_labels, selected_labels, series_of

MONITORING = Path(__file__).parents[2] / "deploy" / "monitoring"
FILES = sorted((MONITORING / "dashboards").glob("*.json"))
SERIES = {series: metric for metric in METRICS for series in metric.series}
EACH = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)


def expressions(file: Path) -> list[str]:
    """Return every query of a dashboard."""
    panels: list[dict[str, Any]] = json.loads(file.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


@EACH
def test_every_metric_and_label_of_a_dashboard_is_declared(file: Path) -> None:
    for expression in expressions(file):
        names = series_of(expression)
        assert names
        assert names <= set(SERIES)
        for name, labels in selected_labels(expression):
            assert labels <= set(SERIES[name].labels), expression
        known = {label for name in names for label in SERIES[name].labels}
        assert grouped_labels(expression) <= known, expression


def test_every_declared_metric_is_on_a_dashboard() -> None:
    shown = {name for file in FILES for one in expressions(file) for name in series_of(one)}

    assert [metric.name for metric in METRICS if not metric.series & shown] == []


def test_the_kustomization_contains_every_dashboard() -> None:
    document = yaml.safe_load((MONITORING / "kustomization.yaml").read_text())
    [generator] = document["configMapGenerator"]

    assert sorted(generator["files"]) == [f"dashboards/{file.name}" for file in FILES]
    assert document["generatorOptions"]["labels"] == {"grafana_dashboard": "1"}


def test_prometheus_scrapes_the_port_of_the_metrics() -> None:
    monitor = yaml.safe_load((MONITORING / "podmonitor.yaml").read_text())
    pod = (MONITORING.parent / "base" / "beat.yaml").read_text()
    template = yaml.safe_load(pod)["spec"]["template"]
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    ports = {port["name"] for port in template["spec"]["containers"][0]["ports"]}

    assert endpoint["port"] in ports
    labels = monitor["spec"]["selector"]["matchLabels"]
    assert labels.items() <= template["metadata"]["labels"].items()
