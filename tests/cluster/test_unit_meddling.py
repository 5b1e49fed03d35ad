"""Changes with `kubectl` to a running unit are corrected, with one GPU and the original spec."""

from collections.abc import Callable

import pytest

from gpuplatform.kube.kinds import DEPLOYMENT, POD, SERVICE, Manifest
from gpuplatform.planning.ownership import MANAGED_BY_LABEL, MANAGER, is_controlled_by
from tests.cluster.tenant_units import Units
from units.comparison import compare_all
from units.models import GpuUnit
from units.phases import STOCK_NAMESPACE

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]


def patch(units: Units, row: GpuUnit, body: Manifest) -> None:
    name = units.deployment(row)["metadata"]["name"]
    units.cluster.merge_patch(DEPLOYMENT, name, body, namespace=units.namespace)


def other_container(units: Units, row: GpuUnit, **changes: object) -> None:
    [container] = containers(units, row)
    changed = [{**container, **changes}]
    patch(units, row, {"spec": {"template": {"spec": {"containers": changed}}}})


def containers(units: Units, row: GpuUnit) -> list[Manifest]:
    found: list[Manifest] = units.deployment(row)["spec"]["template"]["spec"]["containers"]
    return found


def living(units: Units, row: GpuUnit) -> list[Manifest]:
    """Return the pods of the unit that hold or request a GPU."""
    ended = {"Failed", "Succeeded"}
    return [pod for pod in units.pods(row) if (pod.get("status") or {}).get("phase") not in ended]


def no_pod(units: Units, row: GpuUnit) -> None:
    for pod in units.pods(row):
        units.cluster.delete(POD, pod["metadata"]["name"], namespace=units.namespace)


def no(kind: str) -> Callable[[Units, GpuUnit], object]:
    which = {"Service": SERVICE, "Deployment": DEPLOYMENT}[kind]
    return lambda units, row: units.cluster.delete(
        which, f"unit-{row.name}", namespace=units.namespace
    )


MEDDLING: dict[str, Callable[[Units, GpuUnit], object]] = {
    "scaled to 0": lambda units, row: patch(units, row, {"spec": {"replicas": 0}}),
    "scaled to 3": lambda units, row: patch(units, row, {"spec": {"replicas": 3}}),
    "another image": lambda units, row: other_container(units, row, image="evil:1"),
    "other variables": lambda units, row: other_container(units, row, env=[]),
    "a label removed": lambda units, row: patch(
        units, row, {"metadata": {"labels": {MANAGED_BY_LABEL: None}}}
    ),
    "its owner removed": lambda units, row: patch(
        units, row, {"metadata": {"ownerReferences": None}}
    ),
    "the pods deleted": no_pod,
    "the Service deleted": no("Service"),
    "the Deployment deleted": no("Deployment"),
}
QUICK = "its owner removed"
"""The changes of the short tests; the long tests have the others."""


@pytest.mark.parametrize(
    "what",
    [name if name == QUICK else pytest.param(name, marks=pytest.mark.long) for name in MEDDLING],
)
def test_what_a_person_with_kubectl_changed_is_put_right(units: Units, what: str) -> None:
    [stock] = units.seed(1)
    units.create("a")
    row = units.settle("a", "Ready")
    before = containers(units, row)

    MEDDLING[what](units, row)
    compare_all(units.platform())

    def is_right() -> bool:
        found = units.live(DEPLOYMENT, row)
        return (
            found is not None
            and units.live(SERVICE, row) is not None
            and is_controlled_by(found, row.uid)
            and found["metadata"]["labels"].get(MANAGED_BY_LABEL) == MANAGER
            and found["spec"]["replicas"] == 1
            and containers(units, row) == before
            and len(living(units, row)) == 1
            and units.row("a").phase == "Ready"
        )

    units.until(is_right)
    stock.refresh_from_db()
    assert stock.consumed_by == row.uid
    assert units.row("a").uid == row.uid
    assert GpuUnit.objects.filter(namespace=STOCK_NAMESPACE).count() == 1
