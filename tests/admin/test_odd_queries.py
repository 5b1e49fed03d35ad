"""Addresses of the admin that nobody makes by clicking."""

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
def test_a_filter_that_cannot_be_read_leads_back_to_the_list(
    operator_client: Client, path: str
) -> None:
    answer = operator_client.get(path, follow=True)

    assert answer.status_code in {200, 400}
    assert b"Traceback" not in answer.content


def test_a_selection_that_cannot_be_read_deletes_nothing(operator_client: Client) -> None:
    asked = {"action": "delete_selected", "_selected_action": "\x00"}

    answer = operator_client.post("/admin/auth/group/", asked, follow=True)

    assert answer.status_code == 200


def test_a_filter_that_there_is_not_is_said_to_be_none(operator_client: Client) -> None:
    page = operator_client.get("/admin/inventory/stockpool/?show=deleted", follow=True)

    assert "There is no such filter here." in page.content.decode()
    again = operator_client.get("/admin/inventory/stockpool/")
    assert "no such filter" not in again.content.decode()
