"""Each table of tenants has a policy, and statements of tenants can use only declared tables."""

from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.db import connection, models

from gpuplatform.postgresql.tenant_rows import TENANT_ROLE, TenantRowsMiddleware
from gpuplatform.postgresql.tenant_tables import TABLES
from gpuplatform.tenancy.models import Tenant
from tests.contract.source_files import is_test, name_of, python_files

pytestmark = pytest.mark.django_db

LIFTED = {
    "gpuplatform/access/selectors.py",
    "gpuplatform/access/services.py",
    "gpuplatform/audit/services/entries.py",
    "gpuplatform/tenancy/callers.py",
    "units/drain_progress.py",
    "units/services/queue.py",
    "units/waiting.py",
    "units/waiting_units.py",
}
"""The modules that lift the restriction. Review what their results contain before you add one."""


def tables_of_tenants() -> set[str]:
    """Return the tables with a foreign key to a tenant, or to another such table."""
    rows = [model for model in apps.get_models() if not model._meta.proxy]
    found: set[type[models.Model]] = {Tenant}
    while more := {model for model in rows if model not in found and found & referred(model)}:
        found |= more
    return {model._meta.db_table for model in found}


def referred(model: type[models.Model]) -> set[Any]:
    fields = model._meta.get_fields()
    return {one.related_model for one in fields if isinstance(one, models.ForeignKey)}


def fetched(sql: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, [TENANT_ROLE])
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def test_each_table_of_tenants_has_a_policy() -> None:
    restricted = fetched(
        "SELECT c.relname FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid"
        " WHERE c.relrowsecurity AND to_regrole(%s)::oid = ANY(p.polroles)"
    )

    names = {name for (name,) in restricted}
    assert names >= tables_of_tenants()
    assert names == {one.name for one in TABLES if one.rows}


def test_a_table_that_belongs_to_a_tenant_through_another_is_found() -> None:
    assert tables_of_tenants() >= {
        *("tenancy_tenant", "units_gpuunit", "units_unithistory", "operations_operation"),
        *("serverless_webhooksecret", "units_preemptionnotice", "inventory_nodedrain"),
    }
    assert "inventory_gpuspec" not in tables_of_tenants()


def test_the_role_has_exactly_the_declared_privileges() -> None:
    of_tables = fetched(
        "SELECT table_name, privilege_type FROM information_schema.role_table_grants"
        " WHERE grantee = %s"
    )
    of_columns = fetched(
        "SELECT table_name, privilege_type || ' (' || column_name || ')'"
        " FROM information_schema.role_column_grants g WHERE grantee = %s AND NOT EXISTS ("
        "   SELECT FROM information_schema.role_table_grants t WHERE t.table_name = g.table_name"
        "   AND t.grantee = g.grantee AND t.privilege_type = g.privilege_type)"
    )

    declared = {(one.name, privilege) for one in TABLES for privilege in one.privileges}
    assert {*of_tables, *of_columns} == declared
    assert len(TABLES) == len({one.name for one in TABLES})


def test_the_role_is_subject_to_policies_and_nobody_logs_in_with_it() -> None:
    [attributes] = fetched(
        "SELECT rolsuper, rolbypassrls, rolcanlogin, rolcreaterole, rolcreatedb FROM pg_roles"
        " WHERE rolname = %s"
    )

    assert attributes == (False,) * 5


def test_the_middleware_surrounds_all_views() -> None:
    path = f"{TenantRowsMiddleware.__module__}.{TenantRowsMiddleware.__qualname__}"

    assert settings.MIDDLEWARE[-1] == path


def test_the_modules_that_lift_the_restriction_are_known() -> None:
    found = {
        name_of(path)
        for path in python_files()
        if not is_test(path) and "import all_rows" in path.read_text()
    }

    assert found == LIFTED
