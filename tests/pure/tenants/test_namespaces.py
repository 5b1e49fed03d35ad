"""The plan for the namespace of a tenant, and the tenant that a namespace names."""

from typing import Any

import pytest

from gpuplatform.kube.kinds import Manifest
from gpuplatform.tenancy.phases import NamespaceOrigin
from gpuplatform.tenants.core.namespaces import (
    ORIGIN,
    WEIGHT,
    Change,
    Conflict,
    Create,
    Keep,
    Step,
    TenantView,
    Wait,
    plan_namespace,
    released,
    tenant_in,
)

ENFORCE = "pod-security.kubernetes.io/enforce"
MANAGED = "app.kubernetes.io/managed-by"
TENANT = "runtime.lokiwager.io/tenant"


def view(origin: NamespaceOrigin = NamespaceOrigin.CREATED, **changes: Any) -> TenantView:
    return TenantView(name="acme", namespace="tenant-acme", origin=origin, **changes)


def existing(tenant: TenantView | None = None, **metadata: Any) -> Manifest:
    """Return the namespace in the cluster: as the platform creates it for `tenant`, or empty."""
    base: Manifest = {"metadata": {"name": "tenant-acme", "labels": {}}}
    if tenant is not None:
        step = plan_namespace(tenant, None)
        assert isinstance(step, Create)
        base = step.manifest
    return {"metadata": {**base["metadata"], "uid": "u1", "resourceVersion": "7", **metadata}}


def code(step: Step) -> str:
    assert isinstance(step, Conflict), step
    return step.code


def test_a_missing_namespace_is_created_with_pod_security_and_its_owner() -> None:
    step = plan_namespace(view(), None)

    assert isinstance(step, Create)
    labels = step.manifest["metadata"]["labels"]
    assert (labels[ENFORCE], labels[MANAGED], labels[TENANT]) == (
        *("baseline", "gpu-platform", "acme"),
    )


def test_the_namespace_of_an_interrupted_creation_is_used() -> None:
    assert plan_namespace(view(), existing(view())) == Keep()


@pytest.mark.parametrize(
    "labels",
    [{}, {MANAGED: "gpu-platform"}, {TENANT: "acme"}, {MANAGED: "gpu-platform", TENANT: "acme"}],
    ids=["none", "managed", "tenant", "without the origin"],
)
def test_a_namespace_of_another_creator_is_not_used(labels: dict[str, str]) -> None:
    assert code(plan_namespace(view(), existing(labels=labels))) == "name_conflict"


def test_a_namespace_that_was_adopted_before_is_not_deletable_later() -> None:
    adopted = view(NamespaceOrigin.ADOPTED)
    labels = {TENANT: "acme", MANAGED: "gpu-platform"}

    found = existing(labels=labels, annotations=adopted.annotations)

    assert code(plan_namespace(view(), found)) == "name_conflict"


def test_an_adopted_namespace_keeps_its_level_and_is_not_managed() -> None:
    step = plan_namespace(
        view(NamespaceOrigin.ADOPTED), existing(labels={ENFORCE: "restricted", "team": "a"})
    )

    assert isinstance(step, Change)
    labels = step.patch["metadata"]["labels"]
    assert ENFORCE not in labels
    assert MANAGED not in labels
    assert labels[TENANT] == "acme"
    assert (step.patch["metadata"]["uid"], step.patch["metadata"]["resourceVersion"]) == (
        "u1",
        "7",
    )


def test_a_namespace_of_another_tenant_is_not_adopted() -> None:
    found = existing(labels={TENANT: "other"})

    assert code(plan_namespace(view(NamespaceOrigin.ADOPTED), found)) == "name_conflict"


def test_a_missing_namespace_is_not_adopted() -> None:
    assert code(plan_namespace(view(NamespaceOrigin.ADOPTED), None)) == "not_found"


def test_a_replaced_or_deleted_namespace_is_not_used() -> None:
    recorded = view(uid="u0")

    assert code(plan_namespace(recorded, existing(view()))) == "name_conflict"
    assert code(plan_namespace(recorded, None)) == "not_found"


def test_a_namespace_that_is_being_deleted_is_waited_for() -> None:
    found = existing(view(), deletionTimestamp="2026-01-31T12:00:00Z")

    assert plan_namespace(view(), found) == Wait()


def test_only_the_changed_settings_are_patched() -> None:
    step = plan_namespace(view(uid="u1", weight=7), existing(view()))

    assert isinstance(step, Change)
    assert step.patch["metadata"]["annotations"] == {WEIGHT: "7"}
    assert step.patch["metadata"]["labels"] == {}


def test_an_external_namespace_is_not_changed() -> None:
    assert plan_namespace(view(NamespaceOrigin.EXTERNAL), None) == Keep()


@pytest.mark.parametrize("origin", [NamespaceOrigin.CREATED, NamespaceOrigin.ADOPTED])
def test_a_tenant_is_read_as_it_was_written(origin: NamespaceOrigin) -> None:
    tenant = view(
        origin, uid="u1", display_name="ACME", weight=9, max_priority=5, is_suspended=True
    )
    found = existing(labels=tenant.labels, annotations=tenant.annotations)

    assert tenant_in(found) == tenant


@pytest.mark.parametrize(
    ("labels", "marks"),
    [
        ({}, {ORIGIN: "created"}),
        ({TENANT: "acme"}, {}),
        ({TENANT: "acme"}, {ORIGIN: "external"}),
        ({TENANT: "Not_a-label"}, {ORIGIN: "created"}),
        (None, None),
    ],
)
def test_other_namespaces_have_no_tenant(labels: Any, marks: Any) -> None:
    assert tenant_in(existing(labels=labels, annotations=marks)) is None


@pytest.mark.parametrize("weight", ["", "0", "-1", "x", "\u0661", "1e9"])
def test_an_invalid_weight_is_the_default(weight: str) -> None:
    found = existing(labels={TENANT: "acme"}, annotations={ORIGIN: "created", WEIGHT: weight})

    tenant = tenant_in(found)

    assert tenant is not None
    assert tenant.weight == 1


def test_a_released_namespace_has_no_mark_of_the_platform() -> None:
    adopted = view(NamespaceOrigin.ADOPTED, uid="u1")

    metadata = released(existing(labels=adopted.labels))["metadata"]

    assert metadata["labels"] == {TENANT: None}
    assert metadata["annotations"] == dict.fromkeys(adopted.annotations)
