"""Lists contain no templates and at most 2 MiB; the single resources are complete."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from gpuplatform.api.pagination import MAX_PAGE_BYTES
from gpuplatform.operations.models import Operation
from tests.factories.inventory import pool_row
from tests.factories.serverless import function_row
from tests.factories.unit_rows import stock_row, unit_row
from tests.fakes.api import JOBS, POOLS, STOCK, UNITS, Api

FUNCTIONS = "/api/v1/serverless/functions"
PORTS = [{"name": "web", "port": 8080}]
TEMPLATE: dict[str, Any] = {"envs": [{"name": "A", "value": "v" * 1000}], "ports": PORTS}
SPEC: dict[str, Any] = {"specName": "g1.1", "gpu": 1, "template": TEMPLATE}

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("cluster")]


def rows() -> dict[str, str]:
    """Create a row with a template for each list; return the paths of the resources by list."""
    unit, pool, function = (
        unit_row(spec=SPEC),
        pool_row(spec=SPEC),
        function_row(template=TEMPLATE),
    )
    return {
        UNITS: f"{UNITS}/{unit.name}",
        POOLS: f"{POOLS}/{pool.name}",
        FUNCTIONS: f"{FUNCTIONS}/{function.request_id}",
    }


@pytest.mark.parametrize("path", [UNITS, POOLS, FUNCTIONS])
def test_a_list_omits_the_template_and_is_otherwise_equal(api: Api, path: str) -> None:
    single = api.get(rows()[path]).data

    [listed] = api.get(path).data

    assert single["template"] == TEMPLATE
    assert listed == {key: value for key, value in single.items() if key != "template"}


@pytest.mark.parametrize("path", [UNITS, POOLS, FUNCTIONS, STOCK, JOBS])
def test_a_list_reads_no_template_and_no_payload(api: Api, path: str) -> None:
    rows()
    stock_row(spec=SPEC)
    Operation.objects.update(payload={"template": TEMPLATE})

    with CaptureQueriesContext(connection) as queries:
        answer = api.get(path)

    assert answer.data
    assert "vvvv" not in str(answer.json)
    for query in queries.captured_queries:
        assert '."payload",' not in query["sql"]
        assert '."payload" FROM' not in query["sql"]


@pytest.mark.parametrize(
    "spec",
    [{}, {"template": None}, {"template": "text"}, {"template": {"ports": "text"}}, [], "text"],
)
def test_a_spec_that_another_client_wrote_is_listed(api: Api, spec: Any) -> None:
    row = unit_row(spec=spec)

    assert [one["name"] for one in api.get(UNITS).data] == [row.name]


def test_a_large_page_ends_early_and_no_row_is_lost(api: Api) -> None:
    names = [unit_row(spec={**SPEC, "image": "x" * 100_000}).name for _ in range(20)]
    size = len(str(api.get(f"{UNITS}/{names[0]}").json))
    assert 20 * size > MAX_PAGE_BYTES

    found, cursor, pages = [], None, 0
    while pages == 0 or cursor:
        query = {"limit": "200", **({"cursor": cursor} if cursor else {})}
        answer = api.get(UNITS, **query)
        assert len(str(answer.json)) < 2 * 1024 * 1024
        found += [one["name"] for one in answer.data]
        cursor, pages = answer.json["page"]["next"], pages + 1

    assert found == names[::-1]
    assert pages > 1


def test_a_row_that_is_larger_than_a_page_is_a_page(api: Api) -> None:
    unit_row(spec={**SPEC, "image": "x" * MAX_PAGE_BYTES})
    small = unit_row()

    first = api.get(UNITS)
    second = api.get(UNITS, cursor=first.json["page"]["next"])

    assert [one["name"] for one in first.data] == [small.name]
    assert len(second.data) == 1
