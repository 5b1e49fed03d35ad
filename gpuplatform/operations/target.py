"""The resource that an operation creates, changes or deletes. The same for every kind."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from gpuplatform.errors import ClusterRejected
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import Manifest, ResourceKind
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationWait
from gpuplatform.operations.provenance import APPLIED_OPERATION_ANNOTATION, bears
from gpuplatform.operations.registry import Done, Failed, Waiting
from gpuplatform.operations.selectors import is_leftover, operation_of
from gpuplatform.reconciliation.models import MirrorRow
from gpuplatform.reconciliation.staleness import confirm_deleted

RowT = TypeVar("RowT", bound=MirrorRow)

LEFTOVER_SECONDS: Final = 2.0

_NOT_FOUND: Final = "NotFound"
"""Reason with which the API server rejects a change of an object that does not exist."""


@dataclass(frozen=True, slots=True)
class Target(Generic[RowT]):
    """Operations on the resources of one kind, whose rows are `model`."""

    kind: ResourceKind
    model: type[RowT]
    noun: str
    """The kind in messages, such as "GPU unit"."""

    def row(self, operation: Operation) -> RowT:
        """Return the row of the operation's object."""
        return self.model._default_manager.get(pk=operation.object_row or 0)  # noqa: SLF001 - Django's documented name

    def named(self, cluster: Cluster, operation: Operation) -> Manifest | None:
        """Return the resource with the name of the operation's object."""
        name, namespace = operation.object_name, operation.object_namespace
        return cluster.get(self.kind, name, namespace=namespace)

    def read(self, cluster: Cluster, operation: Operation) -> Manifest | None:
        """Return the resource that the create recorded; None if it is deleted or was not created.

        Rules `recorduid` and `order`: operations on one object run in order, so the row has the
        UID that the create recorded.

        Raises:
            ClusterConflict: the answer without it was a stale read.
        """
        rows = self.model._default_manager.filter(pk=operation.object_row or 0)  # noqa: SLF001 - Django's documented name
        row = rows.first()
        if row is None or not row.uid:
            return None
        found = self.named(cluster, operation)
        if found is not None and found["metadata"]["uid"] == row.uid:
            return found
        confirm_deleted(cluster, self.kind, row, found)
        return None

    def change(
        self,
        cluster: Cluster,
        operation: Operation,
        found: Manifest,
        spec: Manifest,
        annotations: Mapping[str, str] | None = None,
    ) -> Done | Failed:
        """Patch the spec of the resource that was read; fail if it is deleted.

        Rule `rvpatch`: UID and resource version guard the patch. Rule `applied`: the patch
        annotates the id of its operation, so that an older one is not applied over it.

        Raises:
            ClusterConflict: the resource changed since it was read.
        """
        metadata = found["metadata"]
        applied = {APPLIED_OPERATION_ANNOTATION: str(operation.pk)}
        patch = {
            "metadata": {
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
                "annotations": {**applied, **(annotations or {})},
            },
            "spec": spec,
        }
        name, namespace = metadata["name"], metadata["namespace"]
        try:
            return Done(cluster.merge_patch(self.kind, name, patch, namespace=namespace))
        except ClusterRejected as error:
            if error.reason == _NOT_FOUND:
                return self.missing(operation)
            raise

    def delete(self, cluster: Cluster, operation: Operation) -> Done:
        """Delete the resource; one that does not exist counts as deleted."""
        found = self.read(cluster, operation)
        if found is None:
            return Done()
        metadata = found["metadata"]
        # Rule `uidunit`: never the next resource of that name.
        cluster.delete(
            self.kind, metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"]
        )
        return Done(found)

    def existing(self, found: Manifest, operation: Operation) -> Done | Waiting | Failed:
        """Return the outcome of a create that found a resource: its own, a leftover or another.

        Rule `leftover`: a leftover of an ended operation is not a name conflict.
        """
        if bears(found, operation):
            return Done(found)
        if is_leftover(found, operation_of(found)):
            return Waiting(
                OperationWait.LEFTOVER_IN_THE_WAY,
                "An ended operation left an object with that name; the platform deletes it.",
                LEFTOVER_SECONDS,
            )
        return Failed(
            "name_conflict",
            f"A {self.noun} '{operation.object_name}' that this operation did not create exists in"
            f" the namespace '{operation.object_namespace}'. Choose another name.",
            resource=found,
        )

    def missing(self, operation: Operation) -> Failed:
        """Return the outcome of a change whose resource is deleted."""
        return Failed("not_found", f"The {self.noun} '{operation.object_name}' does not exist.")


def replacement(present: Manifest, wanted: Manifest) -> Manifest:
    """Return the merge patch from `present` to `wanted`; keys that are not wanted become null."""
    patch: Manifest = {key: None for key in present if key not in wanted}
    for key, value in wanted.items():
        before = present.get(key)
        is_object = isinstance(value, dict) and isinstance(before, dict)
        patch[key] = replacement(before or {}, value) if is_object else value
    return patch
