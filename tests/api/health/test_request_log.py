"""Each request writes one line; data of a caller creates no further line or label."""

import logging

import pytest
from django.test import Client

from gpuplatform.metrics.declared import HTTP_REQUESTS, HTTP_SECONDS
from gpuplatform.tenancy.models import Scope
from gpuplatform.tenancy.selectors import tenant_by_name
from gpuplatform.tenancy.services import token_create
from tests.fakes.counted import Counted, counted

__all__ = ["counted"]
pytestmark = pytest.mark.django_db
LOGGER = "gpuplatform.requests"


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, LOGGER)
    return caplog


def test_a_request_is_one_line(lines: pytest.LogCaptureFixture) -> None:
    Client().get("/api/v1/operator/jobs?phase=Failed", headers={"X-Request-ID": "mine-1"})

    (line,) = [record for record in lines.records if record.name == LOGGER]
    fields = vars(line)
    assert line.levelno == logging.INFO
    assert (fields["method"], fields["path"]) == ("GET", "/api/v1/operator/jobs")
    assert (fields["status"], fields["traceID"]) == (200, "mine-1")
    assert fields["actor"] == "local caller without a token"
    assert fields["duration_ms"] > 0


def test_a_request_names_its_tenant_and_token(lines: pytest.LogCaptureFixture) -> None:
    _, secret = token_create(tenant=tenant_by_name(), name='a "b"', scopes=[Scope.USER])

    client = Client(headers={"Authorization": f"Bearer {secret}"})
    statuses = [
        client.get(f"/api/v1/{path}").status_code for path in ("gpu-units", "operator/jobs")
    ]

    records = [record for record in lines.records if record.name == LOGGER]
    assert statuses == [200, 403]
    for record in records:
        fields = vars(record)
        assert (fields["tenant"], fields["actor"]) == ("default", "token 'a \"b\"'")


@pytest.mark.parametrize(
    ("sent", "logged"),
    [
        pytest.param("/api/v1/a%0Aroot%20has%20come", "/api/v1/a%0Aroot%20has%20come", id="line"),
        pytest.param("/api/v1/%C3%BC", "/api/v1/%C3%BC", id="not ASCII"),
        pytest.param("/api/v1/%1B[31m", "/api/v1/%1B[31m", id="escape"),
        pytest.param("/api/" + "x" * 999, "/api/" + "x" * 295, id="long"),
    ],
)
def test_a_path_is_quoted_and_cut(lines: pytest.LogCaptureFixture, sent: str, logged: str) -> None:
    Client().get(sent)

    (record,) = [record for record in lines.records if record.name == LOGGER]
    assert (vars(record)["path"], vars(record)["status"]) == (logged, 404)


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/static/adminkit/theme.css"])
def test_requests_of_probes_and_static_files_are_logged_at_debug(
    lines: pytest.LogCaptureFixture, path: str
) -> None:
    Client().get(path).close()

    assert [r.levelno for r in lines.records if r.name == LOGGER] == [logging.DEBUG]


def test_a_label_is_the_pattern_of_the_address_not_the_address(counted: Counted) -> None:
    Client().get("/api/v1/operator/jobs/no-such-job")
    Client().generic("BREW", "/nothing/here")
    Client().get("/api/v1/nothing/here")

    job = ("GET", "/api/v1/operator/jobs/<operation:operation_id>")
    assert counted.values(HTTP_SECONDS) == {
        job: 1,
        ("other", "unknown"): 1,
        ("GET", "unknown"): 1,
    }
    assert counted.values(HTTP_REQUESTS) == {
        (*job, "404"): 1,
        ("other", "unknown", "404"): 1,
        ("GET", "unknown", "404"): 1,
    }
