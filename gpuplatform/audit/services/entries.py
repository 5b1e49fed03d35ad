"""Inserts entries: one statement each, which reads nothing.

An entry about an accepted write belongs to the transaction of the write. Other entries are
inserted in their own transaction, which ends before the response is sent.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db import connection

from gpuplatform.api.trace_id import request_trace_id
from gpuplatform.audit.models import AuditEntry, Outcome
from gpuplatform.audit.origin import current_address
from gpuplatform.postgresql.tenant_rows import all_rows
from gpuplatform.tenancy.actor import Actor, acting

_TEXTS: Final = tuple(
    (field.attname, field.max_length)
    for field in AuditEntry._meta.concrete_fields  # noqa: SLF001 - Django's public name
    if field.max_length is not None
)
_COLUMNS: Final = (*(name for name, _ in _TEXTS), "changes", "xact")
_TABLE: Final = AuditEntry._meta.db_table  # noqa: SLF001 - as above
_VALUES: Final = (
    f"{', '.join(['%s'] * len(_TEXTS))}, %s::jsonb, pg_current_xact_id()::text::bigint"
)

PAGE_SECONDS: Final = 600
"""The shortest time in seconds between two equal entries about a page of the admin."""

INSERT: Final = f"INSERT INTO {_TABLE} ({', '.join(_COLUMNS)}) "
_ALWAYS: Final = f"{INSERT} VALUES ({_VALUES})"
_ONCE: Final = f"""{INSERT} SELECT {_VALUES}
WHERE NOT EXISTS (
    SELECT FROM {_TABLE} WHERE outcome = 'observed' AND object_uid = %s AND actor = %s
    AND (changes @> %s::jsonb OR changes @> %s::jsonb))
"""  # noqa: S608 - constants


_RARELY: Final = f"""{INSERT} SELECT {_VALUES}
WHERE NOT EXISTS (
    SELECT FROM {_TABLE} WHERE actor = %s AND verb = %s AND outcome = 'read' AND object_kind = %s
    AND object_namespace = %s AND object_name = %s
    AND at > now() - interval '{PAGE_SECONDS} seconds')
"""  # noqa: S608 - constants


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The content of an entry. The request determines the actor, the address and the traceID."""

    outcome: Outcome
    verb: str
    tenant: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    operation_id: str = ""
    code: str = ""
    changes: Sequence[Mapping[str, Any]] = ()
    actor: Actor | None = None
    """The actor; by default the actor of the request."""
    address: str | None = None
    """The address; by default the address of the client of the request."""


@all_rows()
def entry_insert(entry: Entry) -> None:
    """Insert an entry, in the transaction of the caller if there is one.

    Statements of tenants have no privilege for the table, not even to insert rows.
    """
    with connection.cursor() as cursor:
        cursor.execute(_ALWAYS, _values(entry))


def entry_insert_once(entry: Entry, *keys: Mapping[str, Any]) -> None:
    """Insert an observed change, unless its actor has one with one of two changes (`keys`)."""
    first, second = (json.dumps([key]) for key in keys)
    values = _values(entry)
    actor = entry.actor.name if entry.actor else ""
    with connection.cursor() as cursor:
        cursor.execute(_ONCE, [*values, _text(entry.uid), _text(actor), first, second])


def secret_read(
    verb: str, kind: str, *, tenant: str, name: str = "", namespace: str = "", uid: str = ""
) -> None:
    """Record that the current request reads something secret, before it gets the response."""
    entry_insert(
        Entry(
            outcome=Outcome.READ,
            verb=verb,
            tenant=tenant,
            kind=kind,
            namespace=namespace,
            name=name,
            uid=uid,
        )
    )


def page_read(verb: str, row_of: Mapping[str, Any]) -> None:
    """Record that a page of the admin shows something secret.

    Open pages load their parts again: the entry is omitted if the user has the same one that is at
    most `PAGE_SECONDS` old. `row_of` has the fields of the object.
    """
    entry = Entry(outcome=Outcome.READ, verb=verb, **row_of)
    texts = (acting().name, entry.verb, entry.kind, entry.namespace, entry.name)
    with connection.cursor() as cursor:
        cursor.execute(_RARELY, [*_values(entry), *map(_text, texts)])


def _values(entry: Entry) -> list[Any]:
    actor = acting() if entry.actor is None else entry.actor
    given = {
        "actor_kind": actor.kind.value,
        "actor_id": actor.key,
        "actor": actor.name,
        "tenant": entry.tenant,
        "address": current_address() if entry.address is None else entry.address,
        "trace_id": request_trace_id(),
        "verb": entry.verb,
        "object_kind": entry.kind,
        "object_namespace": entry.namespace,
        "object_name": entry.name,
        "object_uid": entry.uid,
        "operation_id": entry.operation_id,
        "outcome": entry.outcome.value,
        "code": entry.code,
    }
    texts = [_text(given[name])[:length] for name, length in _TEXTS]
    changes = json.dumps(list(entry.changes), ensure_ascii=False)
    return [*texts, _text(changes.replace("\\u0000", "\\ufffd"))]


def _text(value: str) -> str:
    """Return a text that the database can store: callers choose some names freely."""
    return value.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")
