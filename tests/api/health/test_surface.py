"""Each published address responds."""

import pytest
from django.test import Client

from tests.fakes.installed import cluster

__all__ = ["cluster"]


@pytest.mark.django_db
@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    "address",
    [
        "/api/v1/gpu-units",
        "/api/v1/operator/stock-units",
        "/api/v1/operator/jobs",
        "/api/v1/serverless/functions",
        "/api/v1/serverless/invocations",
        "/api/v1/health",
        "/swagger/index.html",
    ],
)
def test_each_published_address_exists(client: Client, address: str) -> None:
    assert client.get(address).status_code == 200
