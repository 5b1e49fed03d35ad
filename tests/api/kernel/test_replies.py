"""Responses: the envelope, pagination, HTML for browsers, and the OpenAPI document."""

import json
import re
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from gpuplatform.api.pagination import encode_cursor

Json = dict[str, Any]


def test_a_list_has_its_page(api: Client) -> None:
    reply = json.loads(api.get("/api/v1/things?limit=2").content)

    assert reply == {
        "data": [{"name": "0", "operationID": None}, {"name": "1", "operationID": None}],
        "page": {"next": encode_cursor(1)},
    }


@pytest.mark.parametrize("accept", ["", "*/*", "application/json", "image/png", "x" * 9000])
def test_a_client_other_than_a_browser_gets_json(api: Client, accept: str) -> None:
    response = api.get("/api/v1/things", headers={"accept": accept})

    assert (response.status_code, response["Content-Type"]) == (200, "application/json")


def test_a_browser_gets_a_form_with_a_valid_body(api: Client) -> None:
    page = api.get("/api/v1/things", headers={"accept": "text/html"}).content.decode()

    assert re.search("&quot;operationID&quot;: &quot;create-thing-[0-9a-f]{8}&quot;", page)
    assert "data-override" in page


def test_head_and_options_are_supported(api: Client) -> None:
    assert api.head("/api/v1/things").status_code == 200
    assert api.options("/api/v1/things").status_code == 200


@pytest.fixture
def document(api: Client) -> Json:
    found: Json = json.loads(api.get("/swagger/doc.json").content)
    return found


def test_the_document_is_openapi_31_and_has_both_addresses(api: Client, document: Json) -> None:
    assert document["openapi"].startswith("3.1")
    assert json.loads(api.get("/api/v1/schema").content) == document


def test_the_document_has_no_warning(tmp_path: Any) -> None:
    call_command(
        "spectacular", "--validate", "--fail-on-warn", "--file", str(tmp_path / "schema.yaml")
    )


def test_bodies_and_replies_have_examples(document: Json) -> None:
    create = document["paths"]["/api/v1/things"]["post"]

    body = create["requestBody"]["content"]["application/json"]
    assert body["example"]["operationID"] == "create-thing-1"
    for status in ("200", "202"):
        response = create["responses"][status]
        if reference := response.get("$ref", "").rpartition("/")[2]:
            response = document["components"]["responses"][reference]
        assert response["content"]["application/json"]["example"]
        assert response["headers"]["Location"]


def test_errors_of_an_endpoint_are_those_of_its_declaration_and_its_method(document: Json) -> None:
    listing, create = (document["paths"]["/api/v1/things"][method] for method in ("get", "post"))

    assert set(listing["responses"]) == {"200", "400", "401", "403", "429", "500", "503"}
    assert set(create["responses"]) - set(listing["responses"]) == {"202", "409", "413", "415"}
    reference = create["responses"]["409"]["$ref"].rpartition("/")[2]
    conflict = document["components"]["responses"][reference]
    assert set(conflict["content"]["application/json"]["examples"]) == {
        "name_conflict",
        "operation_conflict",
    }


def test_swagger_requests_nothing_from_other_hosts(api: Client) -> None:
    page = api.get("/swagger/index.html").content.decode()
    script = api.get("/swagger/index.html?script=").content.decode()

    assert "://" not in page
    assert "/swagger/doc.json" in script
    assert api.get("/swagger/").status_code == 302


def test_swagger_has_no_style_in_the_page_and_leads_to_the_admin(api: Client) -> None:
    page = api.get("/swagger/index.html").content.decode()

    assert "<style" not in page
    assert " style=" not in page
    assert 'href="/admin/"' in page
