"""Statements of a tenant see and change only its rows, whatever their conditions are."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any
from uuid import uuid4

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.db import ProgrammingError, connection, models, transaction
from django.http import HttpRequest, StreamingHttpResponse
from psycopg.errors import InsufficientPrivilege

from gpuplatform.clock import now
from gpuplatform.errors import InvariantBroken
from gpuplatform.operations.models import Operation
from gpuplatform.postgresql.row_security import MissingRole, ensure_role, row_security_sync
from gpuplatform.postgresql.tenant_rows import (
    TENANT_ROLE,
    TenantRowsMiddleware,
    all_rows,
    restrict_rows,
    rows_of_tenant,
)
from gpuplatform.postgresql.tenant_tables import OWN, TABLES, TenantTable
from gpuplatform.tenancy.models import Membership, Tenant, TenantLimit
from gpuplatform.tenancy.permissions import Role
from gpuplatform.usage.models import UsageKind, UsageRecord
from serverless.models import Function, Invocation, WebhookSecret
from tests.factories.people import api_of, member
from tests.factories.serverless import accept, function_row
from tests.factories.unit_rows import stock_row, unit_row
from tests.fakes.installed import broker, cluster
from tests.fakes.threads import at_once
from units.models import CapacityRequest, GpuUnit, UnitHistory
from units.phases import UnitRole

__all__ = ["broker", "cluster"]

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("broker", "cluster")]

NAMES = ("alpha", "beta")


@pytest.fixture
def tenants() -> list[Tenant]:
    """Two tenants with one row of each kind."""
    found = []
    for name in NAMES:
        tenant = Tenant.objects.create(name=name, namespace=f"tenant-{name}")
        found.append(tenant)
        unit = unit_row(name=name, tenant=tenant, namespace=tenant.namespace, spec={})
        UsageRecord.objects.create(
            id=uuid4(),
            hour=now(),
            tenant=tenant,
            kind=UsageKind.GPU,
            subject=name,
            subject_name=name,
            milliseconds=1,
        )
        UnitHistory.objects.create(unit=unit, phase="Ready", message=name)
        function = function_row(name, tenant=tenant)
        CapacityRequest.objects.create(
            operation=function.operation,
            tenant=tenant,
            unit=unit,
            spec_name="g1.1",
            expires_at=now(),
        )
        WebhookSecret.objects.create(function=function, salt=name)
        accept(function, name, invocationID=name)
        TenantLimit.objects.create(tenant=tenant, resource="gpus", hard=8)
        member(tenant, name, Role.VIEWER)
        api_of(tenant)
    return found


def rows_of(tenant: Tenant) -> AbstractContextManager[None]:
    return rows_of_tenant(lambda: tenant.pk)


def texts(model: type[models.Model]) -> str:
    """Return all rows that the statement without a condition returns, as text."""
    return repr(list(model._default_manager.values()))


OF_TENANTS = [GpuUnit, UnitHistory, Function, Invocation, WebhookSecret, Tenant, User]


@pytest.mark.parametrize("model", OF_TENANTS)
def test_a_statement_without_a_condition_returns_the_rows_of_the_tenant(
    model: type[models.Model], tenants: list[Tenant]
) -> None:
    with rows_of(tenants[1]):
        own = texts(model)

    assert "beta" in own
    assert "alpha" not in own
    assert "alpha" in texts(model)


READABLE = {one.name for one in TABLES if one.rows and "SELECT" in one.privileges}


@pytest.mark.parametrize(
    "model",
    [
        model
        for model in apps.get_models()
        if model._meta.db_table in READABLE and not model._meta.proxy and hasattr(model, "tenant")
    ],
)
def test_each_table_with_a_tenant_shows_the_rows_of_the_tenant(
    model: type[models.Model], tenants: list[Tenant]
) -> None:
    alpha, beta = (
        set(model._default_manager.filter(tenant=one).values_list("pk")) for one in tenants
    )
    assert alpha
    assert beta

    with rows_of(tenants[1]):
        # The order of some models would join the table of tenants, which is restricted itself.
        own = set(model._default_manager.order_by().values_list("pk"))

    assert own == beta


def test_the_restriction_applies_within_a_block_that_lifts_another(tenants: list[Tenant]) -> None:
    with rows_of(tenants[0]), all_rows():
        with rows_of(tenants[1]):
            names = list(Tenant.objects.values_list("name", flat=True))
        everyone = Tenant.objects.count()

    assert names == ["beta"]
    assert everyone > 1


def test_a_stream_remains_restricted_after_the_middleware(tenants: list[Tenant]) -> None:
    def view(_: HttpRequest) -> StreamingHttpResponse:
        restrict_rows(lambda: tenants[1].pk)
        return StreamingHttpResponse(
            name for _part in range(2) for name in Tenant.objects.values_list("name", flat=True)
        )

    response = TenantRowsMiddleware(view)(HttpRequest())

    assert isinstance(response, StreamingHttpResponse)
    assert list(response) == [b"beta", b"beta"]
    assert Tenant.objects.count() > 1


def test_another_tenant_has_no_row_to_change(tenants: list[Tenant]) -> None:
    with rows_of(tenants[1]):
        changed = GpuUnit.objects.filter(name="alpha").update(message="changed")
        deleted, _ = WebhookSecret.objects.all().delete()
        locked = list(Tenant.objects.select_for_update().values_list("name", flat=True))

    assert changed == 0
    assert deleted == 1
    assert locked == ["beta"]
    assert set(WebhookSecret.objects.values_list("salt", flat=True)) == {"alpha"}


def test_no_row_of_another_tenant_is_inserted_or_given_away(tenants: list[Tenant]) -> None:
    alpha, beta = tenants

    def insert() -> None:
        Membership.objects.create(tenant=alpha, group="g", role=Role.VIEWER)

    def give() -> None:
        Membership.objects.filter(tenant=beta).update(tenant=alpha)

    def add_history() -> None:
        UnitHistory.objects.create(unit=GpuUnit(pk=foreign), phase="Ready")

    foreign = GpuUnit.objects.get(name="alpha").pk
    with rows_of(beta):
        for write in (insert, give, add_history):
            rejected(write)


def rejected(write: Callable[[], object]) -> None:
    with pytest.raises(ProgrammingError) as raised, transaction.atomic():
        write()
    assert isinstance(raised.value.__cause__, InsufficientPrivilege)


@pytest.mark.parametrize("table", ["usage_usageinterval", "django_session", "inventory_node"])
def test_a_table_without_a_privilege_cannot_be_read(table: str, tenants: list[Tenant]) -> None:
    def read() -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {table}")

    with rows_of(tenants[1]):
        rejected(read)


def test_the_role_without_a_tenant_sees_nothing(tenants: list[Tenant]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL ROLE {TENANT_ROLE}")
        assert [model.objects.exists() for model in (Tenant, GpuUnit, Operation)] == [False] * 3
        cursor.execute("SET LOCAL ROLE NONE")


def test_stock_can_be_read_but_not_changed(tenants: list[Tenant]) -> None:
    stock_row()

    with rows_of(tenants[1]):
        stock = GpuUnit.objects.filter(role=UnitRole.STOCK)
        number, changed = stock.count(), stock.update(message="changed")

    assert (number, changed) == (1, 0)


def test_a_unit_made_with_kubectl_belongs_to_the_tenant_of_its_namespace(
    tenants: list[Tenant],
) -> None:
    for tenant in tenants:
        unit_row(name=f"by-hand-{tenant}", tenant=None, namespace=tenant.namespace, spec={})

    with rows_of(tenants[1]):
        names = set(GpuUnit.objects.values_list("name", flat=True))

    assert names == {"beta", "by-hand-beta"}


def test_a_rollback_to_a_savepoint_does_not_lift_the_restriction(tenants: list[Tenant]) -> None:
    with rows_of_tenant(None):
        with transaction.atomic():
            restrict_rows(lambda: tenants[1].pk)
            assert Tenant.objects.count() == 1
            transaction.set_rollback(True)
        assert Tenant.objects.count() == 1
        with transaction.atomic(), all_rows():
            assert Tenant.objects.count() > 1
            transaction.set_rollback(True)
        assert Tenant.objects.count() == 1
    assert Tenant.objects.count() > 1


def test_a_cursor_that_cannot_be_restricted_is_an_error(tenants: list[Tenant]) -> None:
    def iterate() -> None:
        list(Tenant.objects.iterator())

    def execute_many() -> None:
        with connection.cursor() as cursor:
            cursor.executemany("SELECT * FROM tenancy_tenant WHERE name = %s", [["alpha"]])

    for read in (iterate, execute_many):
        with rows_of(tenants[1]), pytest.raises(InvariantBroken), transaction.atomic():
            read()


@pytest.mark.django_db(transaction=True)
def test_each_statement_has_a_transaction_of_its_own(tenants: list[Tenant]) -> None:
    with rows_of(tenants[1]):
        names = list(Tenant.objects.values_list("name", flat=True))
        status = connection.connection.info.transaction_status
        with all_rows():
            everyone = Tenant.objects.count()

    assert names == ["beta"]
    assert status.name == "IDLE"
    assert everyone > 1
    assert current_user() != TENANT_ROLE


@pytest.mark.django_db(transaction=True)
def test_a_commit_and_its_hooks_are_restricted(tenants: list[Tenant]) -> None:
    seen: list[int] = []
    with rows_of(tenants[1]), transaction.atomic():
        transaction.on_commit(lambda: seen.append(Tenant.objects.count()))
        Membership.objects.create(tenant=tenants[1], group="g", role=Role.VIEWER)

    assert seen == [1]
    assert Membership.objects.filter(group="g").exists()


def current_user() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_user")
        return str(cursor.fetchone()[0])


def state() -> tuple[list[Any], list[Any]]:
    """Return the policies, with their numbers, and the privileges of the role."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT oid, polname, polrelid FROM pg_policy ORDER BY 1")
        policies = cursor.fetchall()
        cursor.execute(
            "SELECT table_name, privilege_type FROM information_schema.role_table_grants"
            " WHERE grantee = %s ORDER BY 1, 2",
            [TENANT_ROLE],
        )
        return policies, cursor.fetchall()


def test_a_synchronization_writes_nothing_twice() -> None:
    before = state()

    row_security_sync()

    assert before[0]
    assert state() == before


def test_a_synchronization_repairs_what_differs() -> None:
    before = state()
    with connection.cursor() as cursor:
        cursor.execute("DROP POLICY tenant_rows ON tenancy_tenantlimit")
        cursor.execute("CREATE POLICY open ON tenancy_tenantlimit USING (true)")
        cursor.execute("ALTER TABLE units_gpuunit DISABLE ROW LEVEL SECURITY")
        cursor.execute(f"GRANT SELECT ON django_session TO {TENANT_ROLE}")
        cursor.execute(f"GRANT UPDATE ON tenancy_tenant TO {TENANT_ROLE}")

    row_security_sync()

    policies, privileges = state()
    assert [one[1:] for one in sorted(policies, key=lambda one: (one[2], one[1]))] == [
        one[1:] for one in sorted(before[0], key=lambda one: (one[2], one[1]))
    ]
    assert privileges == before[1]
    with connection.cursor() as cursor:
        cursor.execute("SELECT relrowsecurity FROM pg_class WHERE oid = 'units_gpuunit'::regclass")
        assert cursor.fetchone() == (True,)


def test_a_synchronization_does_not_change_a_table_of_that_name_in_another_schema() -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA other")
        cursor.execute("CREATE TABLE other.units_gpuunit ()")
        cursor.execute("CREATE POLICY other_rows ON other.units_gpuunit USING (true)")
        cursor.execute("DROP POLICY tenant_rows ON units_gpuunit")

    row_security_sync()

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT schemaname, policyname FROM pg_policies"
            " WHERE tablename = 'units_gpuunit' AND policyname <> 'tenant_reads' ORDER BY 1"
        )
        assert cursor.fetchall() == [("other", "other_rows"), ("public", "tenant_rows")]


def test_a_changed_declaration_replaces_the_policy() -> None:
    changed = [
        TenantTable(one.name, ("SELECT",), f"{OWN} AND hard > 5")
        if one.name == "tenancy_tenantlimit"
        else one
        for one in TABLES
    ]

    row_security_sync(changed)

    with connection.cursor() as cursor:
        cursor.execute("SELECT qual FROM pg_policies WHERE tablename = 'tenancy_tenantlimit'")
        assert [("hard > 5" in qual) for (qual,) in cursor.fetchall()] == [True]


@pytest.fixture
def role() -> Iterator[str]:
    """The name of a role that does not exist, and is dropped at the end."""
    name = "gpuplatform_test_role"

    def drop() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [name])
            if cursor.fetchone():
                cursor.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")

    drop()
    yield name
    drop()


@pytest.mark.xdist_group("gpuplatform_test_role")
@pytest.mark.django_db(transaction=True)
def test_databases_of_a_server_create_the_role_at_the_same_time(role: str) -> None:
    def create() -> None:
        with transaction.atomic():
            ensure_role(role)

    assert at_once([create] * 4) == [None] * 4
    with connection.cursor() as cursor:
        cursor.execute("SELECT rolcanlogin, rolbypassrls FROM pg_roles WHERE rolname = %s", [role])
        assert cursor.fetchall() == [(False, False)]


@pytest.mark.xdist_group("gpuplatform_test_role")
def test_a_user_that_may_not_create_roles_is_told_what_to_do(role: str) -> None:
    user = "gpuplatform_test_user"
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE ROLE {user} NOLOGIN NOCREATEROLE")
        cursor.execute(f"SET LOCAL ROLE {user}")

    text = f"CREATE ROLE {role} NOLOGIN; GRANT {role} TO"
    with pytest.raises(MissingRole, match=text), transaction.atomic():
        ensure_role(role)
