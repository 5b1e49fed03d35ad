"""Operations on tenants: the rows, the namespaces and their objects."""

import pytest
from pytest_django import Settings

from gpuplatform.errors import InUse, InvalidSpec, NameConflict, NotFound, PhaseConflict
from gpuplatform.kube.errors import ClusterRejected, ClusterUnavailable
from gpuplatform.kube.kinds import (
    GPU_UNIT,
    LIMIT_RANGE,
    NAMESPACE,
    NETWORK_POLICY,
    RESOURCE_QUOTA,
    ROLE_BINDING,
    Manifest,
)
from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.phases import NamespaceOrigin, TenantPhase
from gpuplatform.tenancy.selectors import tenant_by_name
from gpuplatform.tenancy.services import token_create, token_used
from gpuplatform.tenants.requests import TenantPatch
from gpuplatform.tenants.services.tenants import tenant_update, tenant_version, tenants_prune
from tests.db.tenants.conftest import Tenants
from tests.factories.inventory import accept_create
from tests.factories.unit_rows import catalogued, unit_row

pytestmark = pytest.mark.django_db

NAMES = ("default", "kube-system", "runtime-stock", "gpu-platform", "runtime-instance")
OBJECTS = (ROLE_BINDING, NETWORK_POLICY, RESOURCE_QUOTA, LIMIT_RANGE)


def namespace(tenants: Tenants, name: str = "tenant-acme") -> Manifest | None:
    return tenants.cluster.get(NAMESPACE, name)


def put_namespace(tenants: Tenants, name: str, **metadata: object) -> Manifest:
    return tenants.cluster.put(NAMESPACE, {"metadata": {"name": name, **metadata}})


def test_a_created_tenant_is_active_with_the_uid_of_its_namespace(tenants: Tenants) -> None:
    row = tenants.create(displayName="ACME", weight=3)

    found = namespace(tenants)
    assert found is not None
    assert (row.phase, row.namespace_origin) == (TenantPhase.ACTIVE, NamespaceOrigin.CREATED)
    assert row.namespace_uid == found["metadata"]["uid"]
    assert (row.display_name, row.weight) == ("ACME", 3)
    assert {kind.kind: len(tenants.cluster.names(kind)) for kind in OBJECTS} == {
        "RoleBinding": 5,
        "NetworkPolicy": 2,
        "ResourceQuota": 1,
        "LimitRange": 1,
    }


def test_a_tenant_is_pending_until_its_namespace_exists(tenants: Tenants) -> None:
    operation = tenants.ask_create().operation

    assert tenants.row().phase == TenantPhase.PENDING
    tenants.cluster.fail("create", NAMESPACE, ClusterUnavailable("no response"))
    assert tenants.finish(operation).phase == "Succeeded"
    assert tenants.row().phase == TenantPhase.ACTIVE


def test_a_namespace_of_another_creator_fails_the_creation_and_frees_the_name(
    tenants: Tenants,
) -> None:
    put_namespace(tenants, "tenant-acme")

    failed = tenants.finish(tenants.ask_create().operation)

    assert (failed.phase, failed.error_code) == ("Failed", "name_conflict")
    assert not Tenant.objects.filter(name="acme").exists()
    found = namespace(tenants)
    assert found is not None
    assert "labels" not in found["metadata"]


def test_an_adopted_namespace_remains_when_its_tenant_is_deleted(tenants: Tenants) -> None:
    put_namespace(tenants, "team", labels={"own": "label"})
    row = tenants.create(namespace="team", adoptNamespace=True)
    assert row.namespace_origin == NamespaceOrigin.ADOPTED

    tenants.finish(tenants.ask("request_deletion").operation)

    found = namespace(tenants, "team")
    assert found is not None
    labels = found["metadata"]["labels"]
    assert {key for key in labels if not key.startswith("pod-security")} == {"own"}
    assert [tenants.cluster.names(kind) for kind in OBJECTS] == [[], [], [], []]
    assert tenants.row().phase == TenantPhase.DELETED


@pytest.mark.parametrize("name", NAMES)
def test_a_reserved_namespace_is_rejected_at_the_field(tenants: Tenants, name: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        tenants.ask_create(namespace=name, adoptNamespace=True)

    assert [one.field for one in caught.value.details] == ["namespace"]
    assert not Operation.objects.exists()


def test_a_namespace_with_or_for_stock_pools_is_rejected(
    tenants: Tenants, settings: Settings
) -> None:
    catalogued("g1.1")
    settings.POOL_NAMESPACES = ("pools", "empty")
    accept_create(name="h100", namespace="pools")
    settings.POOL_NAMESPACES = ("empty",)

    for namespace in ("pools", "empty"):
        with pytest.raises(InvalidSpec):
            tenants.ask_create(namespace=namespace, adoptNamespace=True)


def test_a_second_tenant_of_the_name_is_rejected(tenants: Tenants) -> None:
    tenants.create()

    with pytest.raises(NameConflict):
        tenants.ask_create(operationID="other", namespace="elsewhere")


def test_a_replay_returns_the_operation(tenants: Tenants) -> None:
    first = tenants.ask_create()
    tenants.finish(first.operation)

    again = tenants.ask_create()

    assert (again.is_replay, again.operation.pk) == (True, first.operation.pk)


def test_a_change_reaches_the_namespace_and_needs_the_version(tenants: Tenants) -> None:
    row = tenants.create()
    body = TenantPatch.parse({"operationID": "change", "weight": 5})
    etag = tenant_version(row)

    accepted = tenant_update(tenant=tenant_by_name(), name="acme", body=body, etag=etag)

    assert tenants.row().weight == 5
    assert tenants.finish(accepted.operation).phase == "Succeeded"
    found = namespace(tenants)
    assert found is not None
    assert found["metadata"]["annotations"]["runtime.lokiwager.io/weight"] == "5"
    late = TenantPatch.parse({"operationID": "late", "weight": 6})
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the code is compared
        tenant_update(tenant=tenant_by_name(), name="acme", body=late, etag=etag)
    assert getattr(caught.value, "code", "") == "stale_etag"


def test_a_deletion_with_objects_is_rejected_with_their_numbers(tenants: Tenants) -> None:
    row = tenants.create()
    unit_row(tenant=row, namespace=row.namespace)

    with pytest.raises(InUse) as caught:
        tenants.ask("request_deletion")

    assert [(one.field, one.message) for one in caught.value.details] == [("units", "1")]
    assert tenants.row().phase == TenantPhase.ACTIVE


def test_a_deletion_deletes_the_namespace_by_uid_and_the_tokens(tenants: Tenants) -> None:
    row = tenants.create()
    _, secret = token_create(tenant=row, name="ci", scopes=["user"])

    ended = tenants.finish(tenants.ask("request_deletion").operation)

    assert ended.phase == "Succeeded"
    assert tenants.ask("request_deletion").is_replay
    assert namespace(tenants) is None
    assert token_used(secret) is None
    with pytest.raises(NotFound):
        tenant_by_name("acme")
    with pytest.raises(NameConflict):
        tenants.ask_create(operationID="again")


def test_a_replaced_namespace_is_not_deleted(tenants: Tenants) -> None:
    row = tenants.create()
    found = namespace(tenants)
    assert found is not None
    tenants.cluster.remove(NAMESPACE, row.namespace)
    put_namespace(tenants, row.namespace, labels=found["metadata"]["labels"])

    assert tenants.finish(tenants.ask("request_deletion").operation).phase == "Succeeded"

    assert namespace(tenants) is not None


def test_a_deletion_waits_while_the_namespace_terminates(tenants: Tenants) -> None:
    row = tenants.create()
    operation = tenants.ask("request_deletion").operation
    found = namespace(tenants)
    assert found is not None
    found["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    tenants.cluster.put(NAMESPACE, found)

    waiting = tenants.finish(operation)

    assert (waiting.phase, waiting.reason) == ("Pending", "NamespaceTerminating")
    assert tenants.row().phase == TenantPhase.DELETING
    tenants.cluster.remove(NAMESPACE, row.namespace)
    assert tenants.finish(operation).phase == "Succeeded"


def test_a_unit_that_is_not_recorded_stops_the_deletion(tenants: Tenants) -> None:
    tenants.create()
    place = {"name": "late", "namespace": "tenant-acme"}
    tenants.cluster.put(GPU_UNIT, {"metadata": place, "spec": {}})

    failed = tenants.finish(tenants.ask("request_deletion").operation)

    assert (failed.phase, failed.error_code) == ("Failed", "in_use")
    row = tenants.row()
    assert (row.phase, row.failure_code) == (TenantPhase.SUSPENDED, "in_use")
    assert namespace(tenants) is not None


@pytest.mark.parametrize("verb", ["suspend", "request_deletion"])
def test_the_default_tenant_is_kept(tenants: Tenants, verb: str) -> None:
    with pytest.raises(PhaseConflict):
        tenants.ask(verb, "default")


@pytest.mark.parametrize("verb", ["suspend", "resume", "request_deletion"])
def test_a_pending_tenant_cannot_change(tenants: Tenants, verb: str) -> None:
    tenants.ask_create()

    with pytest.raises(PhaseConflict):
        tenants.ask(verb)


def test_the_default_tenant_changes_without_a_write_to_the_cluster(tenants: Tenants) -> None:
    body = TenantPatch.parse({"operationID": "change", "weight": 2})
    accepted = tenant_update(tenant=tenant_by_name(), name="default", body=body)

    assert tenants.finish(accepted.operation).phase == "Succeeded"

    assert tenants.row("default").weight == 2
    assert [one for one in tenants.cluster.writes if "ConfigMap" not in one] == []


def test_a_failed_change_is_recorded_until_the_next_success(tenants: Tenants) -> None:
    tenants.create()
    rejection = ClusterRejected("quota: must be 0 or more", reason="Invalid", status=422)
    tenants.cluster.fail("apply", RESOURCE_QUOTA, rejection)

    tenants.finish(tenants.ask("suspend").operation)

    assert (tenants.row().failure_code, tenants.row().phase) == (
        *("invalid_request", TenantPhase.SUSPENDED),
    )
    tenants.finish(tenants.ask("resume").operation)
    assert (tenants.row().failure_code, tenants.row().phase) == ("", TenantPhase.ACTIVE)


def test_the_row_of_a_deleted_tenant_is_pruned_when_nothing_refers_to_it(tenants: Tenants) -> None:
    row = tenants.create()
    kept = tenants.create("kept")
    unit_row(tenant=kept, namespace=kept.namespace, deleted_at="2026-01-31T12:00:00Z")
    for name in ("acme", "kept"):
        tenants.finish(tenants.ask("request_deletion", name).operation)
    assert tenants_prune() == 0
    Tenant.objects.filter(pk__in=(row.pk, kept.pk)).update(deleted_at="2020-01-31T12:00:00Z")

    assert tenants_prune() == 1

    assert list(Tenant.objects.exclude(name="default").values_list("name", flat=True)) == ["kept"]
