"""Records the logins to the admin and the forms of the admin.

An action of the admin that accepts an operation is recorded as the operation.
"""

from collections.abc import Mapping
from typing import Any, Final

from typing_extensions import override

from gpuplatform.adminkit.lists.form_values import Changed
from gpuplatform.adminkit.lists.journal import Observer
from gpuplatform.audit.core.changes import MAX_CHANGES, MAX_TEXT, changed_fields
from gpuplatform.audit.models import Outcome
from gpuplatform.audit.services.anonymous import is_recorded
from gpuplatform.audit.services.entries import Entry, entry_insert, page_read
from gpuplatform.tenancy.actor import Actor, ActorKind

_KINDS: Final[Mapping[str, str]] = {
    "ActiveUnit": "GPUUnit",
    "ApiToken": "Token",
    "GpuSpec": "GPUSpec",
    "GpuUnit": "GPUUnit",
    "Membership": "Member",
    "StockUnit": "GPUUnit",
}
"""The kinds of objects that are not named like their model."""

_NAMES: Final[Mapping[str, str]] = {
    "Function": "request_id",
    "Invocation": "invocation_id",
    "Operation": "operation_id",
    "User": "username",
}
"""The columns with the name of a row, if they are not `name`."""

LOGIN_VERB: Final = "login"
SUCCEEDED: Final = "succeeded"


class AdminAudit(Observer):
    """The observer that writes audit entries."""

    @override
    def login(self, outcome: str, name: str, address: str) -> None:
        """Insert an entry. A failed attempt has the name as it was typed."""
        is_done = outcome == SUCCEEDED
        if not is_done and not is_recorded(address):
            return
        actor = Actor(f"admin user '{name}'" if is_done else "", _login_kind(is_done=is_done))
        entry_insert(
            Entry(
                outcome=Outcome.ACCEPTED if is_done else Outcome.REJECTED,
                verb=LOGIN_VERB,
                kind="User",
                name=name,
                code="" if is_done else f"login_{outcome}",
                actor=actor,
                address=address,
            )
        )

    @override
    def form_saved(self, row: Any, verb: str, message: Any, changed: Changed | None) -> None:
        """Insert an entry with the changed values, or with the text of an action."""
        changes = _changes(message) if changed is None else changed_fields(*changed)
        entry_insert(Entry(outcome=Outcome.ACCEPTED, verb=verb, changes=changes, **_of(row)))

    @override
    def log_shown(self, row: Any) -> None:
        """Insert an entry, unless the user has a recent one about the same row."""
        page_read("read-logs", _of(row))

    @override
    def action_rejected(self, row: Any, label: str, code: str) -> None:
        """Insert an entry with the error code."""
        entry_insert(Entry(outcome=Outcome.REJECTED, verb=label, code=code, **_of(row)))


def _login_kind(*, is_done: bool) -> ActorKind:
    return ActorKind.USER if is_done else ActorKind.ANONYMOUS


def _of(row: Any) -> dict[str, Any]:
    """Return the kind, name, namespace, UID and tenant of a row."""
    # The user of a request is a lazy object, whose type is not the model.
    model = row._meta.object_name  # noqa: SLF001 - Django's public name
    name = getattr(row, _NAMES.get(model, "name"), None) or str(row)
    tenant = row if model == "Tenant" else getattr(row, "tenant", None)
    return {
        "kind": _KINDS.get(model, model),
        "namespace": str(getattr(row, "namespace", "") or ""),
        "name": str(name),
        "uid": str(getattr(row, "uid", "") or ""),
        "tenant": "" if tenant is None else tenant.name,
    }


def _changes(message: Any) -> list[dict[str, Any]]:
    if isinstance(message, str):
        return [{"message": message[:MAX_TEXT]}] if message else []
    found: list[dict[str, Any]] = []
    for one in message or ():
        for change in one.values():
            fields = change.get("fields", ()) if isinstance(change, Mapping) else ()
            found += [{"field": str(name)} for name in fields]
    return found[:MAX_CHANGES]
