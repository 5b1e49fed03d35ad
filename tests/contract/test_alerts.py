"""Alerts use existing metrics and labels, and the page states the next step for each."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuplatform.metrics.declared import METRICS, Type
from tests.contract.promql import grouped_labels, selected_labels, series_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/alerts.md").read_text()
SERIES = {series: metric for metric in METRICS for series in metric.series}


def _rules() -> list[dict[str, Any]]:
    document = yaml.safe_load((ROOT / "deploy/monitoring/alerts.yaml").read_text())
    assert (document["apiVersion"], document["kind"]) == (
        "monitoring.coreos.com/v1",
        "PrometheusRule",
    )
    return [rule for group in document["spec"]["groups"] for rule in group["rules"]]


RULES = _rules()
EACH = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])


@EACH
def test_each_metric_of_an_alert_exists(rule: dict[str, Any]) -> None:
    names = series_of(rule["expr"])

    assert names
    assert names <= set(SERIES)


@EACH
def test_each_label_of_an_alert_exists(rule: dict[str, Any]) -> None:
    known = {label for name in series_of(rule["expr"]) for label in SERIES[name].labels}

    for name, labels in selected_labels(rule["expr"]):
        assert labels <= set(SERIES[name].labels), name
    assert grouped_labels(rule["expr"]) <= known
    texts = " ".join(rule["annotations"].values())
    assert set(re.findall(r"\$labels\.(\w+)", texts)) <= grouped_labels(rule["expr"])


@EACH
def test_each_alert_is_explained_on_the_page(rule: dict[str, Any]) -> None:
    assert f"\n## {rule['alert']}\n\n" in PAGE
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert rule["for"]


def test_the_page_explains_no_alert_that_is_gone() -> None:
    headings = re.findall(r"^## (\w+)$", PAGE, re.MULTILINE)

    assert headings == [rule["alert"] for rule in RULES]


def test_a_limit_of_a_histogram_lies_within_its_buckets() -> None:
    for rule in RULES:
        for name in series_of(rule["expr"]):
            if SERIES[name].type is Type.HISTOGRAM and name.endswith("_bucket"):
                limit = float(rule["expr"].rsplit(">", 1)[1])
                assert limit < SERIES[name].buckets[-1], rule["alert"]


def test_metrics_follow_the_conventions_of_prometheus() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    for metric in METRICS:
        assert metric.name.endswith("_total") == (metric.type is Type.COUNTER), metric.name
        assert bool(metric.buckets) == (metric.type is Type.HISTOGRAM), metric.name
        assert metric.help.endswith("."), metric.name
