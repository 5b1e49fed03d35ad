"""Browser tests that use only the keyboard: focus order, menus and forms."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from playwright.sync_api import Page, expect

from gpuplatform.operations.models import Operation
from inventory.models import StockPool
from inventory.phases import PoolPhase
from tests.admin.conftest import PASSWORD
from tests.admin.test_browser import IN_A_BROWSER, Visit, browser, visit
from tests.factories.admin_rows import Rows
from tests.factories.unit_rows import spec_row, unit_row
from tests.fakes.cluster import FakeCluster
from tests.fakes.installed import cluster

__all__ = ["browser", "cluster", "visit"]

POOLS = reverse("admin:inventory_stockpool_changelist")
SKIP = "Skip to main content"
MOST_STOPS = 250
STOP = """() => {
  const one = document.activeElement, box = one.getBoundingClientRect();
  const style = getComputedStyle(one), x = box.x + box.width / 2, y = box.y + box.height / 2;
  return {
    name: (one.ariaLabel || one.textContent || one.value || one.name || "").trim().slice(0, 60),
    place: [...document.querySelectorAll("*")].indexOf(one),
    isSeen: box.width > 0 && box.height > 0 && y > 0 && y < innerHeight && x > 0 && x < innerWidth,
    hasRing: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
  };
}"""

pytestmark = [*IN_A_BROWSER, pytest.mark.usefixtures("cluster")]


@pytest.fixture
def keys(visit: Visit, operator: User, password: str) -> Visit:
    """A wide page of a superuser who logged in with the keyboard."""
    visit.page.set_viewport_size({"width": 1280, "height": 800})
    visit.open(reverse("admin:login"))
    visit.page.focus("[name=username]")
    visit.page.keyboard.type("operator")
    visit.page.keyboard.press("Tab")
    visit.page.keyboard.type(PASSWORD)
    visit.page.keyboard.press("Enter")
    expect(visit.page.locator("h1")).to_have_text("Overview")
    return visit


def stops(page: Page, key: str) -> list[dict[str, Any]]:
    """Press a key until the focus returns to the first element; return the focused elements."""
    found: list[dict[str, Any]] = []
    page.evaluate("document.activeElement.blur()")
    for _ in range(MOST_STOPS):
        page.keyboard.press(key)
        stop: dict[str, Any] = page.evaluate(STOP)
        if page.evaluate("document.activeElement === document.body"):
            continue  # The frame of the browser.
        if found and stop["place"] == found[0]["place"]:
            return found
        found.append(stop)
    raise AssertionError([stop["name"] for stop in found[-10:]])


def reach(page: Page, name: str) -> None:
    """Press Tab until an element with the name has the focus."""
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        if page.evaluate(STOP)["name"] == name:
            return
    raise AssertionError(name)


def test_every_focus_stop_is_visible_and_in_order(keys: Visit, rows: Rows) -> None:
    pool = rows.pool(PoolPhase.FAILED)
    unit = unit_row()
    paths = (
        reverse("admin:index"),
        POOLS,
        reverse("admin:inventory_stockpool_change", args=[pool.pk]),
        reverse("admin:units_activeunit_change", args=[unit.pk]),
        reverse("admin:inventory_stockpool_add"),
        reverse("admin:auth_user_add"),
        f"{reverse('admin:search')}?q=h100",
    )
    faults = {}

    for path in paths:
        assert keys.open(path) == 200
        keys.page.wait_for_load_state("networkidle")
        there, back = stops(keys.page, "Tab"), stops(keys.page, "Shift+Tab")
        wrong = [one["name"] for one in there + back if not (one["isSeen"] and one["hasRing"])]
        places = [one["place"] for one in there if one["place"] > 2]
        first = places.index(min(places))  # The first field has the focus.
        places = places[first:] + places[:first]
        if wrong or places != sorted(places) or {*places} - {one["place"] for one in back}:
            faults[path] = wrong or places

    assert faults == {}
    assert keys.complaints == []


def test_the_skip_link_skips_the_navigation(keys: Visit) -> None:
    keys.open(POOLS)

    keys.page.keyboard.press("Tab")
    expect(keys.page.locator(":focus")).to_have_text(SKIP)
    keys.page.keyboard.press("Enter")
    keys.page.keyboard.press("Tab")

    assert keys.page.evaluate("document.activeElement.closest('main') !== null")


def test_a_menu_closes_on_escape_and_on_blur(keys: Visit, rows: Rows) -> None:
    rows.pool(spec_name="h100")
    rows.pool(spec_name="a10")
    keys.open(POOLS)
    page, menu = keys.page, keys.page.locator("details.chip").first

    reach(page, "Spec: All,")
    page.keyboard.press("Space")
    expect(menu).to_have_attribute("open", "")
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    expect(menu).not_to_have_attribute("open", "")
    expect(page.locator(":focus")).to_contain_text("Spec:")

    page.keyboard.press("Enter")
    expect(menu).to_have_attribute("open", "")
    page.keyboard.press("Shift+Tab")
    expect(menu).not_to_have_attribute("open", "")

    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    reach(page, "h100")
    page.keyboard.press("Enter")
    expect(page.locator("#result_list tbody tr")).to_have_count(1)
    page.locator("summary", has_text="Reason").click()
    page.locator("h1").click()
    expect(page.locator("details[open]")).to_have_count(0)
    assert keys.complaints == []


def test_rows_are_selected_and_deleted_and_a_form_is_completed(
    keys: Visit, rows: Rows, cluster: FakeCluster
) -> None:
    rows.pool(name="old")
    spec_row("g1.1")
    keys.open(POOLS)
    page = keys.page

    page.locator("#action-toggle").focus()
    page.keyboard.press("Space")
    page.locator("[name=action]").focus()
    page.keyboard.type("Del")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".consequence")).to_contain_text("1 stock pool")
    reach(page, "Delete")
    page.keyboard.press("Enter")
    expect(page.locator(".messagelist a")).to_be_visible()

    keys.open(reverse("admin:inventory_stockpool_add"))
    page.locator("[name=specName]").focus()
    page.keyboard.type("g1.1")
    page.locator("[name=replicas]").focus()
    page.keyboard.press("Enter")
    expect(page.locator("[role=alert]")).to_be_visible()
    expect(page.locator("[name=specName]")).to_have_value("g1.1")
    page.locator("[name=replicas]").focus()
    page.keyboard.type("1")
    reach(page, "Create stock pool")
    page.keyboard.press("Space")
    expect(page.locator(".messagelist a")).to_be_visible()
    assert StockPool.objects.count() == Operation.objects.count() == 2
    assert keys.complaints == []
