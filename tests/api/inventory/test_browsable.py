"""The API in a browser: titles of the documentation, links only where a value is an address."""

import pytest
from django.test import Client

from inventory.phases import PoolPhase
from tests.factories.admin_rows import Rows

HTML = {"accept": "text/html"}
POOLS = "/api/v1/operator/stockpools"

pytestmark = pytest.mark.django_db


def test_a_host_in_a_sentence_is_no_link_and_hostile_text_stays_text() -> None:
    message = 'Insufficient nvidia.com/gpu, see "https://evil.invalid/" <b>now</b>'
    Rows().pool(PoolPhase.FAILED, message=message)

    page = Client().get(POOLS, headers=HTML).content.decode()

    assert "Insufficient nvidia.com/gpu" in page
    assert 'href="http' not in page
    assert "<b>now" not in page


def test_an_address_of_the_api_leads_there() -> None:
    job = Rows().operation()

    page = Client().get(f"/api/v1/operator/jobs/{job.operation_id}", headers=HTML).content.decode()

    assert '&quot;href&quot;: &quot;<a href="/api/v1/' in page


def test_titles_and_breadcrumbs_are_those_of_the_documentation() -> None:
    pool = Rows().pool()

    page = Client().get(f"{POOLS}/{pool.name}", headers=HTML).content.decode()

    assert "<h1>Read a stock pool</h1>" in page
    assert f'<a href="{POOLS}">List stock pools</a></nav>' in page
