"""Invalid queries of admin pages."""

from typing import Any

import pytest
from django.contrib import admin
from django.http import HttpRequest
from django.test import Client, RequestFactory

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)


@pytest.mark.parametrize(
    "path",
    [
        "/admin/inventory/stockpool/?name__regex=(",
        "/admin/inventory/stockpool/?created_at__year=99999999999",
        "/admin/operations/operation/?object_name__iregex=*",
        "/admin/auth/group/?name__regex=[",
    ],
)
def test_an_invalid_filter_redirects_to_the_list(operator_client: Client, path: str) -> None:
    response = operator_client.get(path, follow=True)

    assert response.status_code in {200, 400}
    assert b"Traceback" not in response.content


def test_an_invalid_selection_deletes_nothing(operator_client: Client) -> None:
    body = {"action": "delete_selected", "_selected_action": "\x00"}

    response = operator_client.post("/admin/auth/group/", body, follow=True)

    assert response.status_code == 200


def test_an_unknown_filter_is_a_warning_once(operator_client: Client) -> None:
    page = operator_client.get("/admin/inventory/stockpool/?show=deleted", follow=True)

    assert [message.level_tag for message in page.context["messages"]] == ["warning"]
    again = operator_client.get("/admin/inventory/stockpool/")
    assert not list(again.context["messages"])


def test_no_list_can_be_filtered_by_a_column_without_a_filter() -> None:
    request = RequestFactory().get("/admin/")
    allowed = {
        f"{page.opts.label}.{field.name}"
        for page in admin.site._registry.values()
        for field in page.opts.get_fields()
        for suffix in ("", "__startswith", "__key__startswith", "__isnull")
        if page.lookup_allowed(f"{field.name}{suffix}", "x", request)
        and field.name not in _filters(page, request)
    }

    assert allowed == set()


def _filters(page: Any, request: HttpRequest) -> set[str]:
    return {str(getattr(one, "parameter_name", one)) for one in page.get_list_filter(request)}


def test_the_filters_of_all_lists_are_allowed() -> None:
    request = RequestFactory().get("/admin/")
    for page in admin.site._registry.values():
        for one in page.get_list_filter(request):
            name = getattr(one, "parameter_name", f"{one}__id__exact")
            assert page.lookup_allowed(str(name), "1", request), (page, name)
