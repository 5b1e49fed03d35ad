"""Checks that responses of the API are declared in the OpenAPI document."""

import json
import re
from functools import cache
from typing import Any, Final

from jsonschema import FormatChecker
from jsonschema.validators import Draft202012Validator

from gpuplatform.api.document import openapi_document
from gpuplatform.api.schema import api_alias

METHOD_NOT_ALLOWED: Final = 405
"""The response of every path to undeclared methods."""


def check_reply(response: Any) -> None:
    """Fail unless the document declares the status, the headers and the body of the response."""
    match = getattr(response, "resolver_match", None)
    if match is None or response.status_code == METHOD_NOT_ALLOWED:
        return
    path = "/" + re.sub(r"<\w+:(\w+)>", lambda found: f"{{{api_alias(found[1])}}}", match.route)
    method = response.request["REQUEST_METHOD"].lower()
    operation = _document()["paths"].get(path, {}).get(method)
    if operation is None:
        return
    place = f"{method} {path} {response.status_code}"
    declared = operation["responses"].get(str(response.status_code))
    assert declared is not None, f"{place} is not in the OpenAPI document"
    declared = _resolved(declared)
    for name in ("Location", "ETag", "Retry-After", "Idempotent-Replayed"):
        assert name not in response.headers or name in declared["headers"], f"{place}: {name}"
    content = declared["content"].get("application/json")
    if content is not None:
        _check_body(place, content["schema"], json.loads(response.content))


def _check_body(place: str, schema: dict[str, Any], body: Any) -> None:
    validator = _validator(json.dumps(schema))
    faults = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(body)]
    assert faults == [], f"{place}: {faults}"


@cache
def _validator(schema: str) -> Draft202012Validator:
    whole = {**json.loads(schema), "components": _document()["components"]}
    return Draft202012Validator(whole, format_checker=FormatChecker())


@cache
def _document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(openapi_document().content)
    return found


def _resolved(value: dict[str, Any]) -> dict[str, Any]:
    """Return the target of a reference in the document."""
    found: Any = value
    while "$ref" in found:
        steps = found["$ref"].removeprefix("#/").split("/")
        found = _document()
        for step in steps:
            found = found[step]
    return dict(found)
