"""Writes the declared role, privileges and policies of tenants to the database.

The owner of the tables, which is the user of the platform, is not subject to policies. Only what
differs is written, since a policy locks its table for a moment.
"""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper
from django.db.utils import ProgrammingError
from psycopg.errors import InsufficientPrivilege

from gpuplatform.postgresql.tenant_rows import TENANT_ROLE
from gpuplatform.postgresql.tenant_tables import TABLES, TenantTable

_LOCK: Final = 0x726F_7773_6563_7572
"""Key of the lock of a synchronization: "rowsecur" in ASCII."""

_HAS_SET_OPTION: Final = 160_000
"""The version of PostgreSQL since which a membership has the options `INHERIT` and `SET`."""

_CREATE: Final = """
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{role}') THEN
        CREATE ROLE {role} NOLOGIN;
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
END $$
"""
"""Another database of the server may create the role at the same time."""

_JOIN: Final = """
DO $$ BEGIN
    IF NOT pg_has_role('{role}', '{option}') THEN
        GRANT {role} TO CURRENT_USER{options};
    END IF;
EXCEPTION WHEN unique_violation THEN NULL;
END $$
"""

_USE_SCHEMA: Final = """
DO $$ BEGIN
    IF NOT has_schema_privilege('{role}', current_schema(), 'USAGE') THEN
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO {role}', current_schema());
    END IF;
END $$
"""

_STATE: Final = """
SELECT c.relname, c.relrowsecurity,
       ARRAY(SELECT a.privilege_type FROM aclexplode(c.relacl) a WHERE a.grantee = r.oid)
       || ARRAY(SELECT format('%%s (%%s)', a.privilege_type, col.attname)
                FROM pg_attribute col, aclexplode(col.attacl) a
                WHERE col.attrelid = c.oid AND a.grantee = r.oid),
       ARRAY(SELECT COALESCE(obj_description(p.oid, 'pg_policy'), p.polname)
             FROM pg_policy p WHERE p.polrelid = c.oid)
FROM pg_class c, pg_roles r
WHERE r.rolname = %s AND c.relkind IN ('r', 'p')
  AND c.relnamespace = current_schema()::regnamespace
ORDER BY c.relname
"""


class _State(NamedTuple):
    """What a table has, or should have."""

    is_restricted: bool = False
    privileges: frozenset[str] = frozenset()
    policies: frozenset[str] = frozenset()
    """The digests of the statements that create its policies, which are their comments."""


class MissingRole(Exception):
    """The user of the database may not create the role. The message is the next step."""


def row_security_sync(tables: Iterable[TenantTable] = TABLES) -> None:
    """Write the role, the privileges and the policies that differ. Idempotent.

    Declared tables that do not exist yet are left out.

    Raises:
        MissingRole: If the role does not exist, and the user of the database may not create it.
    """
    declared = {one.name: one for one in tables}
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        ensure_role()
        cursor.execute(_STATE, [TENANT_ROLE])
        for name, is_restricted, privileges, policies in cursor.fetchall():
            state = _State(is_restricted, frozenset(privileges), frozenset(policies))
            table = declared.get(name)
            if state != _wanted(table):
                _write(cursor, name, table)


def ensure_role(role: str = TENANT_ROLE) -> None:
    """Create a role if it does not exist, and let the current user set it.

    Raises:
        MissingRole: If the user of the database may not create it.
    """
    with connection.cursor() as cursor:
        has_option = cursor.connection.info.server_version >= _HAS_SET_OPTION
        names = {
            "role": role,
            "option": "SET" if has_option else "MEMBER",
            "options": " WITH INHERIT FALSE, SET TRUE" if has_option else "",
        }
        try:
            for statement in (_CREATE, _JOIN, _USE_SCHEMA):
                cursor.execute(statement.format(**names))
        except ProgrammingError as error:
            if isinstance(error.__cause__, InsufficientPrivilege):
                raise MissingRole(_missing_role(role)) from error
            raise


def _missing_role(role: str) -> str:
    user = connection.settings_dict["USER"]
    return (
        f"The user '{user}' of the database may not create the role '{role}', which restricts"
        " requests to the rows of their tenant. Let an administrator of the database execute:"
        f' CREATE ROLE {role} NOLOGIN; GRANT {role} TO "{user}";'
    )


def _wanted(table: TenantTable | None) -> _State:
    if table is None:
        return _State()
    digests = frozenset(_digest(statement) for _, statement in _policies(table))
    return _State(bool(digests), frozenset(table.privileges), digests)


def _policies(table: TenantTable) -> Iterator[tuple[str, str]]:
    """Yield the names of the policies of a table and the statements that create them."""
    of_role = f"TO {TENANT_ROLE} USING"
    if table.rows:
        yield "tenant_rows", f"CREATE POLICY tenant_rows ON {table.name} {of_role} ({table.rows})"
    if table.rows_to_read:
        create = f"CREATE POLICY tenant_reads ON {table.name} FOR SELECT"
        yield "tenant_reads", f"{create} {of_role} ({table.rows_to_read})"


def _digest(statement: str) -> str:
    return hashlib.sha256(statement.encode()).hexdigest()


def _write(cursor: CursorWrapper, name: str, table: TenantTable | None) -> None:
    """Replace the privileges and the policies of a table with its declared ones."""
    quoted = connection.ops.quote_name(name)
    cursor.execute("SELECT polname FROM pg_policy WHERE polrelid = %s::regclass", [quoted])
    for (policy,) in cursor.fetchall():
        cursor.execute(f"DROP POLICY {connection.ops.quote_name(policy)} ON {quoted}")
    # The privileges of columns are revoked with the ones of the table.
    cursor.execute(f"REVOKE ALL ON {quoted} FROM {TENANT_ROLE}")
    if table is not None and table.privileges:
        cursor.execute(f"GRANT {', '.join(table.privileges)} ON {quoted} TO {TENANT_ROLE}")
    policies = [] if table is None else list(_policies(table))
    for policy, statement in policies:
        cursor.execute(statement)
        cursor.execute(f"COMMENT ON POLICY {policy} ON {quoted} IS '{_digest(statement)}'")
    action = "ENABLE" if policies else "DISABLE"
    cursor.execute(f"ALTER TABLE {quoted} {action} ROW LEVEL SECURITY")
