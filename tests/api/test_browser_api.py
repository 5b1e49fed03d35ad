"""The API in a real browser: the token box, links, forms, and the operationIDs of both pages."""

import json

import pytest
from django.urls import reverse
from playwright.sync_api import expect
from pytest_django import Settings

from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.models import Scope
from gpuplatform.tenancy.selectors import tenant_by_name
from gpuplatform.tenancy.services import token_create
from inventory.models import StockPool
from tests.admin.test_browser import IN_A_BROWSER, SLOW_MS, Visit, browser, visit
from tests.factories.inventory import accept_create
from tests.factories.unit_rows import catalogued
from tests.fakes.cluster import FakeCluster
from tests.fakes.installed import cluster

__all__ = ["browser", "cluster", "visit"]
pytestmark = IN_A_BROWSER


def test_with_a_token_pages_links_and_forms_work_in_production(
    visit: Visit, cluster: FakeCluster, settings: Settings
) -> None:
    settings.GPUPLATFORM_DEV = False
    _, secret = token_create(tenant=tenant_by_name(), name="ci", scopes=(Scope.OPERATOR,))
    accept_create(name="other", operationID="other")
    page = visit.page
    visit.open(reverse("api-root"))
    page.click("a[href='/api/v1/operator/stockpools']")
    expect(page.locator("pre")).to_contain_text("unauthenticated")
    assert page.locator("form[data-method=POST]").count() == 0

    page.fill("#api-token", secret)
    page.click("text=Use token")
    expect(page.locator("pre")).to_contain_text('"name": "other"')
    page.click("form[data-method=POST] input[type=submit]")
    expect(page.locator("pre")).to_contain_text("stockpool.create")
    page.click(".object-tools a")
    page.click(".counts >> text=h100")
    expect(page.locator("h1")).to_have_text("Read a stock pool")
    page.click("form[data-method=DELETE] input[type=submit]")
    expect(page.locator("pre")).to_contain_text("stockpool.delete")

    kinds = Operation.objects.exclude(operation_id="other").values_list("kind", flat=True)
    assert sorted(kinds) == ["stockpool.create", "stockpool.delete"]
    assert [text for text in visit.complaints if "401" not in text] == []


def test_swagger_proposes_valid_requests_with_new_operation_ids(
    visit: Visit, cluster: FakeCluster
) -> None:
    catalogued("h100-1g")
    page = visit.page
    page.set_default_timeout(SLOW_MS)
    block = "#operations-Stock_pools-createStockPool"
    sent = []
    for _ in range(2):
        visit.open(reverse("swagger"))
        page.click(f"{block} .opblock-summary-control")
        page.click(f"{block} .try-out__btn")
        sent.append(json.loads(page.input_value(f"{block} textarea")))
    page.click(f"{block} .execute")

    expect(page.locator(f"{block} .live-responses-table")).to_contain_text("202")
    assert StockPool.objects.get().name == "h100"
    assert sent[0]["operationID"] != sent[1]["operationID"]
    assert Operation.objects.get().operation_id == sent[1]["operationID"]


def test_swagger_shows_the_example_of_a_schema_in_lists(visit: Visit) -> None:
    page = visit.page
    page.set_default_timeout(SLOW_MS)
    block = "#operations-Stock_pools-listStockPools"
    visit.open(reverse("swagger"))
    page.click(f"{block} .opblock-summary-control")

    row = page.locator(f"{block} .responses-table tr[data-code='200']")
    shown = json.loads(row.locator(".highlight-code code").first.inner_text())
    assert shown["data"][0]["name"] == "h100"
    assert shown["page"] == {"next": None}


@pytest.mark.parametrize("path", ["api-root", "stockpools", "gpu-specs", "jobs"])
def test_pages_keep_the_content_policy(visit: Visit, cluster: FakeCluster, path: str) -> None:
    accept_create(name="a", operationID="a")

    assert visit.open(reverse(path)) == 200
    assert visit.complaints == []
