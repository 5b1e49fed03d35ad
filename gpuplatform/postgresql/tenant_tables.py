"""The tables that statements of tenants can use, with the privileges and rows of each.

The only declaration: `row_security.py` writes it to the database. The role of tenants has no
privilege for a table that is not declared. A test compares the database and the models with it:
each table that belongs to a tenant, also through another table, has a line.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpuplatform.postgresql.tenant_rows import TENANT_SETTING

TENANT: Final = f"(SELECT NULLIF(current_setting('{TENANT_SETTING}', true), '')::bigint)"
"""The id of the tenant, or null. As a subquery, it is evaluated once for each statement."""

OWN: Final = f"tenant_id = {TENANT}"
"""The condition of the rows of a table with a column `tenant_id`."""

_READ: Final = ("SELECT",)
_WRITE: Final = ("SELECT", "INSERT", "UPDATE")
_DELETE: Final = (*_WRITE, "DELETE")

_OWN_UNIT: Final = f"""{OWN} OR (
    tenant_id IS NULL AND role = 'active'
    AND namespace = (SELECT namespace FROM tenancy_tenant WHERE id = {TENANT}))"""  # noqa: S608 - constants
"""A unit that was created with kubectl belongs to the tenant of its namespace."""


def _of(column: str, table: str, condition: str = "true") -> str:
    """Return the condition that a qualified column refers to a row of the tenant.

    The policies of the other table apply to the subquery.
    """
    return f"EXISTS (SELECT FROM {table} o WHERE o.id = {column} AND {condition})"


_MEMBER_OR_OWNER: Final = """EXISTS (
    SELECT FROM tenancy_membership m WHERE m.user_id = auth_user.id
) OR EXISTS (SELECT FROM tenancy_apitoken t WHERE t.owner_id = auth_user.id)"""


@dataclass(frozen=True, slots=True)
class TenantTable:
    """The privileges of tenants for a table, and the rows to which they apply."""

    name: str
    privileges: Sequence[str]
    rows: str
    """The condition of the rows, or an empty string if the table contains nothing of tenants."""
    rows_to_read: str = ""
    """The condition of rows that can only be read, in addition."""


TABLES: Final = (
    # The privilege to lock the row requires that one column can be updated.
    TenantTable("tenancy_tenant", ("SELECT", "UPDATE (id)"), f"id = {TENANT}"),
    TenantTable("tenancy_tenantlimit", _READ, OWN),
    TenantTable("tenancy_membership", _DELETE, OWN),
    TenantTable("tenancy_apitoken", _WRITE, OWN),
    TenantTable("auth_user", _READ, _MEMBER_OR_OWNER),
    TenantTable("operations_operation", _WRITE, OWN),
    TenantTable("units_gpuunit", _WRITE, _OWN_UNIT, rows_to_read="role = 'stock'"),
    TenantTable(
        "units_unithistory",
        ("SELECT", "INSERT"),
        _of("units_unithistory.unit_id", "units_gpuunit", "o.role = 'active'"),
    ),
    TenantTable("units_capacityrequest", _WRITE, OWN),
    TenantTable("serverless_function", _WRITE, OWN),
    TenantTable("serverless_invocation", _WRITE, OWN),
    TenantTable(
        "serverless_webhooksecret",
        _DELETE,
        _of("serverless_webhooksecret.function_id", "serverless_function"),
    ),
    TenantTable("usage_usagerecord", _READ, OWN),
    # Only the platform reads these.
    TenantTable("tenancy_identity", (), _of("tenancy_identity.user_id", "auth_user")),
    TenantTable("usage_usageinterval", (), OWN),
    TenantTable("usage_tenantdecay", (), OWN),
    TenantTable("inventory_stockpool", (), OWN),
    TenantTable(
        "inventory_nodedrain", (), _of("inventory_nodedrain.operation_id", "operations_operation")
    ),
    TenantTable(
        "units_preemptionnotice",
        (),
        _of("units_preemptionnotice.unit_id", "units_gpuunit", "o.role = 'active'"),
    ),
    # These contain nothing of tenants.
    TenantTable("inventory_gpuspec", _READ, ""),
    TenantTable("reconciliation_clusterstate", _READ, ""),
)
