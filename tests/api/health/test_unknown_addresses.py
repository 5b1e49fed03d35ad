"""Unknown addresses and methods, requested without a CSRF token."""

import pytest
from django.test import Client

pytestmark = pytest.mark.django_db


@pytest.fixture
def program() -> Client:
    return Client(enforce_csrf_checks=True)


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PROPFIND"])
def test_an_unknown_address_is_a_404_in_json_for_every_method(
    program: Client, method: str
) -> None:
    answer = program.generic(method, "/api/v1/nope")

    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "not_found"


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
def test_a_probe_accepts_no_writes(program: Client, path: str) -> None:
    answer = program.post(path)

    assert answer.status_code == 405
    assert program.get(path).status_code == 200
