"""Every error below /api/ is an envelope with a status, a safe message and a request ID."""

import json
from typing import Any

import pytest
from django.core.wsgi import get_wsgi_application
from django.test import Client, RequestFactory
from pytest_django import Settings


def error_of(response: Any) -> dict[str, Any]:
    assert response["Content-Type"] == "application/json"
    [(key, error)] = json.loads(response.content).items()
    assert key == "error"
    assert set(error) == {"code", "message", "details", "traceID"}
    assert error["traceID"] == response["X-Request-ID"]
    assert "secret" not in response.content.decode()
    return dict(error)


@pytest.mark.django_db  # The audit log records rejections.
@pytest.mark.parametrize("route", ["raise", "plain"])
@pytest.mark.parametrize(
    ("which", "status", "code"),
    [
        ("known", 409, "name_conflict"),
        ("waiting", 503, "operator_unavailable"),
        ("cluster", 503, "cluster_unavailable"),
        ("http404", 404, "not_found"),
        ("denied", 403, "forbidden"),
        ("suspicious", 400, "invalid_request"),
        ("database", 503, "database_unavailable"),
        ("interface", 503, "database_unavailable"),
        ("parse", 400, "invalid_request"),
        ("throttled", 429, "throttled"),
        ("bug", 500, "internal_error"),
        ("recursion", 500, "internal_error"),
    ],
)
def test_every_exception_becomes_an_error_reply(
    api: Client, route: str, which: str, status: int, code: str
) -> None:
    response = api.get(f"/api/v1/{route}/{which}")

    assert response.status_code == status
    assert error_of(response)["code"] == code
    assert ("Retry-After" in response) == (status in {429, 503})


def test_a_retry_is_never_after_zero_seconds(api: Client) -> None:
    assert api.get("/api/v1/raise/cluster")["Retry-After"] == "1"


def test_the_log_has_the_cause_of_an_internal_error(
    api: Client, caplog: pytest.LogCaptureFixture
) -> None:
    api.get("/api/v1/raise/bug")

    assert "ZeroDivisionError: secret" in caplog.text


@pytest.mark.parametrize(
    "path",
    [
        "/api/",
        "/api/v2/things",
        "/api/v1/things/",
        "/api/v1/thing%00",
        "/api/v1/plain/%00",
        "/api/v1/raise/UPPER",
        "/api/v1/%FF",
    ],
)
def test_an_unknown_path_is_a_json_404(api: Client, path: str) -> None:
    response = api.get(path)

    assert response.status_code == 404
    assert error_of(response)["code"] == "not_found"


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "TRACE", "BREW"])
def test_a_wrong_method_names_the_available_ones(api: Client, method: str) -> None:
    response = api.generic(method, "/api/v1/things")

    assert response.status_code == 405
    assert error_of(response)["code"] == "method_not_allowed"
    assert {"GET", "POST"} <= set(response["Allow"].split(", "))


def test_an_error_of_django_keeps_its_status_and_methods(api: Client) -> None:
    response = api.post("/api/v1/readable")

    assert (response.status_code, response["Allow"]) == (405, "GET")
    assert error_of(response)["code"] == "method_not_allowed"


def test_an_unknown_host_is_a_json_400_and_the_log_names_the_setting(
    api: Client, caplog: pytest.LogCaptureFixture
) -> None:
    response = api.get("/api/v1/things", headers={"host": "evil.example\n"})

    assert response.status_code == 400
    assert error_of(response)["code"] == "invalid_request"
    (record,) = (one for one in caplog.records if one.name == "gpuplatform.api.middleware")
    assert "GPUPLATFORM_ALLOWED_HOSTS" in record.getMessage()
    assert "\n" not in record.getMessage()


def test_an_unknown_host_is_a_400_elsewhere_too(api: Client) -> None:
    response = api.get("/admin/", headers={"host": "evil.example"})

    assert (response.status_code, response["X-Request-ID"] != "") == (400, True)


@pytest.mark.parametrize("path", ["/api/v1/things", "/api/v1/nope", "/api/v1/schema", "/livez"])
def test_head_has_the_headers_of_get_and_no_body(path: str) -> None:
    requests = RequestFactory()
    handler = get_wsgi_application()
    get, head = (handler.get_response(send(path)) for send in (requests.get, requests.head))

    assert head.status_code == get.status_code
    sent, unsent = getattr(get, "content", b""), getattr(head, "content", None)
    assert head["Content-Length"] == str(len(sent))
    assert (unsent, sent != b"") == (b"", True)


def test_replies_are_not_cached(api: Client) -> None:
    for path in ("/api/v1/things", "/api/v1/nope", "/api/v1/raise/bug"):
        assert api.get(path)["Cache-Control"] == "no-store"


def test_errors_are_compact_json(api: Client) -> None:
    for path in ("/api/v1/raise/known", "/api/v1/plain/known"):
        content = api.get(path).content
        assert content == json.dumps(json.loads(content), separators=(",", ":")).encode()


def test_errors_outside_of_the_api_are_pages_of_django(api: Client) -> None:
    assert "application/json" not in api.get("/elsewhere/bug")["Content-Type"]


@pytest.mark.parametrize(
    ("offered", "is_kept"), [("abc-1", True), ("a b", False), ("x" * 200, False), ("", False)]
)
def test_a_safe_trace_id_is_echoed(api: Client, offered: str, is_kept: bool) -> None:
    response = api.get("/api/v1/things", headers={"X-Request-ID": offered})

    assert (response["X-Request-ID"] == offered) == is_kept


@pytest.mark.django_db  # The audit log records the rejection.
def test_outside_development_mode_a_token_is_required(api: Client, settings: Settings) -> None:
    settings.GPUPLATFORM_DEV = False

    for accept in ("application/json", "text/html"):
        response = api.get("/api/v1/things", headers={"accept": accept})
        assert response.status_code == 401
        assert response["WWW-Authenticate"] == "Bearer"
    assert error_of(api.post("/api/v1/things"))["code"] == "unauthenticated"
