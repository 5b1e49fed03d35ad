import json
from typing import Any

import pytest
import urllib3.exceptions as http
from urllib3.connectionpool import HTTPConnectionPool

from gpuplatform.errors import Retry
from gpuplatform.kube.errors import (
    ClusterConflict,
    ClusterError,
    ClusterForbidden,
    ClusterGone,
    ClusterRejected,
    ClusterUnavailable,
)
from gpuplatform.kube.responses import MESSAGE_LIMIT, error_for, no_response, parse_failure


def status(code: int, reason: str = "", message: str = "", **details: Any) -> bytes:
    document = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }
    return json.dumps(document).encode()


def error(code: int, body: bytes, headers: dict[str, str] | None = None) -> ClusterError:
    return error_for(parse_failure(code, headers or {}, body))


DUPLICATE_ENV = (
    "failed to create typed patch object (default/d; apps/v1, Kind=Deployment):"
    ' .spec.template.spec.containers[name="c"].env: duplicate entries for key [name="A"]'
)
UNKNOWN_FIELD = "failed to create typed patch object: .spec.foo: field not declared in schema"
TERMINATING = (
    'configmaps "y" is forbidden: unable to create new content in namespace tt because it is'
    " being terminated"
)

ANSWERS = [
    pytest.param(
        404,
        status(404, "NotFound", 'namespaces "x" not found', name="x", kind="namespaces"),
        ClusterRejected,
        "NotFound",
        id="the namespace of a new object is missing",
    ),
    pytest.param(
        404,
        b"404 page not found\n",
        ClusterUnavailable,
        "",
        id="the kind is not installed",
    ),
    pytest.param(
        404,
        status(404, "NotFound", "the server could not find the requested resource", name="x"),
        ClusterUnavailable,
        "NotFound",
        id="the kind is not installed, with a name in the details",
    ),
    pytest.param(
        409,
        status(409, "AlreadyExists", 'pods "x" already exists', name="x"),
        ClusterConflict,
        "AlreadyExists",
        id="the object exists",
    ),
    pytest.param(
        409,
        status(409, "Conflict", "the object has been modified", name="x"),
        ClusterConflict,
        "Conflict",
        id="the object was changed meanwhile",
    ),
    pytest.param(
        409,
        status(409, "Conflict", 'Apply failed with 1 conflict: conflict with "kubectl": .spec.a'),
        ClusterConflict,
        "Conflict",
        id="another manager owns the field",
    ),
    pytest.param(
        422,
        status(
            422,
            "Invalid",
            "",
            name="x",
            causes=[
                {"field": "metadata.uid", "message": 'Invalid value: "u": field is immutable'}
            ],
        ),
        ClusterConflict,
        "Invalid",
        id="the object of that name is another one",
    ),
    pytest.param(
        403,
        status(403, "Forbidden", TERMINATING, name="y"),
        ClusterForbidden,
        "Forbidden",
        id="the namespace is being terminated",
    ),
    pytest.param(
        403,
        status(403, "Forbidden", 'pods "x" is forbidden: exceeded quota: gpus', name="x"),
        ClusterForbidden,
        "Forbidden",
        id="the quota is used up",
    ),
    pytest.param(
        401,
        status(401, "Unauthorized", "Unauthorized"),
        ClusterForbidden,
        "Unauthorized",
        id="the token is not known",
    ),
    pytest.param(
        410,
        status(410, "Expired", "The provided continue parameter is too old"),
        ClusterGone,
        "Expired",
        id="the continue token is too old",
    ),
    pytest.param(
        400,
        status(400, "Expired", "too old resource version: 1 (500)"),
        ClusterGone,
        "Expired",
        id="the reason says expired whatever the status",
    ),
    pytest.param(410, b"", ClusterGone, "Expired", id="gone without a word"),
    pytest.param(
        400,
        status(400, "BadRequest", "json: cannot unmarshal string into int32"),
        ClusterRejected,
        "BadRequest",
        id="the body has a wrong type",
    ),
    pytest.param(
        500,
        status(500, "", "etcdserver: request is too large"),
        ClusterRejected,
        "",
        id="the object is too large for etcd",
    ),
    pytest.param(
        413,
        status(413, "RequestEntityTooLarge", "limit is 3145728"),
        ClusterRejected,
        "RequestEntityTooLarge",
        id="the body is too large",
    ),
    pytest.param(
        415,
        status(415, "UnsupportedMediaType", "unsupported"),
        ClusterRejected,
        "UnsupportedMediaType",
        id="the content type is not taken",
    ),
    pytest.param(
        422,
        status(422, "Invalid", "d is invalid", name="d"),
        ClusterRejected,
        "Invalid",
        id="a field breaks a rule",
    ),
    pytest.param(
        500,
        status(500, "", DUPLICATE_ENV),
        ClusterRejected,
        "",
        id="apply answers duplicate list keys with 500",
    ),
    pytest.param(
        500,
        status(500, "", UNKNOWN_FIELD),
        ClusterRejected,
        "",
        id="apply answers an unknown field with 500",
    ),
    pytest.param(
        500,
        status(500, "InternalError", "failed calling webhook: connection refused"),
        ClusterUnavailable,
        "InternalError",
        id="a webhook does not answer",
    ),
    pytest.param(
        429,
        status(429, "TooManyRequests", "try again"),
        ClusterUnavailable,
        "TooManyRequests",
        id="too many requests",
    ),
    pytest.param(
        504,
        status(504, "Timeout", "Too large resource version: 9, current: 8"),
        ClusterUnavailable,
        "Timeout",
        id="the version lies in the future",
    ),
    pytest.param(503, b"<html>", ClusterUnavailable, "", id="a load balancer answers in HTML"),
    pytest.param(302, b"", ClusterUnavailable, "", id="a proxy redirects"),
    pytest.param(408, b"", ClusterUnavailable, "", id="the request took too long"),
    pytest.param(500, b"\xff\xfe", ClusterUnavailable, "", id="bytes that are no text"),
    pytest.param(500, b"[]", ClusterUnavailable, "", id="JSON that is no object"),
]


@pytest.mark.parametrize(("code", "body", "expected", "reason"), ANSWERS)
def test_reason_and_message_decide_the_error(
    code: int, body: bytes, expected: type[ClusterError], reason: str
) -> None:
    raised = error(code, body)

    assert type(raised) is expected
    assert (raised.reason, raised.status) == (reason, code)


def test_a_kind_that_is_not_installed_is_retryable() -> None:
    raised = error(404, b"404 page not found\n")

    assert raised.retry is Retry.LATER
    assert "install_cluster" in str(raised)


def test_only_a_404_that_names_the_object_means_absence() -> None:
    named = status(404, "NotFound", 'pods "x" not found', name="x", kind="pods")

    assert parse_failure(404, {}, named).is_missing_object
    assert not parse_failure(404, {}, b"404 page not found").is_missing_object
    assert not parse_failure(404, {}, status(404, "NotFound", "nothing")).is_missing_object
    assert not parse_failure(500, {}, named).is_missing_object


def test_causes_are_joined_without_repetition() -> None:
    causes = [
        {"field": "spec.replicas", "message": "must be 0 or more"},
        {"field": "spec.replicas", "message": "must be 0 or more"},
        {"field": "<nil>", "message": "is wrong in itself"},
        {"message": "has no field"},
        "no cause at all",
    ]

    raised = error(422, status(422, "Invalid", "the long form", causes=causes))

    assert str(raised) == (
        "The cluster rejects the object: spec.replicas: must be 0 or more; is wrong in itself;"
        " has no field"
    )


def test_a_conflict_keeps_the_message_that_names_the_manager() -> None:
    words = 'Apply failed with 1 conflict: conflict with "kubectl" using apps/v1: .spec.replicas'
    causes = [{"field": ".spec.replicas", "message": 'conflict with "kubectl"'}]

    raised = error(409, status(409, "Conflict", words, causes=causes))

    assert str(raised) == words


def test_long_message_is_cut_and_is_one_line() -> None:
    raised = error(422, status(422, "Invalid", "word\n\t " * 200))

    assert len(str(raised)) == MESSAGE_LIMIT
    assert str(raised).endswith("…")
    assert "\n" not in str(raised)


@pytest.mark.parametrize(
    ("headers", "details", "expected"),
    [
        pytest.param({"Retry-After": "7"}, {}, 7, id="by the header"),
        pytest.param({}, {"retryAfterSeconds": 3}, 3, id="by the details"),
        pytest.param({"Retry-After": "7"}, {"retryAfterSeconds": 3}, 7, id="the header first"),
        pytest.param({"Retry-After": "soon"}, {}, None, id="no number"),
        pytest.param({"Retry-After": "nan"}, {}, None, id="not a number"),
        pytest.param({"Retry-After": "inf"}, {}, None, id="for ever"),
        pytest.param({"Retry-After": "-1"}, {}, None, id="in the past"),
        pytest.param({}, {"retryAfterSeconds": []}, None, id="a list"),
        pytest.param({}, {}, None, id="not at all"),
    ],
)
def test_retry_after_is_read_from_header_and_body(
    headers: dict[str, str], details: dict[str, Any], expected: float | None
) -> None:
    raised = error(429, status(429, "TooManyRequests", "slow down", **details), headers)

    assert raised.retry_after == expected


POOL = HTTPConnectionPool("unused.invalid")


def refused() -> Exception:
    fault = http.NewConnectionError(None, "Failed")  # type: ignore[arg-type]  # only its words are read
    fault.__cause__ = ConnectionRefusedError()
    return fault


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        pytest.param(http.ProtocolError("Connection aborted"), "connection was lost", id="cut"),
        pytest.param(http.IncompleteRead(1, 2), "connection was lost", id="cut in the midst"),
        pytest.param(http.ReadTimeoutError(POOL, "/x", ""), "response timed out", id="silent"),
        pytest.param(http.ConnectTimeoutError(), "connection timed out", id="no connection"),
        pytest.param(http.SSLError("bad"), "certificate", id="certificate"),
        pytest.param(http.LocationParseError("x"), "address is invalid", id="address"),
        pytest.param(TimeoutError(), "response timed out", id="operating system"),
        pytest.param(refused(), "connection refused", id="nobody listens"),
    ],
)
def test_a_lost_connection_has_a_readable_message(fault: Any, words: str) -> None:
    raised = no_response(fault)

    assert words in str(raised)
    assert raised.status == 0
    assert raised.retry is Retry.LATER
    assert "Error" not in str(raised)
    assert "unused.invalid" not in str(raised)
