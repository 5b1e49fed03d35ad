"""Host names, probes and headers of every response."""

import logging

import pytest
from django.test import Client
from pytest_django import Settings

pytestmark = pytest.mark.django_db
POD = "10.4.7.9:8080"


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
@pytest.mark.parametrize("hosts", [["gpu.example.com"], [".example.com"], ["*"]])
def test_a_probe_can_have_the_address_of_a_pod_as_host(
    settings: Settings, hosts: list[str], path: str
) -> None:
    settings.ALLOWED_HOSTS = hosts

    assert Client().get(path, HTTP_HOST=POD).status_code == 200


def test_another_path_needs_a_known_host_and_writes_one_line(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.ALLOWED_HOSTS = ["gpu.example.com"]

    assert Client().get("/admin/login/", HTTP_HOST=POD).status_code == 400
    assert [record.exc_info for record in caplog.records if record.levelno >= logging.WARNING] == [
        None
    ]


@pytest.mark.parametrize("path", ["/livez", "/api/v1/nope", "/admin/login/"])
def test_outside_development_mode_browsers_use_https_only(settings: Settings, path: str) -> None:
    settings.HSTS_HEADER = "max-age=5"

    assert Client().get(path).headers["Strict-Transport-Security"] == "max-age=5"


def test_development_mode_has_no_https() -> None:
    assert "Strict-Transport-Security" not in Client().get("/livez").headers


@pytest.mark.parametrize("path", ["/api", "/api/", "//api/v1/gpu-units", "/api/v1", "///api"])
@pytest.mark.parametrize("method", ["get", "post"])
def test_every_path_of_the_api_is_json(method: str, path: str) -> None:
    # Django reads a host from a path that begins with two slashes.
    answer = Client().generic(method.upper(), "/", PATH_INFO=path)

    assert answer.status_code in {404, 405, 200}
    assert answer.headers["Content-Type"] == "application/json"


def test_a_path_that_only_begins_like_the_api_is_a_page() -> None:
    assert Client().get("/apis").headers["Content-Type"].startswith("text/html")
