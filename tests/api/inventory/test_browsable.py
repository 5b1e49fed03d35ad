"""Pages of the API for browsers: titles of the documentation, links, and forms."""

import re

import pytest
from django.test import Client

from inventory.phases import PoolPhase
from tests.factories.admin_rows import Rows
from tests.factories.unit_rows import unit_row
from tests.fakes.api import POOLS, UNITS

HTML = {"accept": "text/html"}

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("catalogue")]


def test_a_host_in_a_sentence_is_not_a_link_and_hostile_text_is_escaped() -> None:
    message = 'Insufficient nvidia.com/gpu, see "https://evil.invalid/" <b>now</b>'
    Rows().pool(PoolPhase.FAILED, message=message)

    page = Client().get(POOLS, headers=HTML).content.decode()

    assert "Insufficient nvidia.com/gpu" in page
    assert 'href="http' not in page
    assert "<b>now" not in page


def test_an_address_of_the_api_is_a_link() -> None:
    job = Rows().operation()

    page = Client().get(f"/api/v1/operator/jobs/{job.operation_id}", headers=HTML).content.decode()

    assert '&quot;href&quot;: &quot;<a href="/api/v1/' in page


def test_titles_and_breadcrumbs_are_those_of_the_documentation() -> None:
    pool = Rows().pool()

    page = Client().get(f"{POOLS}/{pool.name}", headers=HTML).content.decode()

    assert "<h1>Read a stock pool</h1>" in page
    assert f'<a href="{POOLS}">List stock pools</a></nav>' in page


def test_a_list_links_its_rows_and_its_next_page() -> None:
    rows = Rows()
    pools = [rows.pool(namespace="other") for _ in range(2)]

    page = Client().get(f"{POOLS}?limit=1&namespace=other", headers=HTML).content.decode()

    assert f'href="{POOLS}/{pools[1].name}?namespace=other"' in page
    assert re.search(
        f'href="{POOLS}[?]limit=1&amp;namespace=other&amp;cursor=[A-Za-z0-9_-]+"', page
    )


def test_an_object_links_the_routes_below_it() -> None:
    unit_row(name="a")

    page = Client().get(f"{UNITS}/a", headers=HTML).content.decode()

    for route in ("logs", "events", "history"):
        assert f'<a href="{UNITS}/a/{route}" rel="nofollow">{route}</a>' in page
    assert f"{UNITS}/a/stop" not in page


def test_a_deletion_has_a_form_with_a_new_operation_id() -> None:
    pool = Rows().pool()

    pages = [Client().get(f"{POOLS}/{pool.name}", headers=HTML).content.decode() for _ in range(2)]

    ids = [re.findall('data-query="operationID" value="([a-z0-9-]+)"', page) for page in pages]
    assert len(ids[0]) == len(ids[1]) == 1
    assert ids[0] != ids[1]
    assert 'data-query="namespace"' in pages[0]


def test_the_root_lists_every_list_of_the_api() -> None:
    links = Client().get("/api/v1/").json()["data"]["links"]
    paths = Client().get("/swagger/doc.json").json()["paths"]

    lists = {path for path, methods in paths.items() if "get" in methods and "{" not in path}
    assert lists - set(links.values()) == {"/api/v1/"}
    assert all(Client().get(address).status_code == 200 for address in links.values())
