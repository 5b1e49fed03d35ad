"""Whether the client of a request still waits."""

import pytest
from django.test import RequestFactory
from rest_framework.request import Request

from gpuplatform.api.connection import IS_DISCONNECTED_KEY, has_disconnected


@pytest.mark.parametrize("is_disconnected", [True, False])
def test_the_server_reports_whether_the_client_has_left(is_disconnected: bool) -> None:
    request = RequestFactory().get("/")
    request.META[IS_DISCONNECTED_KEY] = lambda: is_disconnected

    assert has_disconnected(Request(request)) == is_disconnected


def test_a_client_of_another_server_counts_as_connected() -> None:
    assert not has_disconnected(Request(RequestFactory().get("/")))
