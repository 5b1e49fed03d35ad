"""Members of tenants: who sets them, and what their tokens may do."""

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.models import Membership, Tenant, member_name
from gpuplatform.tenancy.permissions import Permission, Role, Scope
from gpuplatform.tenancy.selectors import role_of, tenant_by_name
from gpuplatform.tenancy.services import member_delete, member_set
from tests.factories.people import api_of, identity, member

MEMBERS = "/api/v1/tenant/members"
OF_TENANT = "/api/v1/operator/tenants/{}/members"
ME = "/api/v1/me"

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("cluster", "broker")]


@pytest.fixture
def tenant(db: None) -> Tenant:
    return tenant_by_name()


@pytest.fixture
def other(db: None) -> Tenant:
    return Tenant.objects.create(name="beta", namespace="tenant-beta")


def body(role: Role, operation_id: str = "op-1") -> dict[str, str]:
    return {"operationID": operation_id, "role": role}


def roles(tenant: Tenant) -> dict[str, str]:
    return {member_name(row): row.role for row in tenant.memberships.all()}


def test_an_admin_sets_changes_lists_and_deletes_members(tenant: Tenant) -> None:
    User.objects.create_user("ada")
    api = api_of(tenant)

    assert api.put(f"{MEMBERS}/ada", body(Role.VIEWER)).status == 202
    assert api.put(f"{MEMBERS}/ada", body(Role.MEMBER, "op-2")).status == 202
    assert api.put(f"{MEMBERS}/group:ml%2Fteam a", body(Role.VIEWER, "op-3")).status == 202
    listed = api.get(MEMBERS).data
    assert [(one["name"], one["role"]) for one in listed] == [
        ("group:ml/team a", "viewer"),
        ("ada", "member"),
    ]
    assert api.delete(f"{MEMBERS}/ada", operationID="op-4").status == 202
    assert roles(tenant) == {"group:ml/team a": "viewer"}


def test_a_replay_changes_nothing_and_another_request_conflicts(tenant: Tenant) -> None:
    User.objects.create_user("ada")
    api = api_of(tenant)

    first = api.put(f"{MEMBERS}/ada", body(Role.VIEWER))
    api.put(f"{MEMBERS}/ada", body(Role.ADMIN, "op-2"))
    again = api.put(f"{MEMBERS}/ada", body(Role.VIEWER))
    conflict = api.put(f"{MEMBERS}/ada", body(Role.MEMBER))

    assert (first.status, again.status, conflict.code) == (202, 200, "operation_conflict")
    assert again.headers["Idempotent-Replayed"] == "true"
    assert roles(tenant) == {"ada": "admin"}


@pytest.mark.parametrize(
    ("sent", "field"),
    [({"role": "owner"}, "role"), ({"role": None}, "role"), ({}, "role")],
)
def test_an_invalid_role_leaves_nothing(
    tenant: Tenant, sent: dict[str, str | None], field: str
) -> None:
    User.objects.create_user("ada")

    answer = api_of(tenant).put(f"{MEMBERS}/ada", {"operationID": "op-1", **sent})

    assert (answer.status, answer.fields) == (400, [field])
    assert not Membership.objects.exists()
    assert not Operation.objects.exists()


@pytest.mark.parametrize("name", ["unknown", "ada"])
def test_who_is_no_member_is_not_found(tenant: Tenant, name: str) -> None:
    User.objects.create_user("ada")

    assert api_of(tenant).delete(f"{MEMBERS}/{name}", operationID="op-1").status == 404


@pytest.mark.parametrize("scope", [Scope.USER, Scope.READ, Scope.OPERATOR])
def test_only_an_admin_changes_members(tenant: Tenant, scope: Scope) -> None:
    User.objects.create_user("ada")
    api = api_of(tenant, scope)

    assert api.put(f"{MEMBERS}/ada", body(Role.ADMIN)).status == 403
    assert not Membership.objects.exists()


def test_an_operator_changes_the_members_of_any_tenant(tenant: Tenant, other: Tenant) -> None:
    User.objects.create_user("ada")
    api, address = api_of(tenant, Scope.OPERATOR), OF_TENANT.format("beta")

    accepted = api.put(f"{address}/ada", body(Role.ADMIN))

    assert accepted.status == 202
    assert accepted.data["object"]["href"] == address
    assert accepted.headers["Location"] == "/api/v1/operator/jobs/op-1"
    assert api.get(address).data[0]["name"] == "ada"
    assert roles(other) == {"ada": "admin"}
    assert roles(tenant) == {}
    assert api.delete(f"{address}/ada", operationID="op-2").status == 202
    assert roles(other) == {}


def test_the_same_operation_id_for_another_tenant_conflicts(tenant: Tenant, other: Tenant) -> None:
    User.objects.create_user("ada")
    api = api_of(tenant, Scope.OPERATOR, Scope.ADMIN)
    api.put(f"{MEMBERS}/ada", body(Role.ADMIN))

    answer = api.put(f"{OF_TENANT.format('beta')}/ada", body(Role.ADMIN))

    assert answer.code == "operation_conflict"
    assert roles(other) == {}


def test_an_unknown_tenant_is_not_found(tenant: Tenant) -> None:
    api, address = api_of(tenant, Scope.OPERATOR), OF_TENANT.format("unknown")

    assert api.get(address).status == 404
    assert api.put(f"{address}/ada", body(Role.ADMIN)).status == 404
    assert api.delete(f"{address}/ada", operationID="op-1").status == 404


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        (Role.VIEWER, ["read", "token"]),
        (Role.MEMBER, ["payloads", "read", "token", "write"]),
        (Role.ADMIN, ["admin", "payloads", "read", "token", "write"]),
        (None, ["token"]),
    ],
)
def test_the_role_of_the_owner_limits_a_token(
    tenant: Tenant, role: Role | None, expected: list[str]
) -> None:
    ada = member(tenant, "ada", role)
    api = api_of(tenant, Scope.USER, Scope.ADMIN, Scope.OPERATOR, owner=ada)

    me = api.get(ME).data

    assert (me["user"], me["role"], me["permissions"]) == ("ada", role, expected)


def test_the_role_costs_one_query(tenant: Tenant) -> None:
    ada = member(tenant, "ada", Role.MEMBER)
    identity(ada, "ml")
    numbers = []
    for api in (api_of(tenant, Scope.USER), api_of(tenant, Scope.USER, owner=ada)):
        api.get("/api/v1/operations")
        with CaptureQueriesContext(connection) as queries:
            assert api.get("/api/v1/operations").status == 200
        numbers.append(len(queries))

    assert numbers[1] == numbers[0] + 1


def test_a_change_of_the_role_applies_to_the_next_request(tenant: Tenant) -> None:
    ada = member(tenant, "ada", Role.MEMBER)
    api = api_of(tenant, Scope.USER, owner=ada)
    assert api.get("/api/v1/gpu-units").status == 200

    member_delete(Membership.objects.get())
    assert api.get("/api/v1/gpu-units").status == 403

    member_set(tenant=tenant, user=ada, group="", role=Role.VIEWER)
    assert api.get("/api/v1/gpu-units").status == 200
    User.objects.update(is_active=False)
    assert api.get("/api/v1/gpu-units").status == 403


def test_the_membership_of_another_tenant_gives_nothing(tenant: Tenant, other: Tenant) -> None:
    ada = member(other, "ada", Role.ADMIN)

    assert api_of(tenant, Scope.USER, owner=ada).get(ME).data["permissions"] == ["token"]


def test_the_highest_role_of_a_user_and_its_groups_counts(tenant: Tenant) -> None:
    ada = member(tenant, "ada", Role.VIEWER)
    member_set(tenant=tenant, user=None, group="ml", role=Role.MEMBER)
    member_set(tenant=tenant, user=None, group="admins", role=Role.ADMIN)
    assert role_of(ada, tenant) == Role.VIEWER

    identity(ada, "ml", "unrelated")

    ada = User.objects.get()
    assert role_of(ada, tenant) == Role.MEMBER


@pytest.mark.parametrize(("group", "may"), [("operator", True), ("viewer", False), ("", False)])
def test_only_operators_own_tokens_for_operators(tenant: Tenant, group: str, may: bool) -> None:
    ada = User.objects.create_user("ada", is_staff=True)
    ada.groups.set(Group.objects.filter(name=group))

    permissions = api_of(tenant, Scope.OPERATOR, owner=ada).get(ME).data["permissions"]

    assert (Permission.OPERATOR in permissions) == may
