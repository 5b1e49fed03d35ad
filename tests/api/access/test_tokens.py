"""Tokens that callers create: the secret is returned once, and no token exceeds its creator."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User

from gpuplatform import clock
from gpuplatform.operations.models import Operation
from gpuplatform.reconciliation import gate
from gpuplatform.tenancy.models import ApiToken, Tenant
from gpuplatform.tenancy.permissions import Role, Scope
from gpuplatform.tenancy.selectors import tenant_by_name
from tests.factories.people import api_of, member, with_token

TOKENS = "/api/v1/tokens"
ME = "/api/v1/me"

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("cluster", "broker")]


@pytest.fixture
def tenant(db: None) -> Tenant:
    return tenant_by_name()


def new(name: str = "new", **fields: object) -> dict[str, object]:
    return {"operationID": f"create-{name}", "name": name, "scopes": ["read"], **fields}


def names(listed: list[dict[str, str]]) -> set[str]:
    return {one["name"] for one in listed}


def test_the_secret_is_returned_once_and_works(tenant: Tenant) -> None:
    api = api_of(tenant, name="admin")

    created = api.post(TOKENS, new())
    again = api.post(TOKENS, new())

    assert (created.status, again.status) == (201, 200)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.data == {**created.data, "token": None}
    assert created.data["token"].startswith(created.data["hint"])
    assert with_token(created.data["token"]).get(ME).data["permissions"] == ["read", "token"]
    assert created.data["token"] not in str(list(Operation.objects.values()))
    assert all(one["token"] is None for one in api.get(TOKENS).data)


def test_another_request_with_the_operation_id_or_the_name_conflicts(tenant: Tenant) -> None:
    api = api_of(tenant)
    api.post(TOKENS, new())

    assert api.post(TOKENS, new(scopes=["write"])).code == "operation_conflict"
    assert api.post(TOKENS, new(operationID="other")).code == "name_conflict"
    assert ApiToken.objects.filter(name="new").count() == 1


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"scopes": []}, "scopes"),
        ({"scopes": ["root"]}, "scopes[0]"),
        ({"scopes": None}, "scopes"),
        ({"name": ""}, "name"),
        ({"name": "a/b"}, "name"),
        ({"name": "a\u202eb"}, "name"),
        ({"name": "x" * 64}, "name"),
        ({"expiresAt": "tomorrow"}, "expiresAt"),
        ({"expiresAt": "2027-01-01"}, "expiresAt"),
        ({"expiresAt": "0001-01-01T00:00:00+14:00"}, "expiresAt"),
        ({"expiresAt": "2020-01-01T00:00:00Z"}, "expiresAt"),
        ({"owner": "unknown"}, "owner"),
        ({"owner": "stranger"}, "owner"),
        ({"owner": "viewer", "scopes": ["write"]}, "scopes"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_an_invalid_token_is_a_400_and_leaves_nothing(
    tenant: Tenant, fields: dict[str, object], field: str
) -> None:
    member(tenant, "viewer", Role.VIEWER)
    User.objects.create_user("stranger")
    api = api_of(tenant)

    answer = api.post(TOKENS, new() | fields)

    assert (answer.status, answer.fields) == (400, [field])
    assert ApiToken.objects.count() == 1
    assert not Operation.objects.exists()


@pytest.mark.parametrize(
    ("own", "wanted"),
    [
        (("read", "write", "admin"), "payloads"),
        (("read", "write", "admin"), "user"),
        (("user", "admin"), "operator"),
        (("write", "admin"), "read"),
        (("user",), "admin"),
    ],
)
def test_no_token_grants_more_than_its_own(
    tenant: Tenant, own: tuple[str, ...], wanted: str
) -> None:
    ada = member(tenant, "ada", Role.ADMIN)

    answer = api_of(tenant, *own, owner=ada).post(TOKENS, new(scopes=[wanted]))

    assert (answer.status, answer.fields) == (403, ["scopes"])
    assert ApiToken.objects.count() == 1


def test_the_alias_and_its_scopes_grant_the_same(tenant: Tenant) -> None:
    api = api_of(tenant, "read", "write", "payloads", "admin")

    assert api.post(TOKENS, new(scopes=["user"])).status == 201


def test_a_member_creates_lists_and_revokes_its_own_tokens_only(tenant: Tenant) -> None:
    ada, bob = member(tenant, "ada", Role.MEMBER), member(tenant, "bob", Role.MEMBER)
    api, of_bob = api_of(tenant, "user", owner=ada), api_of(tenant, "user", owner=bob, name="bobs")

    created = api.post(TOKENS, new())
    assert (created.status, created.data["owner"]) == (201, "ada")
    assert api.post(TOKENS, new("other", owner="bob")).status == 403
    assert names(api.get(TOKENS).data) == {"new", "token-0"}
    assert names(of_bob.get(TOKENS).data) == {"bobs"}
    missing = api.delete(f"{TOKENS}/unknown")
    foreign = api.delete(f"{TOKENS}/bobs")
    assert (missing.status, foreign.status) == (404, 404)
    assert (
        str(foreign.json["error"]["message"]).replace("bobs", "unknown")
        == (missing.json["error"]["message"])
    )
    assert of_bob.get(ME).status == 200
    assert api.delete(f"{TOKENS}/new").data["revokedAt"]
    assert with_token(created.data["token"]).get(ME).status == 401


def test_an_admin_creates_tokens_of_members_and_of_the_tenant(tenant: Tenant) -> None:
    member(tenant, "ada", Role.VIEWER)
    api = api_of(tenant)

    assert api.post(TOKENS, new("of-ada", owner="ada")).data["owner"] == "ada"
    assert api.post(TOKENS, new("of-tenant")).data["owner"] is None
    assert names(api.get(TOKENS).data) == {"of-ada", "of-tenant", "token-0"}


def test_a_token_without_an_owner_creates_none_but_revokes_itself(tenant: Tenant) -> None:
    api = api_of(tenant, "user", name="ci")

    assert api.post(TOKENS, new()).status == 403
    assert names(api.get(TOKENS).data) == {"ci"}
    assert api.delete(f"{TOKENS}/ci").status == 200
    assert api.get(ME).status == 401


def test_a_token_is_revoked_again_and_before_a_recovery(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = api_of(tenant)
    api_of(tenant, name="leaked")
    monkeypatch.setattr(gate, "awaits_recovery", lambda: True)

    first, again = api.delete(f"{TOKENS}/leaked"), api.delete(f"{TOKENS}/leaked")

    assert first.data["revokedAt"] == again.data["revokedAt"] is not None
    assert api.post(TOKENS, new()).code == "recovery_needed"


def test_tokens_of_another_tenant_are_not_there(tenant: Tenant) -> None:
    other = Tenant.objects.create(name="beta", namespace="tenant-beta")
    api_of(other, name="theirs")
    api = api_of(tenant)

    assert names(api.get(TOKENS).data) == {"token-0"}
    assert api.delete(f"{TOKENS}/theirs").status == 404
    assert ApiToken.objects.get(name="theirs").revoked_at is None


def test_a_token_expires_at_its_time(tenant: Tenant) -> None:
    soon = clock.rfc3339(clock.now() + timedelta(hours=1))
    created = api_of(tenant).post(TOKENS, new(expiresAt=soon))
    assert created.data["expiresAt"] == soon

    ApiToken.objects.filter(name="new").update(expires_at=clock.now() - timedelta(seconds=1))

    assert with_token(created.data["token"]).get(ME).status == 401


def test_me_describes_the_token(tenant: Tenant) -> None:
    ada = member(tenant, "ada", Role.VIEWER)

    me = api_of(tenant, Scope.USER, owner=ada, name="laptop").get(ME).data

    assert me == {
        "tenant": "default",
        "user": "ada",
        "role": "viewer",
        "token": "laptop",
        "scopes": ["user"],
        "permissions": ["read", "token"],
        "expiresAt": None,
    }
