"""Behind a TLS proxy, the admin accepts forms from the allowed hosts."""

import pytest
from django.test import Client
from pytest_django import Settings

from gpuplatform.settings.environment import secure_origins

HOSTS = ["gpu.example.com", ".example.org"]


@pytest.mark.parametrize(
    ("origin", "host", "status"),
    [
        pytest.param("https://gpu.example.com", "gpu.example.com", 200, id="allowed host"),
        pytest.param("https://a.example.org", "a.example.org", 200, id="allowed domain"),
        pytest.param("https://evil.example.net", "gpu.example.com", 403, id="another site"),
        pytest.param(
            "https://gpu.example.com.evil.net", "gpu.example.com", 403, id="a look-alike"
        ),
    ],
)
@pytest.mark.django_db
def test_a_form_is_accepted_from_an_allowed_host_only(
    settings: Settings, origin: str, host: str, status: int
) -> None:
    settings.ALLOWED_HOSTS = HOSTS
    settings.CSRF_TRUSTED_ORIGINS = secure_origins(HOSTS)
    client = Client(enforce_csrf_checks=True)
    client.get("/admin/login/", headers={"host": host})
    form = {"username": "nobody", "password": "wrong"}
    form["csrfmiddlewaretoken"] = client.cookies["csrftoken"].value

    answer = client.post("/admin/login/", form, headers={"host": host, "origin": origin})

    assert answer.status_code == status


def test_development_mode_trusts_no_other_origin(settings: Settings) -> None:
    assert settings.CSRF_TRUSTED_ORIGINS == []
