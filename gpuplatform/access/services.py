"""Accepts changes of members, and creates and revokes tokens for callers of the API.

The rows exist in the database only. The transaction that accepts a request also writes them; the
operation has nothing else to execute.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from django.contrib.auth.models import User
from django.db import transaction

from gpuplatform import clock
from gpuplatform.access.requests import MemberBody, TokenCreate
from gpuplatform.access.selectors import member_named, members_of, subject_of, visible_tokens
from gpuplatform.audit.core.changes import Target, changed_fields
from gpuplatform.audit.models import Outcome
from gpuplatform.audit.services.entries import Entry, entry_insert
from gpuplatform.errors import FieldError, NotAllowed, NotFound
from gpuplatform.formats.model import invalid_spec
from gpuplatform.operations.models import Operation
from gpuplatform.operations.services import Accepted, Request, operation_accept
from gpuplatform.postgresql.tenant_rows import all_rows
from gpuplatform.tenancy.callers import Caller
from gpuplatform.tenancy.models import ApiToken, Tenant
from gpuplatform.tenancy.permissions import Permission, Role, permissions_of_scopes
from gpuplatform.tenancy.selectors import permissions_of_owner
from gpuplatform.tenancy.services import member_delete, member_set, token_create, token_revoke

MEMBER_KIND: Final = "Member"
"""Object kind of members in operations. It is not a Kubernetes kind."""
TOKEN_KIND: Final = "Token"  # noqa: S105 - not a secret


class AccessOperation(StrEnum):
    """The kinds of operation on members and tokens."""

    UPDATE_MEMBER = "member.update"
    DELETE_MEMBER = "member.delete"
    CREATE_TOKEN = "token.create"  # noqa: S105 - not a secret


@dataclass(frozen=True, slots=True)
class CreatedToken:
    """A token that a request created. The secret is `None` if the request is a replay."""

    token: ApiToken
    secret: str | None


def member_put(*, asked_in: Tenant, tenant: Tenant, name: str, body: MemberBody) -> Accepted:
    """Set the role of a member of `tenant`. The operation belongs to the tenant `asked_in`.

    Raises:
        NotFound: If no user has this name.
        OperationConflict: If the operationID belongs to another request.
    """

    def prepare(operation: Operation) -> int:
        user, group = subject_of(name)
        known = members_of(tenant).filter(user=user, group=group).values_list("role", flat=True)
        operation.target = Target(before={"role": known.first()}, tenant=tenant.name)
        return member_set(tenant=tenant, user=user, group=group, role=Role(body.role)).pk

    kind = AccessOperation.UPDATE_MEMBER
    request = _request(asked_in, tenant, body.operation_id, kind, name, body.payload())
    return operation_accept(request, prepare=prepare)


def member_remove(*, asked_in: Tenant, tenant: Tenant, name: str, operation_id: str) -> Accepted:
    """Delete a member of `tenant`. The member's tokens lose its permissions immediately.

    Raises:
        NotFound: If the tenant has no such member.
        OperationConflict: If the operationID belongs to another request.
    """

    def prepare(operation: Operation) -> int:
        row = member_named(tenant, name)
        operation.target = Target(before={"role": row.role}, tenant=tenant.name)
        key: int = row.pk
        member_delete(row)
        return key

    kind = AccessOperation.DELETE_MEMBER
    request = _request(asked_in, tenant, operation_id, kind, name, {})
    return operation_accept(request, prepare=prepare)


def token_issue(*, caller: Caller, body: TokenCreate) -> CreatedToken:
    """Create a token with at most the permissions of the caller and of its owner.

    Raises:
        NotAllowed: If the caller may not create the token.
        InvalidSpec: If the owner is not a member or its role does not allow the scopes, or if the
            token would already have expired.
        NameConflict: If the tenant already has a token with this name.
        OperationConflict: If the operationID belongs to another request.
        NotFound: If the request is a replay and the token was deleted with its owner.
    """
    _check_scopes(caller, body)
    owner = _owner(caller, body)
    secrets: list[str] = []

    def prepare(_: Operation) -> int:
        _check_new(caller, body, owner)
        token, secret = token_create(
            tenant=caller.tenant,
            name=body.name,
            scopes=set(body.scopes),
            expires_at=body.expiry,
            owner=owner,
        )
        secrets.append(secret)
        return token.pk

    kind, payload = AccessOperation.CREATE_TOKEN, body.payload()
    request = Request(
        caller.tenant,
        body.operation_id,
        kind,
        TOKEN_KIND,
        caller.tenant.namespace,
        body.name,
        payload,
    )
    accepted = operation_accept(request, prepare=prepare)
    row = accepted.operation.object_row or 0
    token = ApiToken.objects.select_related("owner").filter(pk=row).first()
    if token is None:
        raise NotFound(f"The token '{body.name}' was deleted with the account of its owner.")
    return CreatedToken(token, None if accepted.is_replay else secrets[-1])


def token_create_recorded(
    *,
    tenant: Tenant,
    name: str,
    scopes: Collection[str],
    owner: User | None,
    expires_at: datetime | None,
) -> tuple[ApiToken, str]:
    """Create a token without an operation, with its audit entry. Returns it with its secret.

    Raises:
        NameConflict: If the tenant already has a token with this name.
        QuotaExceeded: If the tenant has the maximum number of tokens.
    """
    given = {
        "name": name,
        "scopes": sorted(scopes),
        "owner": owner and owner.username,
        "expiresAt": expires_at and expires_at.isoformat(),
    }
    with transaction.atomic():
        token, secret = token_create(
            tenant=tenant, name=name, scopes=scopes, owner=owner, expires_at=expires_at
        )
        known = {field: value for field, value in given.items() if value is not None}
        entry_insert(_token_entry(token, "create", changed_fields(None, known)))
    return token, secret


def token_withdraw(*, caller: Caller, name: str) -> ApiToken:
    """Revoke a token that the caller may see, and return it. Revoking it again has no effect.

    It is not an operation, so that a leaked token can also be revoked before a recovery.

    Raises:
        NotFound: If the caller sees no token with this name.
    """
    token = visible_tokens(caller).filter(name=name).first()
    if token is None:
        msg = f"The token '{name}' does not exist. List the tokens."
        raise NotFound(msg)
    with transaction.atomic():
        if token_revoke(token):
            entry_insert(_token_entry(token, "revoke"))
    token.refresh_from_db(fields=["revoked_at"])
    return token


def _token_entry(token: ApiToken, verb: str, changes: Sequence[Mapping[str, Any]] = ()) -> Entry:
    """Return the audit entry about a token that a request without an operation changed."""
    return Entry(
        outcome=Outcome.ACCEPTED,
        verb=verb,
        tenant=token.tenant.name,
        kind=TOKEN_KIND,
        namespace=token.tenant.namespace,
        name=token.name,
        changes=changes,
    )


def _request(
    asked_in: Tenant,
    tenant: Tenant,
    operation_id: str,
    kind: AccessOperation,
    name: str,
    payload: dict[str, Any],
) -> Request:
    """Return the request about a member. The payload names a tenant that is not the caller's."""
    named = payload if asked_in == tenant else {**payload, "tenant": tenant.name}
    return Request(asked_in, operation_id, kind, MEMBER_KIND, tenant.namespace, name, named)


def _check_scopes(caller: Caller, body: TokenCreate) -> None:
    if permissions_of_scopes(body.scopes) <= caller.permissions | {Permission.TOKEN}:
        return
    message = "Must not grant more than the token of the request has."
    raise NotAllowed(f"scopes: {message}", details=[FieldError("scopes", message)])


@all_rows()
def _owner(caller: Caller, body: TokenCreate) -> User | None:
    """Return the owner of a new token.

    A token without an owner creates no tokens unless it has the permission to manage them, so that
    a leaked token cannot outlive its revocation.
    """
    own = caller.token.owner if caller.token else None
    if caller.may(Permission.ADMIN):
        if body.owner is None:
            return None
        return User.objects.filter(username=body.owner).first() or _no_member(body.owner)
    if own is None:
        msg = (
            "A token without an owner cannot create tokens. Ask an admin of the tenant for a token"
            " that you own."
        )
        raise NotAllowed(msg)
    if body.owner not in {None, own.get_username()}:
        message = "Only an admin of the tenant creates tokens for other members."
        raise NotAllowed(f"owner: {message}", details=[FieldError("owner", message)])
    return own


def _check_new(caller: Caller, body: TokenCreate, owner: User | None) -> None:
    """Check what can change between a request and its replay."""
    if body.expiry is not None and body.expiry <= clock.now():
        raise invalid_spec([FieldError("expiresAt", "Must be in the future.")])
    if owner is None:
        return
    with all_rows():
        allowed = permissions_of_owner(owner, caller.tenant)
    if not allowed:
        _no_member(owner.get_username())
    if not permissions_of_scopes(body.scopes) <= allowed | {Permission.TOKEN}:
        message = f"The role of '{owner.get_username()}' does not allow all of these scopes."
        raise invalid_spec([FieldError("scopes", message)])


def _no_member(name: str) -> User:
    message = f"'{name}' is not a member of the tenant."
    raise invalid_spec([FieldError("owner", message)])
