"""No user of the admin grants more than the user has, in any form."""

from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from django.urls import reverse

from gpuplatform.tenancy.models import ApiToken, Membership
from gpuplatform.tenancy.permissions import Role, Scope
from gpuplatform.tenancy.selectors import tenant_by_name
from tests.factories.people import member

pytestmark = pytest.mark.django_db

PEOPLE = ("add_user", "change_user", "delete_user", "view_user")
GROUPS = ("add_group", "change_group", "view_group")
TOKENS = ("add_apitoken", "view_apitoken")


def right(codename: str) -> Permission:
    return Permission.objects.get(codename=codename)


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def clerk(db: None) -> User:
    """A user who manages users, groups and tokens, and has no other permission."""
    user = User.objects.create_user("clerk", is_staff=True)
    user.user_permissions.set(map(right, (*PEOPLE, *GROUPS, *TOKENS)))
    return user


@pytest.fixture
def in_admins(db: None) -> User:
    user = User.objects.create_user("admin-1", is_staff=True)
    user.groups.add(Group.objects.get(name="admin"))
    return user


@pytest.fixture
def root(db: None) -> User:
    return User.objects.create_superuser("root", password=None)


def url(view: str, *arguments: object, model: str = "user") -> str:
    return reverse(f"admin:auth_{model}_{view}", args=arguments)


def body(user: User, **changes: Any) -> dict[str, Any]:
    return {"username": user.username, "is_active": "on", "is_staff": "on", **changes}


def test_a_group_admin_makes_no_superuser(in_admins: User) -> None:
    other = User.objects.create_user("other", is_staff=True)
    client = client_of(in_admins)

    for user in (other, in_admins):
        form = client.get(url("change", user.pk)).content.decode()
        response = client.post(url("change", user.pk), body(user, is_superuser="on"))

        assert 'name="is_superuser"' not in form
        assert response.status_code == 302
        user.refresh_from_db()
        assert not user.is_superuser


@pytest.mark.parametrize("is_active", [True, False])
def test_only_a_superuser_changes_superusers(in_admins: User, root: User, is_active: bool) -> None:
    User.objects.filter(pk=root.pk).update(is_active=is_active)
    client = client_of(in_admins)
    password = {"password1": "a-long-password-1", "password2": "a-long-password-1"}

    responses = [
        client.post(url("change", root.pk), body(root, username="renamed")),
        client.get(reverse("admin:auth_user_password_change", args=[root.pk])),
        client.post(reverse("admin:auth_user_password_change", args=[root.pk]), password),
        client.post(url("delete", root.pk), {"post": "yes"}),
    ]
    selected = {"action": "delete_selected", "_selected_action": root.pk, "post": "yes"}
    client.post(url("changelist"), selected)

    assert [one.status_code for one in responses] == [403] * 4
    kept = User.objects.get(pk=root.pk)
    assert (kept.username, kept.has_usable_password()) == ("root", False)
    assert client.get(url("change", root.pk)).status_code == 200


def test_a_superuser_changes_superusers(root: User) -> None:
    other = User.objects.create_superuser("other")

    response = client_of(root).post(url("change", other.pk), body(other, is_superuser="on"))

    assert response.status_code == 302
    other.refresh_from_db()
    assert other.is_superuser


@pytest.mark.parametrize("is_active", [True, False])
def test_an_account_with_more_permissions_cannot_be_changed(
    clerk: User, in_admins: User, is_active: bool
) -> None:
    User.objects.filter(pk=in_admins.pk).update(is_active=is_active)
    client = client_of(clerk)
    password = {"password1": "a-long-password-1", "password2": "a-long-password-1"}

    responses = [
        client.post(url("change", in_admins.pk), body(in_admins)),
        client.post(reverse("admin:auth_user_password_change", args=[in_admins.pk]), password),
        client.post(url("delete", in_admins.pk), {"post": "yes"}),
    ]

    assert [one.status_code for one in responses] == [403] * 3
    assert not User.objects.get(pk=in_admins.pk).has_usable_password()


@pytest.mark.parametrize("field", ["groups", "user_permissions"])
def test_no_user_grants_what_the_user_does_not_have(clerk: User, field: str) -> None:
    row = Group.objects.get(name="operator") if field == "groups" else right("scale_stockpool")
    client = client_of(clerk)

    for user in (clerk, User.objects.create_user("other", is_staff=True)):
        kept = [one.pk for one in user.user_permissions.all()]
        sent = body(user, user_permissions=kept)
        sent[field] = [*sent.get(field, []), row.pk]
        response = client.post(url("change", user.pk), sent)

        assert response.status_code == 200
        assert field in response.context["adminform"].form.errors
        assert not user.groups.exists()
        assert not user.user_permissions.filter(codename="scale_stockpool").exists()


def test_a_user_grants_what_the_user_has(clerk: User) -> None:
    other = User.objects.create_user("other", is_staff=True)
    group = Group.objects.create(name="clerks")
    group.permissions.set([right("view_user")])

    response = client_of(clerk).post(
        url("change", other.pk),
        body(other, groups=[group.pk], user_permissions=[right("change_user").pk]),
    )

    assert response.status_code == 302
    assert list(other.groups.all()) == [group]


def test_a_group_gets_no_permission_beyond_those_of_the_user(clerk: User) -> None:
    client = client_of(clerk)
    own = Group.objects.create(name="own")
    sent = {"name": "own", "permissions": [right("scale_stockpool").pk, right("view_user").pk]}

    changed = client.post(url("change", own.pk, model="group"), sent)
    created = client.post(url("add", model="group"), {**sent, "name": "new"})

    for response in (changed, created):
        assert response.status_code == 200
        assert "permissions" in response.context["adminform"].form.errors
    assert not own.permissions.exists()
    assert not Group.objects.filter(name="new").exists()


def test_a_group_with_more_permissions_cannot_be_renamed_or_deleted(clerk: User) -> None:
    clerk.user_permissions.add(right("delete_group"))
    group = Group.objects.get(name="admin")
    client = client_of(clerk)
    selected = {"action": "delete_selected", "_selected_action": group.pk, "post": "yes"}

    responses = [
        client.post(url("change", group.pk, model="group"), {"name": "viewer-2"}),
        client.post(url("delete", group.pk, model="group"), {"post": "yes"}),
    ]
    client.post(url("changelist", model="group"), selected)

    assert [one.status_code for one in responses] == [403, 403]
    assert Group.objects.filter(name="admin").exists()


@pytest.mark.parametrize(("person", "may"), [("clerk", False), ("in_admins", True)])
def test_only_operators_create_tokens_for_operators(
    person: str, may: bool, request: pytest.FixtureRequest
) -> None:
    client = client_of(request.getfixturevalue(person))
    sent = {"tenant": tenant_by_name().pk, "name": "ci", "scopes": [Scope.OPERATOR.value]}

    client.post(reverse("admin:tenancy_apitoken_add"), sent)

    assert ApiToken.objects.filter(name="ci").exists() == may


@pytest.mark.parametrize(
    ("role", "scope", "may"),
    [
        (Role.VIEWER, Scope.READ, True),
        (Role.VIEWER, Scope.WRITE, False),
        (Role.MEMBER, Scope.ADMIN, False),
        (None, Scope.READ, False),
    ],
)
def test_the_role_of_the_owner_limits_the_scopes_of_a_new_token(
    in_admins: User, role: Role | None, scope: Scope, may: bool
) -> None:
    owner = member(tenant_by_name(), "ada", role)
    sent = {
        "tenant": tenant_by_name().pk,
        "name": "ci",
        "scopes": [scope.value],
        "owner": owner.pk,
    }

    client_of(in_admins).post(reverse("admin:tenancy_apitoken_add"), sent)

    assert ApiToken.objects.filter(name="ci", owner=owner).exists() == may


def test_an_admin_creates_changes_and_deletes_members(in_admins: User) -> None:
    ada, client, tenant = User.objects.create_user("ada"), client_of(in_admins), tenant_by_name()
    add = reverse("admin:tenancy_membership_add")

    client.post(add, {"tenant": tenant.pk, "user": ada.pk, "role": "viewer"})
    client.post(add, {"tenant": tenant.pk, "group": "ml", "role": "member"})
    row = Membership.objects.get(user=ada)
    client.post(reverse("admin:tenancy_membership_change", args=[row.pk]), {"role": "admin"})
    page = client.get(reverse("admin:tenancy_tenant_change", args=[tenant.pk])).content.decode()

    assert Membership.objects.get(user=ada).role == Role.ADMIN
    assert Membership.objects.get(group="ml").role == Role.MEMBER
    assert "group:ml" in page
    delete = reverse("admin:tenancy_membership_delete", args=[row.pk])
    assert client.post(delete, {"post": "yes"}).status_code == 302
    assert not Membership.objects.filter(user=ada).exists()


@pytest.mark.parametrize("given", [{}, {"user": "ada", "group": "ml"}])
def test_a_member_is_a_user_or_a_group(in_admins: User, given: dict[str, str]) -> None:
    ada = User.objects.create_user("ada")
    sent = {**given, "tenant": tenant_by_name().pk, "role": "viewer"}
    sent |= {"user": ada.pk} if "user" in given else {}

    response = client_of(in_admins).post(reverse("admin:tenancy_membership_add"), sent)

    assert response.status_code == 200
    assert "user" in response.context["adminform"].form.errors
    assert not Membership.objects.exists()
