"""Errors in the OpenAPI document: an example for each code, a response for each set of codes."""

from collections.abc import Iterable
from http import HTTPStatus
from itertools import groupby
from typing import Any, Final

from pydantic import ConfigDict, Field

from gpuplatform import errors
from gpuplatform.api.schema import Reply
from gpuplatform.errors import InvariantBroken, PlatformError, http_errors

_REFERENCE: Final = "#/components"
_EXAMPLE_TRACE_ID: Final = "0f6c1d2e3b4a59687766554433221100"


class ErrorDetail(Reply):
    """One error in a request."""

    field: str = Field(
        description="JSON path of the invalid field.", examples=["template.ports[1].name"]
    )
    message: str = Field(description="Description of the error.", examples=["Is required."])


class QuotaValues(Reply):
    """A limit of the tenant that does not allow the request."""

    resource: str = Field(description="Resource.")
    used: int = Field(description="Number in use.")
    releasing: int = Field(description="Part of `used` that is being released.")
    allowed: int = Field(description="Limit.")
    requested: int = Field(description="Number that is requested.")


def _some_are_optional(schema: dict[str, Any]) -> None:
    schema["required"].remove("waiting")
    schema["required"].remove("quota")


class ErrorBody(Reply):
    """An error with a machine-readable code and a human-readable message."""

    model_config = ConfigDict(json_schema_extra=_some_are_optional)

    code: str = Field(
        description="Stable, machine-readable code of the error.",
        json_schema_extra={"enum": list(http_errors())},
    )
    message: str = Field(
        description="Human-readable description of the error and of the next step.",
        examples=["replicas: Must be 0 or more."],
    )
    details: list[ErrorDetail] = Field(
        description="Invalid fields of the request. Empty if the error is not about a field.",
        examples=[[]],
    )
    waiting: int = Field(
        default=0,
        description="Number of waiting requests, with `insufficient_capacity` and `queue_full`.",
    )
    quota: list[QuotaValues] = Field(
        default_factory=list,
        description="Limits of the tenant; only with `quota_exceeded`.",
        examples=[[]],
    )
    trace_id: str = Field(
        description="ID of the HTTP request in the platform's log. It equals the response header"
        " `X-Request-ID`.",
        examples=[_EXAMPLE_TRACE_ID],
    )


class ErrorReply(Reply):
    """The response body of every error."""

    error: ErrorBody


def usual_errors(method: str, *, has_body: bool) -> set[type[PlatformError]]:
    """Return the errors that every endpoint with this HTTP method can return.

    405 is omitted: every path returns it for the methods that it does not support. 401 and 403 are
    omitted: `openapi.complete` adds them to the operations that require a token.
    """
    found: set[type[PlatformError]] = {
        errors.RequestError,
        errors.RateLimited,
        errors.PlatformError,
        errors.DatabaseUnavailable,
    }
    if has_body:
        found |= {errors.TooLarge, errors.UnsupportedMediaType}
    if method != "get":
        found |= {errors.OperationConflict, errors.OperatorUnavailable, errors.RecoveryNeeded}
        found.add(errors.TenantSuspended)
    return found


def error_responses(codes: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return references to the error responses of an operation, by HTTP status."""
    return {
        str(status): {"$ref": f"{_REFERENCE}/responses/{_response_name(group)}"}
        for status, group in _by_status(codes).items()
    }


def error_components(sets: Iterable[Iterable[str]]) -> dict[str, dict[str, Any]]:
    """Return the error components for operations with these sets of error codes."""
    groups = {group for codes in sets for group in _by_status(codes).values()}
    responses = {_response_name(group): _response(group) for group in groups}
    if len(responses) < len(groups):
        msg = "two sets of error codes have the same initials"
        raise InvariantBroken(msg)
    return {
        "responses": dict(sorted(responses.items())),
        "examples": {code: _example(kind) for code, kind in http_errors().items()},
    }


def _by_status(codes: Iterable[str]) -> dict[int, tuple[str, ...]]:
    kinds = sorted(
        (http_errors()[code] for code in set(codes)),
        key=lambda kind: (kind.http_status, kind.code),
    )
    return {
        status: tuple(kind.code for kind in group)
        for status, group in groupby(kinds, key=lambda kind: kind.http_status)
    }


def _response_name(codes: tuple[str, ...]) -> str:
    """Return the name of the response with these codes: the code, or the status and initials.

    The document refers to each response many times, so that the name is short.
    """
    if len(codes) == 1:
        return _camel_case(codes[0].split("_"))
    phrase = HTTPStatus(http_errors()[codes[0]].http_status).phrase
    initials = ("".join(part[0] for part in code.split("_")) for code in codes)
    return _camel_case([*phrase.split(), *initials])


def _camel_case(words: Iterable[str]) -> str:
    return "".join(word.capitalize() for word in words)


def _response(codes: tuple[str, ...]) -> dict[str, Any]:
    names = ["X-Request-ID"]
    if any(_has_retry_after(code) for code in codes):
        names.append("Retry-After")
    if errors.RateLimited.code in codes:
        names += ["RateLimit", "RateLimit-Policy"]
    if "unauthenticated" in codes:
        names.append("WWW-Authenticate")
    examples = {code: {"$ref": f"{_REFERENCE}/examples/{code}"} for code in codes}
    schema = {"$ref": f"{_REFERENCE}/schemas/ErrorReply"}
    return {
        "description": ", ".join(f"`{code}`" for code in codes),
        "headers": {name: {"$ref": f"{_REFERENCE}/headers/{name}"} for name in names},
        "content": {"application/json": {"schema": schema, "examples": examples}},
    }


def _has_retry_after(code: str) -> bool:
    kind = http_errors()[code]
    # While the object with the name is being deleted, the conflict ends after a known time.
    return kind is errors.NameConflict or kind.example().retry_after is not None


def _example(kind: type[PlatformError]) -> dict[str, Any]:
    error = kind.example()
    body = {
        "code": error.code,
        "message": error.message,
        "details": [{"field": one.field, "message": one.message} for one in error.details],
        "traceID": _EXAMPLE_TRACE_ID,
    }
    return {"summary": kind.next_step, "value": {"error": body}}
