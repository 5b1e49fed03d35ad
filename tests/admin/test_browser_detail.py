"""Browser tests of the pages of objects: live data, copying and accessibility."""

from pathlib import Path
from typing import Any

import axe_playwright_python  # type: ignore[import-untyped]  # only its axe.min.js
import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from playwright.sync_api import Browser, expect
from pytest_django.live_server_helper import LiveServer

from gpuplatform.kube.errors import ClusterUnavailable
from inventory.phases import PoolPhase
from tests.admin.test_browser import IN_A_BROWSER, Visit, _paths, browser, visit
from tests.factories.admin_rows import Rows
from tests.factories.unit_rows import unit_row
from tests.fakes.cluster import FakeCluster
from tests.fakes.installed import cluster
from units.models import GpuUnit, UnitHistory

__all__ = ["browser", "cluster", "visit"]

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
FIND_FAULTS = """() => axe.run(document, {preload: false}).then((found) =>
  found.violations.filter((one) => ["serious", "critical"].includes(one.impact))
    .map((one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 160)).join(" | ")}`))"""
UNAVAILABLE = "The cluster is not responding. The platform retries automatically."

pytestmark = IN_A_BROWSER


@pytest.mark.timeout(600)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_serious_accessibility_violation(
    visit: Visit,
    cluster: FakeCluster,
    rows: Rows,
    operator: User,
    password: str,
    scheme: Any,
) -> None:
    visit.page.emulate_media(color_scheme=scheme)
    visit.log_in("operator", password)
    paths = _paths(rows, operator)
    unit = GpuUnit.objects.filter(role="active")[0]
    UnitHistory.objects.create(unit=unit, phase="Failed", reason="PodStartupFailed")
    paths.append(reverse("admin:units_unithistory_changelist"))
    paths.append(reverse("admin:units_activeunit_cluster", args=[unit.pk]))
    faults = {}

    for path in paths:
        assert visit.open(path) == 200, path
        visit.page.wait_for_load_state("networkidle")
        visit.page.evaluate(AXE)
        if found := visit.page.evaluate(FIND_FAULTS):
            faults[path] = found

    assert faults == {}
    assert visit.complaints == []


def test_live_data_are_loaded_after_the_page_and_can_be_refreshed(
    visit: Visit, cluster: FakeCluster, operator: User, password: str
) -> None:
    unit = unit_row()
    cluster.fail("get", None, ClusterUnavailable(UNAVAILABLE))
    visit.log_in("operator", password)

    visit.open(reverse("admin:units_activeunit_change", args=[unit.pk]))

    part = visit.page.locator("#cluster")
    expect(part).to_contain_text(UNAVAILABLE)
    part.get_by_text("Refresh").click()
    expect(part).not_to_contain_text(UNAVAILABLE)
    expect(part).to_contain_text("Owned objects")
    assert visit.page.url.endswith("/change/")
    assert visit.complaints == []


def test_a_command_is_copied(
    visit: Visit, cluster: FakeCluster, operator: User, password: str
) -> None:
    unit = unit_row(name="trainer")
    visit.log_in("operator", password)
    visit.page.context.grant_permissions(["clipboard-read", "clipboard-write"])

    visit.open(reverse("admin:units_activeunit_change", args=[unit.pk]))
    visit.page.get_by_label("Copy Port-forward").click()

    expect(visit.page.get_by_label("Copy Port-forward")).to_have_text("Copied")
    command = f"kubectl -n {unit.namespace} port-forward service/unit-trainer 8080:8080"
    assert visit.page.evaluate("navigator.clipboard.readText()") == command


def test_without_scripts_a_link_leads_to_live_data(
    browser: Browser,
    live_server: LiveServer,
    cluster: FakeCluster,
    rows: Rows,
    operator: User,
    password: str,
) -> None:
    pool = rows.pool(PoolPhase.FAILED)
    context = browser.new_context(java_script_enabled=False)
    seen = Visit(context.new_page(), live_server.url)
    seen.log_in("operator", password)

    seen.open(reverse("admin:inventory_stockpool_change", args=[pool.pk]))
    expect(seen.page.get_by_text("Copy", exact=True).first).to_be_hidden()
    seen.page.locator("#cluster a").click()

    expect(seen.page.locator("main")).to_contain_text("Owned objects")
    context.close()
