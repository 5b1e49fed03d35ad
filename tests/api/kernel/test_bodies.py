"""Invalid request bodies are rejected with 400, 413 or 415 and a message, never with a 5xx."""

import gzip
import json
from typing import Any

import pytest
from django.test import Client

from gpuplatform.api.parsers import MAX_BODY_BYTES

VALID = b'{"operationID":"op-1","specName":"g1.1","replicas":1}'


def post(api: Client, body: bytes, content_type: str = "application/json", **extra: Any) -> Any:
    response = api.generic("POST", "/api/v1/things", body, content_type, **extra)
    return response.status_code, json.loads(response.content)


def test_a_valid_body_reaches_the_view_as_its_model(api: Client) -> None:
    assert post(api, VALID) == (202, {"data": {"name": "none", "operationID": "op-1"}})


@pytest.mark.parametrize(
    "content_type", ["application/json; charset=utf-8", 'application/json;charset="UTF-8"']
)
def test_utf8_may_be_declared(api: Client, content_type: str) -> None:
    assert post(api, VALID, content_type)[0] == 202


@pytest.mark.parametrize(
    "content_type",
    [
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json; charset=utf-16",
        "application/json; charset=latin-1",
        "application/merge-patch+json",
        "x" * 500,
    ],
)
def test_another_type_is_a_415(api: Client, content_type: str) -> None:
    status, reply = post(api, VALID, content_type)

    assert (status, reply["error"]["code"]) == (415, "unsupported_media_type")


def test_a_compressed_body_is_a_415(api: Client) -> None:
    status, reply = post(api, gzip.compress(VALID), HTTP_CONTENT_ENCODING="gzip")

    assert (status, reply["error"]["code"]) == (415, "unsupported_media_type")


def test_a_body_past_one_mebibyte_is_a_413(api: Client) -> None:
    status, reply = post(api, b" " * (MAX_BODY_BYTES + 1))

    assert (status, reply["error"]["code"]) == (413, "too_large")


@pytest.mark.parametrize("size", [MAX_BODY_BYTES - 1, MAX_BODY_BYTES])
def test_a_body_of_one_mebibyte_is_read(api: Client, size: int) -> None:
    assert post(api, VALID + b" " * (size - len(VALID)))[0] == 202


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", None),
        (b"[]", ""),
        (b"null", ""),
        (b'"x"', ""),
        (b"\xef\xbb\xbf" + VALID, None),
        (VALID + b"x", None),
        (VALID.decode().encode("utf-16"), None),
        (b"[" * 100_000, None),
        (VALID[:-1] + b',"gpu":1,"gpu":8}', "gpu"),
        (VALID[:-1] + b',"gpu":"1"}', "gpu"),
        (VALID[:-1] + b',"gpu":1.0}', "gpu"),
        (VALID[:-1] + b',"gpu":true}', "gpu"),
        (VALID[:-1] + b',"gpu":null}', "gpu"),
        (VALID[:-1] + b',"gpu":1e400}', "gpu"),
        (VALID[:-1] + b',"gpu":' + b"9" * 5000 + b"}", "gpu"),
        (VALID[:-1] + b',"gpu":NaN}', "gpu"),
        (VALID[:-1] + b',"gpuu":3}', "gpuu"),
        (VALID[:-1] + b',"name":"a\\u0000"}', "name"),
        (VALID[:-1] + b',"name":"\\ud800"}', "name"),
        (VALID[:-1] + b',"\\ud800":1}', ""),
        (VALID[:-1] + b',"template":{"args":["\\udfff"]}}', "template.args[0]"),
        (VALID[:-1] + b',"template":{"ports":[{"name":"a","port":0}]}}', "template.ports[0].port"),
    ],
)
def test_a_bad_body_is_a_400_with_the_field(api: Client, body: bytes, field: str | None) -> None:
    status, reply = post(api, body)

    assert (status, reply["error"]["code"]) == (400, "invalid_request")
    assert [one["field"] for one in reply["error"]["details"]] == (
        [] if field is None else [field]
    )


def test_a_write_rejects_an_unknown_parameter(api: Client) -> None:
    response = api.generic("POST", "/api/v1/things?dryRun=1", VALID, "application/json")

    assert response.status_code == 400
    assert json.loads(response.content)["error"]["details"][0]["field"] == "dryRun"
