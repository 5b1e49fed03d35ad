"""Whether the client of a request still waits."""

import pytest
from django.test import RequestFactory
from rest_framework.request import Request

from gpuplatform.api.connection import HAS_LEFT_KEY, has_disconnected


@pytest.mark.parametrize("has_left", [True, False])
def test_the_server_reports_whether_the_client_has_left(has_left: bool) -> None:
    request = RequestFactory().get("/")
    request.META[HAS_LEFT_KEY] = lambda: has_left

    assert has_disconnected(Request(request)) == has_left


def test_a_client_of_another_server_counts_as_connected() -> None:
    assert not has_disconnected(Request(RequestFactory().get("/")))
