"""Browser tests of lists at common widths."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from tests.admin.test_browser import IN_A_BROWSER, Visit, browser, visit
from tests.factories.admin_rows import Rows
from tests.factories.node_rows import node_row, pod_of
from tests.factories.serverless import accept, function_row
from tests.factories.unit_rows import spec_row, stock_row, unit_row
from tests.fakes.cluster import FakeCluster
from tests.fakes.installed import cluster
from units.models import UnitHistory
from units.phases import UnitPhase

__all__ = ["browser", "cluster", "visit"]

pytestmark = IN_A_BROWSER

LISTS = (
    "operations_operation",
    "inventory_stockpool",
    "units_stockunit",
    "units_activeunit",
    "units_unithistory",
    "serverless_function",
    "serverless_invocation",
    "django_celery_beat_periodictask",
    "inventory_gpuspec",
    "inventory_node",
)
LONG = "registry.example.com/team/a-very-long-image-name-indeed:2026.11.29-rc.1-with-more"
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
TABLE = """() => {
  const card = document.querySelector(".card.table");
  const columns = [...document.querySelectorAll("#result_list thead th")];
  const whys = [...document.querySelectorAll("td.field-why_column .why")];
  return {
    isWide: card.scrollWidth > card.clientWidth,
    columns: columns.map((one) => `${one.innerText} ${one.offsetWidth}`),
    whys: whys.map((one) => one.getBoundingClientRect().width),
  };
}"""
CARDS = """() => [...document.querySelectorAll("#result_list tbody tr")].map((row) => {
  const box = (one) => one.getBoundingClientRect();
  const cells = [...row.children].filter((cell) => cell.offsetParent && box(cell).height > 0);
  const hasContent = (cell) => cell.innerText.trim() || cell.querySelector("input, svg, progress");
  const name = row.querySelector("th, .field-unit_column");
  const age = row.querySelector(".field-since, .field-last_run, .field-changed");
  const isAgeShown = age && age.offsetParent;
  return {
    silent: cells.filter((cell) => !hasContent(cell)).map((cell) => cell.className),
    dashes: cells.filter((cell) => cell.innerText.trim() === "—").map((cell) => cell.className),
    ageBelow: isAgeShown ? Math.abs(box(age).top - box(name).top) > 4 : false,
    isCut: row.scrollWidth > row.clientWidth,
  };
})"""


@pytest.fixture
def shown(rows: Rows, cluster: FakeCluster) -> None:
    """Rows with long values, and rows with empty values in most columns."""
    job = rows.operation(
        "Failed",
        operation_id=f"admin-{'7' * 32}-5995",
        object_namespace="runtime-instance",
        object_name=f"unit-{'x' * 50}",
        error_message=100 * "The words of it. ",
    )
    rows.operation("Running", kind="stock.seed", progress_done=3, progress_total=1000)
    rows.pool("Failed", operation=job, message=100 * "The words of it. ")
    rows.pool()
    stock_row(claimed_by=job, name=f"stock-h100-16g-{'8' * 16}-001")
    stock_row(UnitPhase.FAILED, message=100 * "The words of it. ")
    long = node_row(
        f"gpu-node-{'z' * 50}", pods=[pod_of(None)], taints=[TAINT], is_schedulable=False
    )
    node_row("cpu-node", 0, product="")
    unit_row(UnitPhase.FAILED, name=f"unit-{'y' * 50}", image=LONG, operation=job, node=long.name)
    unit = unit_row(UnitPhase.READY)
    for one in (job, None):
        UnitHistory.objects.create(
            unit=unit, phase="Failed", reason="PodStartupFailed", message=LONG, operation=one
        )
    function = function_row()
    accept(function)
    spec_row()
    interval = IntervalSchedule.objects.create(every=45, period=IntervalSchedule.SECONDS)
    PeriodicTask.objects.create(name="never ran", task="gone.task", interval=interval)


def looked_at(visit: Visit, script: str, name: str) -> Any:
    assert visit.open(reverse(f"admin:{name}_changelist")) == 200
    return visit.page.evaluate(script)


@pytest.mark.usefixtures("shown")
@pytest.mark.parametrize("width", [1280, 1920])
def test_no_table_is_wider_than_its_card_and_messages_are_readable(
    visit: Visit, operator: User, password: str, width: int
) -> None:
    visit.page.set_viewport_size({"width": width, "height": 800})
    visit.log_in("operator", password)

    for name in LISTS:
        found = looked_at(visit, TABLE, name)

        assert not found["isWide"], (name, found["columns"])
        assert all(one > 180 for one in found["whys"]), (name, found["whys"])
    assert visit.complaints == []


@pytest.mark.usefixtures("shown")
def test_on_a_phone_a_row_begins_with_name_and_age_and_hides_empty_values(
    visit: Visit, operator: User, password: str
) -> None:
    visit.log_in("operator", password)

    for name in LISTS:
        cards = looked_at(visit, CARDS, name)

        assert cards, name
        for card in cards:
            assert card == {"silent": [], "dashes": [], "ageBelow": False, "isCut": False}, name
    assert visit.complaints == []


@pytest.mark.usefixtures("shown")
def test_the_tooltip_has_the_whole_message(visit: Visit, operator: User, password: str) -> None:
    visit.log_in("operator", password)
    visit.open(reverse("admin:inventory_stockpool_changelist"))

    title = visit.page.locator("td.field-why_column .why").first.get_attribute("title") or ""

    assert len(title) > 900
