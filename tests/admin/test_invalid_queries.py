"""Invalid queries of admin pages."""

import pytest
from django.test import Client

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
