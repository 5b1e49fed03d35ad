"""`recover` restores tenants from their namespaces, and from the units of lost tenants."""

from typing import Any

import pytest

from gpuplatform.kube.kinds import NAMESPACE
from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.phases import NamespaceOrigin, TenantPhase
from gpuplatform.tenants.recovery import recover_tenants
from gpuplatform.usage.models import UsageInterval
from tests.db.tenants.conftest import Tenants
from tests.db.tenants.test_suspension import create
from units.models import GpuUnit
from units.recovery import recover_units

pytestmark = pytest.mark.django_db

SETTINGS = (
    *("name", "namespace", "display_name", "weight", "phase"),
    *("namespace_origin", "namespace_uid"),
)


def recover(tenants: Tenants, *, dry_run: bool = False) -> list[str]:
    return list(recover_tenants(tenants.cluster, dry_run=dry_run))


def settings(name: str = "acme") -> dict[str, Any]:
    row = Tenant.objects.get(name=name)
    return {column: getattr(row, column) for column in SETTINGS}


def lose(tenants: Tenants) -> None:
    GpuUnit.objects.all().delete()
    Operation.objects.all().delete()
    UsageInterval.objects.all().delete()
    Tenant.objects.exclude(name="default").delete()


def test_a_lost_tenant_is_restored_with_its_settings(tenants: Tenants) -> None:
    tenants.create(displayName="ACME", weight=4)
    tenants.finish(tenants.ask("suspend").operation)
    before = settings()
    lose(tenants)

    assert len(recover(tenants, dry_run=True)) == 1
    assert not Tenant.objects.filter(name="acme").exists()
    assert len(recover(tenants)) == 1

    assert settings() == before
    assert before["phase"] == TenantPhase.SUSPENDED
    assert recover(tenants) == []


def test_a_restored_row_gets_the_newer_state_of_the_cluster(tenants: Tenants) -> None:
    row = tenants.create()
    tenants.finish(tenants.ask("suspend").operation)
    Tenant.objects.filter(pk=row.pk).update(phase=TenantPhase.ACTIVE, weight=9)

    assert len(recover(tenants)) == 1

    assert (settings()["phase"], settings()["weight"]) == (TenantPhase.SUSPENDED, 1)


def test_a_tenant_with_an_open_operation_is_kept(tenants: Tenants) -> None:
    tenants.create()
    tenants.ask("suspend")

    assert len(recover(tenants)) == 1

    assert settings()["phase"] == TenantPhase.SUSPENDED


def test_the_tenant_of_units_gets_their_namespace(tenants: Tenants) -> None:
    row = Tenant.objects.create(name="team", namespace="own-namespace")
    tenants.world.seed(1)
    create(row, "one")
    tenants.world.work()
    lose(tenants)

    assert len(recover(tenants)) == 1
    list(recover_units(tenants.cluster, dry_run=False))

    found = settings("team")
    assert (found["namespace"], found["namespace_origin"]) == (
        *("own-namespace", NamespaceOrigin.EXTERNAL),
    )
    unit = GpuUnit.objects.get(name="one")
    assert unit.tenant is not None
    assert unit.tenant.name == "team"


def test_two_namespaces_of_one_tenant_are_reported(tenants: Tenants) -> None:
    tenants.create()
    found = tenants.cluster.get(NAMESPACE, "tenant-acme")
    assert found is not None
    copied = {key: found["metadata"][key] for key in ("labels", "annotations")}
    tenants.cluster.put(NAMESPACE, {"metadata": {"name": "copy", **copied}})

    assert len(recover(tenants)) == 1

    assert settings()["namespace"] == "tenant-acme"
