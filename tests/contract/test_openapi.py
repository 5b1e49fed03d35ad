"""The OpenAPI document: its examples follow its schemas, and it is small and complete."""

import gzip
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml
from django.test import Client
from jsonschema import FormatChecker
from jsonschema.validators import Draft202012Validator

from gpuplatform import __version__
from gpuplatform.api import document as served
from gpuplatform.errors import http_errors
from gpuplatform.settings.environment import PROJECT_ROOT as ROOT

Json = dict[str, Any]

ADDRESS: Final = "/swagger/doc.json"
MAX_BYTES: Final = 300_000
MAX_BYTES_OF_OPERATION: Final = 3_450
"""The mean size of an operation in the document, with its part of the schemas."""
METHODS: Final = ("get", "put", "post", "delete", "patch")
JSON_SCHEMA_WORDS: Final = frozenset(Draft202012Validator.META_SCHEMA["properties"]) | {
    *("type", "properties", "additionalProperties", "items", "prefixItems", "required", "enum"),
    *("const", "anyOf", "oneOf", "allOf", "not", "pattern", "format", "minLength", "maxLength"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems"),
    *("maxItems", "uniqueItems", "minProperties", "maxProperties", "propertyNames", "default"),
    *("description", "examples", "title", "$ref", "$defs"),
}


@pytest.fixture(scope="module")
def document() -> Json:
    found: Json = json.loads(Client().get(ADDRESS).content)
    return found


def operations(document: Json) -> Iterator[tuple[str, Json]]:
    for path, methods in document["paths"].items():
        for method in METHODS:
            if method in methods:
                yield f"{method} {path}", methods[method]


def contents(document: Json) -> Iterator[tuple[str, Json]]:
    """Yield every body of a request or a response, with its path."""
    for name, operation in operations(document):
        for one in operation.get("requestBody", {}).get("content", {}).values():
            yield f"{name} request", one
        for status, response in operation["responses"].items():
            for one in response.get("content", {}).values():
                yield f"{name} {status}", one
    for name, response in document["components"]["responses"].items():
        for one in response["content"].values():
            yield name, one


def example_values(document: Json, content: Json) -> list[Any]:
    """Return the values of the examples of a body, or those that its schema results in."""
    several = content.get("examples", {}).values()
    values = [resolved(document, one)["value"] for one in several]
    if "example" in content:
        values.append(content["example"])
    return values or schema_examples(document, content["schema"])


def schema_examples(document: Json, schema: Json) -> list[Any]:
    """Return the examples of a schema; of one without, an object of the examples of its fields."""
    found = resolved(document, schema)
    if "examples" in found:
        return list(found["examples"])
    if found.get("type") == "array":
        items = schema_examples(document, found["items"])
        return [items] if items else []
    fields = {
        name: schema_examples(document, field)
        for name, field in found.get("properties", {}).items()
    }
    is_complete = fields.keys() >= {*found.get("required", ())} and all(fields.values())
    return [{name: one[0] for name, one in fields.items()}] if fields and is_complete else []


def resolved(document: Json, value: Json) -> Json:
    """Return the target of a reference within the document."""
    while "$ref" in value:
        found: Any = document
        for step in value["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        value = found
    return value


def schemas(document: Json) -> Iterator[Json]:
    """Yield every schema of the document, nested ones too."""
    for schema in (*document["components"]["schemas"].values(), *at_key("schema", document)):
        yield from with_nested(schema)


def at_key(key: str, value: Any) -> Iterator[Json]:
    children = value.values() if isinstance(value, dict) else value
    if isinstance(value, dict) and key in value:
        yield value[key]
    for child in children if isinstance(value, dict | list) else ():
        yield from at_key(key, child)


def with_nested(schema: Json) -> Iterator[Json]:
    yield schema
    nested = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    nested += [schema[key] for key in ("items", "additionalProperties") if key in schema]
    for one in nested:
        if isinstance(one, dict):
            yield from with_nested(one)


def test_every_example_is_valid_against_its_schema(document: Json) -> None:
    faults = []
    count = 0
    for place, content in contents(document):
        schema = {**content["schema"], "components": document["components"]}
        validator = Draft202012Validator(schema, format_checker=FormatChecker())
        for value in example_values(document, content):
            faults += [
                f"{place}: {error.json_path}: {error.message}"
                for error in validator.iter_errors(value)
            ]
            count += 1

    assert faults == []
    assert count > 80


def test_every_json_body_has_an_example(document: Json) -> None:
    assert [place for place, one in contents(document) if not example_values(document, one)] == [
        "get /api/v1/gpu-units/{name}/logs 200",
        "get /api/v1/operator/audit/entries 200",
        "get /api/v1/operator/audit/entries 200",
        "get /api/v1/operator/usage/records 200",
        "get /api/v1/operator/usage/records 200",
        "get /api/v1/serverless/invocations/{invocationID}/result 200",
        "get /api/v1/usage/records 200",
        "get /api/v1/usage/records 200",
    ]


def test_examples_of_fields_and_parameters_are_valid(document: Json) -> None:
    faults = []
    for schema in schemas(document):
        whole = {**schema, "components": document["components"]}
        validator = Draft202012Validator(whole, format_checker=FormatChecker())
        faults += [
            f"{example!r}: {error.message}"
            for example in schema.get("examples", ())
            for error in validator.iter_errors(example)
        ]

    assert faults == []


def test_schemas_use_only_keywords_of_json_schema(document: Json) -> None:
    found = (key for schema in schemas(document) for key in schema)
    unknown = Counter(key for key in found if key not in JSON_SCHEMA_WORDS)

    assert unknown == {}
    assert [schema for schema in schemas(document) if "title" in schema] == []


def test_the_document_is_valid_openapi_and_small(document: Json) -> None:
    response = Client().get(ADDRESS)

    assert document["openapi"] == "3.1.0"
    assert document["info"]["version"] == __version__
    assert document["info"]["license"]["identifier"] == "Apache-2.0"
    assert document["servers"]
    most = min(MAX_BYTES, MAX_BYTES_OF_OPERATION * sum(1 for _ in operations(document)))
    assert len(response.content) <= most
    assert (ROOT / "docs" / "openapi.yaml").stat().st_size <= most


def test_the_written_document_equals_the_served_one(document: Json) -> None:
    text = (ROOT / "docs" / "openapi.yaml").read_text()

    assert yaml.load(text, yaml.CSafeLoader) == document


def test_every_tag_is_described_and_used(document: Json) -> None:
    used = {tag for _, operation in operations(document) for tag in operation["tags"]}

    assert {tag["name"] for tag in document["tags"] if tag["description"]} == used


def test_every_error_code_has_one_example_and_belongs_to_the_enum(document: Json) -> None:
    components = document["components"]

    assert list(components["examples"]) == list(http_errors())
    assert components["schemas"]["ErrorBody"]["properties"]["code"]["enum"] == list(http_errors())


def test_operations_refer_to_errors_and_headers(document: Json) -> None:
    for place, operation in operations(document):
        for status, response in operation["responses"].items():
            found = resolved(document, response)
            is_shared = (
                int(status) >= 400 or status == "202" or "Idempotent-Replayed" in found["headers"]
            )
            assert "$ref" in response or not is_shared, place
            assert "X-Request-ID" in found["headers"], place
            assert status != "405", place
    responses = document["components"]["responses"]
    for name, response in responses.items():
        codes = set(response["content"]["application/json"].get("examples", ()))
        is_temporary = bool(
            codes & {"database_unavailable", "throttled", "rate_limited", "name_conflict"}
        )
        may_wait = is_temporary or name == "InvocationAccepted"
        assert ("Retry-After" in response["headers"]) == may_wait, name


def test_only_routes_without_a_token_say_so(document: Json) -> None:
    public = {place for place, operation in operations(document) if "security" in operation}

    assert document["security"] == [{"token": []}]
    assert public == {
        "get /api/v1/",
        "get /api/v1/health",
        "get /api/v1/serverless/invocations/{invocationID}/result",
    }
    for place, operation in operations(document):
        assert operation.get("security", []) == []
        assert (
            operation["x-permission"] == "public" if place in public else operation["x-permission"]
        )
        assert ("401" in operation["responses"]) == (place not in public), place


def test_every_operation_has_a_rate_and_only_two_are_throttled(document: Json) -> None:
    references = {
        place: one["responses"]["429"]["$ref"].rpartition("/")[2]
        for place, one in operations(document)
    }
    responses = document["components"]["responses"]

    for name in set(references.values()):
        assert {"Retry-After", "RateLimit", "RateLimit-Policy"} <= set(responses[name]["headers"])
        assert "rate_limited" in responses[name]["content"]["application/json"]["examples"]
    assert [place for place, name in references.items() if name != "RateLimited"] == [
        "get /api/v1/gpu-units/{name}/logs",
        "post /api/v1/serverless/invocations",
    ]


def test_path_parameters_are_spelled_as_fields_are(document: Json) -> None:
    names = {name for path in document["paths"] for name in re.findall(r"{(.*?)}", path)}

    assert names == {
        *("name", "operationID", "requestID", "invocationID", "tenant", "member", "token")
    }
    for path, methods in document["paths"].items():
        for method in METHODS:
            parameters = [
                resolved(document, one) for one in methods.get(method, {}).get("parameters", ())
            ]
            declared = [one["name"] for one in parameters if one["in"] == "path"]
            assert method not in methods or sorted(declared) == sorted(
                re.findall(r"{(.*?)}", path)
            )


def test_no_two_examples_share_an_operation_id(document: Json) -> None:
    used = Counter(
        content["example"]["operationID"]
        for _, operation in operations(document)
        for content in operation.get("requestBody", {}).get("content", {}).values()
        if "operationID" in content["example"]
    )

    assert set(used.values()) == {1}


def test_bounds_of_parameters_are_documented(document: Json) -> None:
    listed = document["paths"]["/api/v1/operator/jobs"]["get"]["parameters"]
    parameters = [resolved(document, one) for one in listed]
    schemas_ = {one["name"]: one["schema"] for one in parameters}

    assert (schemas_["limit"]["minimum"], schemas_["limit"]["maximum"]) == (1, 200)
    assert schemas_["maxAgeSeconds"]["minimum"] == 1
    assert "unit.create" in schemas_["kind"]["items"]["enum"]


def test_concurrent_first_readers_all_get_the_document(monkeypatch: pytest.MonkeyPatch) -> None:
    served._generated.cache_clear()
    barrier, statuses = threading.Barrier(12), []

    def read() -> None:
        barrier.wait()
        statuses.append(Client().get("/api/v1/schema").status_code)

    readers = [threading.Thread(target=read) for _ in range(12)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()

    assert statuses == [200] * 12
    assert served._generated.cache_info().misses == 1


def test_the_document_is_compressed_and_revalidated() -> None:
    plain = Client().get(ADDRESS)
    compressed = Client().get(ADDRESS, headers={"accept-encoding": "gzip, br"})
    again = Client().get(ADDRESS, headers={"if-none-match": plain["ETag"]})

    assert "Content-Encoding" not in plain
    assert gzip.decompress(compressed.content) == plain.content
    assert len(compressed.content) < 50_000
    assert (again.status_code, again.content) == (304, b"")
