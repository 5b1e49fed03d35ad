"""The query of a panel follows from its metric; panels are placed without gaps or overlaps."""

import json

import pytest

from gpuplatform.dev.generated.dashboards import (
    COLUMNS,
    DASHBOARDS,
    Dashboard,
    Panel,
    dashboard_json,
)
from gpuplatform.metrics import declared

CLAIM_RATE = "rate(gpuplatform_operation_claim_seconds_bucket[$__rate_interval])"


@pytest.mark.parametrize(
    ("panel", "queries"),
    [
        pytest.param(
            Panel("t", declared.BROKER_UP),
            [("max (gpuplatform_broker_up)", "t")],
            id="gauge without labels",
        ),
        pytest.param(
            Panel("t", declared.NODES),
            [("max by (ready) (gpuplatform_nodes)", "{{ready}}")],
            id="gauge",
        ),
        pytest.param(
            Panel("t", declared.UNITS, where='role="stock"', by=("phase",)),
            [
                (
                    'sum by (phase) (max by (role, phase) (gpuplatform_units{role="stock"}))',
                    "{{phase}}",
                )
            ],
            id="gauge with a label that adds up",
        ),
        pytest.param(
            Panel("t", declared.HTTP_REQUESTS, by=("status",)),
            [
                (
                    "sum by (status) (rate(gpuplatform_http_requests_total[$__rate_interval]))",
                    "{{status}}",
                )
            ],
            id="counter",
        ),
        pytest.param(
            Panel("t", declared.CLAIM_SECONDS, by=()),
            [
                (
                    f"histogram_quantile({quantile}, sum by (le) ({CLAIM_RATE}))",
                    f"{percentile} t",
                )
                for quantile, percentile in ((0.5, "p50"), (0.95, "p95"))
            ],
            id="histogram",
        ),
    ],
)
def test_the_query_follows_from_the_metric(panel: Panel, queries: list[tuple[str, str]]) -> None:
    assert list(panel.queries()) == queries


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda one: one.name)
def test_panels_fill_the_grid_without_overlap(dashboard: Dashboard) -> None:
    panels = json.loads(dashboard_json(dashboard))["panels"]
    cells = [
        (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
        for panel in panels
        for x in range(panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["h"])
    ]

    assert len(panels) == len(dashboard.panels)
    assert len(set(cells)) == len(cells)
    assert {x for x, _ in cells} <= set(range(COLUMNS))


@pytest.mark.parametrize(("good", "colors"), [(1, ["red", "green"]), (0, ["green", "red"])])
def test_a_flag_is_green_at_its_good_value(good: int, colors: list[str]) -> None:
    flag = Panel("t", declared.RECOVERY_NEEDED, is_flag=True, good=good)

    document = json.loads(dashboard_json(Dashboard("n", "t", "d.", (flag,))))

    [panel] = document["panels"]
    [mapping] = panel["fieldConfig"]["defaults"]["mappings"]
    assert panel["type"] == "stat"
    assert [mapping["options"][value]["color"] for value in ("0", "1")] == colors


@pytest.mark.parametrize(
    ("panel", "unit"),
    [
        (Panel("t", declared.TASK_ERRORS), "ops"),
        (Panel("t", declared.HTTP_SECONDS), "s"),
        (Panel("t", declared.NODES), "short"),
    ],
    ids=["counter", "seconds", "number"],
)
def test_the_unit_follows_from_the_metric(panel: Panel, unit: str) -> None:
    document = json.loads(dashboard_json(Dashboard("n", "t", "d.", (panel,))))

    assert document["panels"][0]["fieldConfig"]["defaults"]["unit"] == unit
