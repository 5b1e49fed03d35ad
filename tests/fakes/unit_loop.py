"""The reconciliation loop of one unit on the in-memory cluster, without a database."""

from collections.abc import Callable
from typing import Any

from gpuplatform.kube.kinds import DEPLOYMENT, GPU_UNIT, JOB, POD, SERVICE, Manifest, ResourceKind
from gpuplatform.planning.plan import Absent, Observation, Present
from gpuplatform.reconciliation.actions import execute
from tests.factories.inventory import POD_SETTINGS
from tests.fakes.cluster import FakeCluster
from tests.fakes.jobs import end_program
from units.core.child import kind_of, wants_pod
from units.core.names import object_name
from units.core.observed import ObservedUnit
from units.core.plan import plan_unit
from units.core.sources import NoSource, Source
from units.phases import UnitPhase

ROUNDS = 10
PLANNED = {*UnitPhase} - {UnitPhase.PENDING, UnitPhase.TERMINATING}
"""The phases that a planner writes unless a deletion is in progress."""


class UnitLoop:
    """A unit, its controllers and its planner."""

    def __init__(self, base: Manifest) -> None:
        self.cluster = FakeCluster()
        self.base = base
        self.source: Source = NoSource()
        self.name = base["metadata"]["name"]
        self.namespace = base["metadata"]["namespace"]

    def want(self, spec: Manifest, *, annotations: Manifest | None = None) -> None:
        """Write the spec of the unit, and its annotations if they change."""
        found = self.cluster.get(GPU_UNIT, self.name, namespace=self.namespace) or self.base
        metadata = {**found["metadata"], "resourceVersion": ""}
        if annotations is not None:
            metadata["annotations"] = annotations
        self.cluster.put(GPU_UNIT, {**found, "metadata": metadata, "spec": spec})

    def settle(self) -> None:
        """Run the planner and the controllers until nothing changes."""
        for _ in range(ROUNDS):
            before = self.cluster.version_number
            self.once()
            self.cluster.settle()
            if self.cluster.version_number == before:
                return
        raise AssertionError(f"the unit does not settle: {self.cluster.writes}")

    def unit(self) -> Manifest:
        """Return the resource of the unit."""
        found = self.cluster.get(GPU_UNIT, self.name, namespace=self.namespace)
        assert found is not None
        return found

    def child(self, kind: ResourceKind) -> Manifest | None:
        """Return the object of a kind that the unit owns, if it exists."""
        return self.cluster.get(kind, object_name(self.name), namespace=self.namespace)

    def remove(self, kind: ResourceKind) -> None:
        """Delete the object of a kind that the unit owns, as with kubectl."""
        self.cluster.remove(kind, object_name(self.name), namespace=self.namespace)

    def end(self, code: int) -> None:
        """End the program of the unit, which has a Job that runs."""
        job = self.child(JOB)
        assert job is not None
        end_program(self.cluster, job, code)

    def once(self) -> None:
        """Run the planner once. At most one of the objects wants a pod afterwards."""
        unit = self.unit()
        before = unit.get("status", {}).get("phase", UnitPhase.PENDING)
        plan = plan_unit(unit, self._observe(unit))
        for action in plan.actions:
            execute(self.cluster, action)
        children = ((kind, self.child(kind) or {}) for kind in (DEPLOYMENT, JOB))
        assert sum(wants_pod(kind, found) for kind, found in children) <= 1
        if plan.status is None:
            assert before == UnitPhase.PENDING
            return
        assert plan.status.phase in PLANNED
        [ready] = plan.status.conditions
        status: dict[str, Any] = {
            "phase": plan.status.phase,
            **plan.status.fields,
            "cause": plan.status.cause,
            "conditions": [{"type": "Ready", "reason": ready.reason, "message": ready.message}],
        }
        if {k: v for k, v in status.items() if v is not None} != unit.get("status"):
            self.cluster.merge_patch(
                GPU_UNIT,
                self.name,
                {"status": status},
                namespace=self.namespace,
                subresource="status",
            )

    def _observe(self, unit: Manifest) -> ObservedUnit:
        return ObservedUnit(
            deployment=_observation(self.child, DEPLOYMENT),
            job=_observation(self.child, JOB),
            kind=kind_of(unit),
            service=_observation(self.child, SERVICE),
            pods=Present(tuple(self.cluster.list(POD, namespace=self.namespace).items)),
            settings=POD_SETTINGS,
            source=self.source,
        )


def _observation(
    read: Callable[[ResourceKind], Manifest | None], kind: ResourceKind
) -> Observation[Manifest]:
    found = read(kind)
    return Absent() if found is None else Present(found)
