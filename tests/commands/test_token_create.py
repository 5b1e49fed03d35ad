"""`manage.py token_create`."""

from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from gpuplatform.audit.models import AuditEntry, Outcome
from gpuplatform.tenancy.models import ApiToken
from gpuplatform.tenancy.services import token_used

pytestmark = pytest.mark.django_db


def test_it_prints_the_secret_alone() -> None:
    out, errors = StringIO(), StringIO()

    call_command(
        "token_create", "ci", "--scope", "operator", "--days", "30", stdout=out, stderr=errors
    )

    secret = out.getvalue().strip()
    token = token_used(secret)
    assert token is not None
    assert token.scopes == ["operator"]
    assert token.expires_at is not None
    assert secret not in errors.getvalue()


def test_the_audit_log_has_an_entry_without_the_secret() -> None:
    out = StringIO()

    call_command("token_create", "ci", "--scope", "read", stdout=out, stderr=StringIO())

    entry = AuditEntry.objects.get()
    assert (entry.outcome, entry.verb, entry.tenant) == (Outcome.ACCEPTED, "create", "default")
    assert (entry.object_kind, entry.object_name) == ("Token", "ci")
    assert entry.actor == "manage.py token_create"
    assert entry.changes == [{"field": "name", "to": "ci"}, {"field": "scopes", "to": ["read"]}]
    assert out.getvalue().strip() not in str(AuditEntry.objects.values())


def test_without_a_scope_it_is_a_users() -> None:
    call_command("token_create", "ci", stdout=StringIO(), stderr=StringIO())

    assert ApiToken.objects.get().scopes == ["user"]


def test_a_token_can_have_an_owner() -> None:
    ada = User.objects.create_user("ada")

    call_command(
        "token_create",
        "ci",
        "--owner",
        "ada",
        "--scope",
        "read",
        stdout=StringIO(),
        stderr=StringIO(),
    )

    assert ApiToken.objects.get().owner == ada


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["ci", "--tenant", "nobody"], "'nobody'"),
        (["ci", "--owner", "unknown"], "'unknown'"),
        (["ci", "--days", "0"], "--days"),
        ([" "], "name"),
        (["a\x00b"], "name"),
        (["x" * 64], "name"),
    ],
)
def test_an_invalid_argument_is_an_error(arguments: list[str], problem: str) -> None:
    with pytest.raises(CommandError, match=problem):
        call_command("token_create", *arguments, stdout=StringIO(), stderr=StringIO())

    assert not ApiToken.objects.exists()


def test_a_name_is_used_once() -> None:
    call_command("token_create", "ci", stdout=StringIO(), stderr=StringIO())

    with pytest.raises(CommandError, match="Choose another name"):
        call_command("token_create", "ci", stdout=StringIO(), stderr=StringIO())
