"""Errors in the OpenAPI document: each code has one example, each set of codes one response."""

from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final

from pydantic import Field

from gpuplatform import errors
from gpuplatform.api.schema import Reply
from gpuplatform.errors import ClusterError, PlatformError

_REFERENCE: Final = "#/components"
_EXAMPLE_TRACE_ID: Final = "0f6c1d2e3b4a59687766554433221100"


def http_errors() -> dict[str, type[PlatformError]]:
    """Return the errors that the API replies with, by code."""
    found: dict[str, type[PlatformError]] = {}
    for kind in _with_subclasses(PlatformError):
        if not issubclass(kind, ClusterError):
            found.setdefault(kind.code, kind)
    return dict(sorted(found.items()))


def _with_subclasses(kind: type[PlatformError]) -> Iterable[type[PlatformError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _with_subclasses(child)


class ErrorDetail(Reply):
    """One fault of a request."""

    field: str = Field(description="JSON path of the field.", examples=["template.ports[1].name"])
    message: str = Field(description="What is wrong with it.", examples=["Is required."])


class ErrorBody(Reply):
    """An error: a code for programs, a sentence for people."""

    code: str = Field(
        description="Stable code for programs.",
        json_schema_extra={"enum": list(http_errors())},
    )
    message: str = Field(
        description="What happened and what to do.", examples=["replicas: Must be 0 or more."]
    )
    details: list[ErrorDetail] = Field(
        description="Every fault of an invalid request; empty for other errors.", examples=[[]]
    )
    trace_id: str = Field(
        description="Identifies the HTTP request in the platform's log; equals the header"
        " `X-Request-ID`.",
        examples=[_EXAMPLE_TRACE_ID],
    )


class ErrorReply(Reply):
    """The body of every error."""

    error: ErrorBody


def usual_errors(method: str, *, has_body: bool, is_public: bool) -> set[type[PlatformError]]:
    """Return the errors that an endpoint has because of its method and its body.

    405 is left out: each path replies with it to every method that it does not list.
    """
    found: set[type[PlatformError]] = {
        errors.RequestError,
        errors.PlatformError,
        errors.DatabaseUnavailable,
    }
    if not is_public:
        found |= {errors.Unauthenticated, errors.NotAllowed}
    if has_body:
        found |= {errors.TooLarge, errors.UnsupportedMediaType}
    if method != "get":
        found |= {errors.OperationConflict, errors.OperatorUnavailable, errors.RecoveryNeeded}
    return found


def error_responses(codes: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the `responses` of an operation with these errors: references, by status."""
    return {
        str(status): {"$ref": f"{_REFERENCE}/responses/{_response_name(group)}"}
        for status, group in _by_status(codes).items()
    }


def error_components(sets: Iterable[Iterable[str]]) -> dict[str, dict[str, Any]]:
    """Return the components that the operations with these sets of errors refer to."""
    responses = {
        _response_name(group): _response(group)
        for codes in sets
        for group in _by_status(codes).values()
    }
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
    return "Or".join("".join(part.capitalize() for part in code.split("_")) for code in codes)


def _response(codes: tuple[str, ...]) -> dict[str, Any]:
    names = ["X-Request-ID"]
    if any(_has_retry_after(code) for code in codes):
        names.append("Retry-After")
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
    # A name is in use for a known time while the object that has it is being deleted.
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
