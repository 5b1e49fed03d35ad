"""People and groups: rights are ticked by what they allow, and none is lost unseen."""

import re

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from django.urls import reverse

from tests.factories.admin_steps import told

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


def test_a_group_is_shown_by_what_its_people_may_do(operator_client: Client) -> None:
    group = Group.objects.get(name="operator")

    page = operator_client.get(page_of(group)).content.decode()

    assert ticked(page) == set(group.permissions.values_list("pk", flat=True))
    for words in ("Stock pools", "Set warm target", "Pause top-up, resume top-up", "Take back"):
        assert words in page
    for raw in ("Can scale", "log entry", "content type"):
        assert raw not in page


def test_saving_takes_what_was_unticked_and_keeps_what_is_not_shown(
    operator_client: Client,
) -> None:
    group = Group.objects.create(name="night shift")
    group.permissions.set([right("scale_stockpool"), right("view_logentry")])

    chosen = [right("view_stockpool").pk]
    asked = {"name": "night shift", "permissions": chosen}
    answer = operator_client.post(page_of(group), asked)

    assert answer.status_code == 302
    held = group.permissions.values_list("codename", flat=True)
    assert set(held) == {"view_stockpool", "view_logentry"}


def test_a_right_that_is_not_offered_cannot_be_given(operator_client: Client) -> None:
    group = Group.objects.create(name="day shift")

    asked = {"name": "day shift", "permissions": [right("delete_session").pk]}
    answer = operator_client.post(page_of(group), asked)

    assert answer.status_code == 200
    assert not group.permissions.exists()


def test_a_person_is_put_into_groups_and_keeps_the_password(operator_client: Client) -> None:
    person = User.objects.create_user("anna", password="correct-horse-battery")
    viewer = Group.objects.get(name="viewer")

    page = operator_client.get(page_of(person)).content.decode()
    asked = {"username": "anna", "is_active": "on", "is_staff": "on", "groups": [viewer.pk]}
    answer = operator_client.post(page_of(person), asked)

    assert "viewer: sees everything but people and groups" in page
    assert "argon2" not in page
    assert answer.status_code == 302
    person.refresh_from_db()
    assert person.check_password("correct-horse-battery")
    assert list(person.groups.all()) == [viewer]
    assert not person.is_superuser


def test_the_list_of_groups_says_who_is_in_them(operator_client: Client) -> None:
    User.objects.create_user("anna").groups.add(Group.objects.get(name="viewer"))

    page = operator_client.get(GROUPS).content.decode()

    assert '<td class="field-people">anna</td>' in page
    assert '<td class="field-people">nobody</td>' in page


def test_who_may_log_in_and_do_nothing_is_told_from_the_others(operator_client: Client) -> None:
    User.objects.create_user("nobody", is_staff=True)
    User.objects.create_user("anna", is_staff=True).groups.add(Group.objects.get(name="viewer"))
    one = User.objects.create_user("one-right", is_staff=True)
    one.user_permissions.add(right("view_stockpool"))

    page = told(operator_client.get(reverse("admin:auth_user_changelist")).content.decode())

    assert page.count("May do nothing") == 1
    assert page.count("May log in") == 4  # three people, and the filter


def test_people_are_found_by_what_their_form_calls_it(operator_client: Client) -> None:
    User.objects.create_user("gone", is_active=False)

    listed = reverse("admin:auth_user_changelist")
    for query in ({"active": "no"}, {"superuser": "no"}):
        page = told(operator_client.get(listed, query).content.decode())

        assert "1 user" in page
        assert "gone" in page


def test_the_list_of_groups_says_what_each_may(operator_client: Client) -> None:
    Group.objects.create(name="night shift").permissions.add(right("view_stockpool"))

    page = told(operator_client.get(GROUPS).content.decode())

    assert "sees everything but people and groups" in page
    assert "1 right" in page


def test_deleting_one_of_the_platforms_own_groups_says_how_it_may_come_back(
    operator_client: Client,
) -> None:
    def asked(group: Group) -> str:
        place = reverse("admin:auth_group_delete", args=[group.pk])
        return told(operator_client.get(place).content.decode())

    assert "a later release may make one again" in asked(Group.objects.get(name="viewer"))
    assert "later release" not in asked(Group.objects.create(name="night shift"))
