"""Reads owned objects, either individually for a reconciliation or from lists for a comparison.

Both readers have the same interface, so that an app declares its observation once.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from typing_extensions import override

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.errors import ClusterForbidden, ClusterRejected
from gpuplatform.kube.kinds import EVENT, Manifest, ResourceKind
from gpuplatform.planning.comparison import status_differs
from gpuplatform.planning.plan import Absent, Observation, Plan, Present, Unknown
from gpuplatform.reconciliation.driver import status_fields
from gpuplatform.reconciliation.mirror import version_number


class Owned(Protocol):
    """A reader of objects in the cluster."""

    def one(self, kind: ResourceKind, namespace: str, name: str) -> Observation[Manifest]:
        """Return the object of that name."""

    def one_since(
        self, kind: ResourceKind, namespace: str, name: str, version: int
    ) -> Observation[Manifest]:
        """Return the object of that name in a state not older than the resource version.

        A response that can be older is `Unknown`.
        """

    def all(
        self, kind: ResourceKind, namespace: str, owner: str
    ) -> Observation[Sequence[Manifest]]:
        """Return the objects with the label of the owner."""

    def events(self, namespace: str, uid: str) -> Observation[Sequence[Manifest]]:
        """Return the Events about the object with the UID."""


class LiveObjects(Owned):
    """A reader that sends a request for each call. A forbidden read is `Unknown`.

    Raises:
        ClusterUnavailable: If the cluster does not respond.
    """

    def __init__(self, cluster: Cluster, label: str) -> None:
        self._cluster = cluster
        self._label = label

    @override
    def one(self, kind: ResourceKind, namespace: str, name: str) -> Observation[Manifest]:
        return _known(lambda: self._cluster.get(kind, name, namespace=namespace))

    @override
    def one_since(
        self, kind: ResourceKind, namespace: str, name: str, version: int
    ) -> Observation[Manifest]:
        selector = f"metadata.name={name}"
        listing = _known(
            lambda: self._cluster.list(kind, namespace=namespace, field_selector=selector)
        )
        match listing:
            case Present(found) if version_number(found.resource_version) < version:
                return Unknown("The response is older than the known state.")
            case Present(found):
                return Present(found.items[0]) if found.items else Absent()
            case _:
                return listing

    @override
    def all(
        self, kind: ResourceKind, namespace: str, owner: str
    ) -> Observation[Sequence[Manifest]]:
        selector = f"{self._label}={owner}"
        return _known(
            lambda: tuple(
                self._cluster.list(kind, namespace=namespace, label_selector=selector).items
            )
        )

    @override
    def events(self, namespace: str, uid: str) -> Observation[Sequence[Manifest]]:
        selector = f"involvedObject.uid={uid}"
        return _known(
            lambda: tuple(
                self._cluster.list(EVENT, namespace=namespace, field_selector=selector).items
            )
        )


class ListedObjects(Owned):
    """A reader that lists all objects with the label once, when the reader is created.

    The lists do not contain objects without the label; a reconciliation finds these by name.

    Raises:
        ClusterError: If a list cannot be read.
    """

    def __init__(self, cluster: Cluster, label: str, kinds: Sequence[ResourceKind]) -> None:
        self._by_name: dict[tuple[ResourceKind, str, str], Manifest] = {}
        self._by_owner = defaultdict[tuple[ResourceKind, str, str], list[Manifest]](list)
        for kind in kinds:
            items = cluster.list(kind, label_selector=label).items
            self.add(kind, items)
            for item in items:
                metadata = item["metadata"]
                owner = metadata["labels"][label]
                self._by_owner[kind, metadata["namespace"], owner].append(item)

    @override
    def one(self, kind: ResourceKind, namespace: str, name: str) -> Observation[Manifest]:
        found = self._by_name.get((kind, namespace, name))
        return Absent() if found is None else Present(found)

    @override
    def one_since(
        self, kind: ResourceKind, namespace: str, name: str, version: int
    ) -> Observation[Manifest]:
        return self.one(kind, namespace, name)

    @override
    def all(
        self, kind: ResourceKind, namespace: str, owner: str
    ) -> Observation[Sequence[Manifest]]:
        return Present(tuple(self._by_owner.get((kind, namespace, owner), ())))

    @override
    def events(self, namespace: str, uid: str) -> Observation[Sequence[Manifest]]:
        return Unknown("Events are not listed.")

    def add(self, kind: ResourceKind, items: Sequence[Manifest]) -> None:
        """Add objects that are found by name, even if they do not have the label."""
        for item in items:
            metadata = item["metadata"]
            self._by_name[kind, metadata["namespace"], metadata["name"]] = item

    def everything(self) -> Iterator[tuple[ResourceKind, Manifest]]:
        """Yield each object with its kind."""
        for (kind, _, _), item in self._by_name.items():
            yield kind, item


def is_unsettled(resource: Manifest, plan: Plan) -> bool:
    """Return whether `plan` would change anything in the cluster."""
    wanted = status_fields(resource, plan.status) if plan.status else {}
    return bool(plan.actions) or status_differs(resource.get("status") or {}, wanted)


def _known(read: Callable[[], Any]) -> Observation[Any]:
    try:
        found = read()
    except (ClusterForbidden, ClusterRejected) as error:
        return Unknown(str(error))
    return Absent() if found is None else Present(found)
