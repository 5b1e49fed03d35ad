"""Users and groups: permissions as checkboxes; hidden permissions remain unchanged."""

import re

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from django.urls import reverse

from gpuplatform.tenancy.admin_people import PersonAdmin, PlatformGroupAdmin
from tests.factories.admin_steps import Page, text_of

GROUPS = reverse("admin:auth_group_changelist")

pytestmark = pytest.mark.django_db


def page_of(row: Group | User) -> str:
    return reverse(f"admin:auth_{type(row).__name__.lower()}_change", args=[row.pk])


def right(codename: str) -> Permission:
    return Permission.objects.get(codename=codename)


def ticked(page: str) -> set[int]:
    boxes = re.findall(r"<input[^>]+type=\"checkbox\"[^>]*>", page)
    rights = [box for box in boxes if "permissions" in box and " checked" in box]
    return {int(re.findall('value="([0-9]+)"', box)[0]) for box in rights}


def test_the_permissions_of_a_group_are_checked_boxes(operator_client: Client) -> None:
    group = Group.objects.get(name="operator")

    page = operator_client.get(page_of(group)).content.decode()

    assert ticked(page) == set(group.permissions.values_list("pk", flat=True))
    for label in ("Stock pools", "Set warm target", "Pause top-up, resume top-up", "Revoke"):
        assert label in page
    for raw in ("Can scale", "log entry", "content type"):
        assert raw not in page


def test_saving_removes_cleared_permissions_and_keeps_hidden_ones(
    operator_client: Client,
) -> None:
    group = Group.objects.create(name="night shift")
    group.permissions.set([right("scale_stockpool"), right("view_logentry")])

    chosen = [right("view_stockpool").pk]
    body = {"name": "night shift", "permissions": chosen}
    response = operator_client.post(page_of(group), body)

    assert response.status_code == 302
    held = group.permissions.values_list("codename", flat=True)
    assert set(held) == {"view_stockpool", "view_logentry"}


def test_a_hidden_permission_cannot_be_granted(operator_client: Client) -> None:
    group = Group.objects.create(name="day shift")

    body = {"name": "day shift", "permissions": [right("delete_session").pk]}
    response = operator_client.post(page_of(group), body)

    assert response.status_code == 200
    assert not group.permissions.exists()


def test_a_person_joins_a_group_and_keeps_the_password(operator_client: Client) -> None:
    person = User.objects.create_user("anna", password="correct-horse-battery")
    viewer = Group.objects.get(name="viewer")

    page = operator_client.get(page_of(person)).content.decode()
    body = {"username": "anna", "is_active": "on", "is_staff": "on", "groups": [viewer.pk]}
    response = operator_client.post(page_of(person), body)

    assert re.search(r"</?input[^>]*>\s*viewer: \w", page)
    assert "argon2" not in page
    assert response.status_code == 302
    person.refresh_from_db()
    assert person.check_password("correct-horse-battery")
    assert list(person.groups.all()) == [viewer]
    assert not person.is_superuser


def test_the_list_of_groups_shows_members(operator_client: Client) -> None:
    User.objects.create_user("anna").groups.add(Group.objects.get(name="viewer"))

    page = operator_client.get(GROUPS).content.decode()

    assert '<td class="field-people">anna</td>' in page
    assert '<td class="field-people">none</td>' in page


def test_people_without_permissions_have_their_own_state(operator_client: Client) -> None:
    User.objects.create_user("nobody", is_staff=True)
    User.objects.create_user("anna", is_staff=True).groups.add(Group.objects.get(name="viewer"))
    one = User.objects.create_user("one-right", is_staff=True)
    one.user_permissions.add(right("view_stockpool"))

    listed = operator_client.get(reverse("admin:auth_user_changelist")).context["cl"]
    states = [text_of(PersonAdmin.state(listed.model_admin, row)) for row in listed.result_list]

    assert sorted(states) == ["Active", "Active", "Active", "No permissions"]


def test_people_are_found_by_filters(operator_client: Client) -> None:
    User.objects.create_user("gone", is_active=False)

    listed = reverse("admin:auth_user_changelist")
    for query in ({"active": "no"}, {"superuser": "no"}):
        found = operator_client.get(listed, query).context["cl"].queryset

        assert [person.username for person in found] == ["gone"]


def test_the_list_of_groups_has_a_summary_of_permissions(operator_client: Client) -> None:
    Group.objects.create(name="night shift").permissions.add(right("view_stockpool"))

    listed = operator_client.get(GROUPS).context["cl"]
    texts = {
        row.name: PlatformGroupAdmin.summary(listed.model_admin, row) for row in listed.result_list
    }

    assert texts["night shift"] == "1 permission"
    assert "permission" not in texts["viewer"]


def test_the_deletion_of_a_built_in_group_mentions_releases(
    operator_client: Client,
) -> None:
    def consequence(group: Group) -> str:
        page = Page(operator_client.get(reverse("admin:auth_group_delete", args=[group.pk])))
        return str(page.context["deletion"]["consequence"])

    assert "release" in consequence(Group.objects.get(name="viewer"))
    assert "release" not in consequence(Group.objects.create(name="night shift"))
