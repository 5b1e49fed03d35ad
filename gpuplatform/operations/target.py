"""Creates, changes and deletes the resource of an operation, for every kind of resource."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from gpuplatform.errors import InvalidSpec
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.errors import ClusterRejected
from gpuplatform.kube.kinds import Manifest, ResourceKind
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationWait
from gpuplatform.operations.provenance import APPLIED_OPERATION_ANNOTATION, bears
from gpuplatform.operations.registry import Done, Failed, Waiting
from gpuplatform.operations.selectors import is_applied, is_leftover, operation_of
from gpuplatform.operations.versions import IF_MATCH, stale, version_of
from gpuplatform.reconciliation.models import MirrorRow
from gpuplatform.reconciliation.staleness import confirm_deleted

RowT = TypeVar("RowT", bound=MirrorRow)

LEFTOVER_SECONDS: Final = 2.0

_NOT_FOUND: Final = "NotFound"
"""Reason in the Status of the API server if the object does not exist."""


@dataclass(frozen=True, slots=True)
class Target(Generic[RowT]):
    """The executor of operations on the resources of one kind, with rows of `model`."""

    kind: ResourceKind
    model: type[RowT]
    noun: str
    """Noun for the kind in messages, such as "GPU unit"."""

    def row(self, operation: Operation) -> RowT:
        """Return the row of the object of the operation."""
        return self.model._default_manager.get(pk=operation.object_row or 0)  # noqa: SLF001 - Django's documented name

    def named(self, cluster: Cluster, operation: Operation) -> Manifest | None:
        """Return the resource with the name of the object, or `None` if it does not exist."""
        name, namespace = operation.object_name, operation.object_namespace
        return cluster.get(self.kind, name, namespace=namespace)

    def read(self, cluster: Cluster, operation: Operation) -> Manifest | None:
        """Return the resource with the UID that the create operation recorded in the row.

        Returns `None` if the resource is deleted or was never created. Model rules `recorduid` and
        `order`: operations on an object run in order, so the UID is already recorded.

        Raises:
            ClusterConflict: If a stale read returned no resource.
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
        annotations: Mapping[str, str | None] | None = None,
    ) -> Done | Failed:
        """Patch the spec of the resource `found`, or fail if it is deleted.

        Model rule `rvpatch`: the UID and the resource version guard the patch. Model rule
        `applied`: the patch sets the annotation with the id of the operation, so that an older
        operation is not applied later. An annotation whose value is `None` is removed.

        Raises:
            ClusterConflict: If the resource changed after it was read.
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

    def update(
        self,
        cluster: Cluster,
        operation: Operation,
        changed: Callable[[Manifest], Manifest],
    ) -> Done | Failed:
        """Change the resource from its present spec to the spec that `changed` returns for it.

        The patch is not sent if this operation, or a later one that replaces it, was applied
        (rule `applied`), or if the payload names another version of the resource.

        Raises:
            ClusterConflict: If the resource changed after it was read.
        """
        found = self.read(cluster, operation)
        if found is None:
            return self.missing(operation)
        if is_applied(found, operation):
            return Done(found)
        metadata, version = found["metadata"], operation.payload.get(IF_MATCH)
        if version not in {None, version_of(metadata["uid"], metadata["generation"])}:
            error = stale(f"the {self.noun} '{operation.object_name}'")
            return Failed(error.code, error.message)
        present = found.get("spec") or {}
        try:
            wanted = changed(present)
        except InvalidSpec as error:
            details = "; ".join(f"{one.field}: {one.message}" for one in error.details)
            return Failed(
                "invalid_request", f"The change of the {self.noun} is invalid: {details}"
            )
        return self.change(cluster, operation, found, replacement(present, wanted))

    def delete(self, cluster: Cluster, operation: Operation) -> Done:
        """Delete the resource. Succeeds if it does not exist."""
        found = self.read(cluster, operation)
        if found is None:
            return Done()
        metadata = found["metadata"]
        # Model rule `uidunit`: the UID protects a new resource with the same name.
        cluster.delete(
            self.kind, metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"]
        )
        return Done(found)

    def existing(self, found: Manifest, operation: Operation) -> Done | Waiting | Failed:
        """Return the outcome of a creation if a resource `found` already has the name.

        The creation succeeds if `operation` created the resource, waits if the resource is a
        leftover (model rule `leftover`), and fails otherwise.
        """
        if bears(found, operation):
            return Done(found)
        if is_leftover(found, operation_of(found)):
            return Waiting(
                OperationWait.LEFTOVER_CONFLICT,
                "An ended operation created an object with the name. The platform deletes it.",
                LEFTOVER_SECONDS,
            )
        return Failed(
            "name_conflict",
            f"Another {self.noun} '{operation.object_name}' already exists in the namespace"
            f" '{operation.object_namespace}'. Choose another name.",
            resource=found,
        )

    def missing(self, operation: Operation) -> Failed:
        """Return the outcome of a change if the resource does not exist."""
        return Failed("not_found", f"The {self.noun} '{operation.object_name}' does not exist.")


def replacement(present: Manifest, wanted: Manifest) -> Manifest:
    """Return the JSON merge patch that changes `present` to `wanted`."""
    patch: Manifest = {key: None for key in present if key not in wanted}
    for key, value in wanted.items():
        before = present.get(key)
        is_object = isinstance(value, dict) and isinstance(before, dict)
        patch[key] = replacement(before or {}, value) if is_object else value
    return patch
