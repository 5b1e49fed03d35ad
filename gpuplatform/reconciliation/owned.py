"""Reading what resources own: one by one for a reconciliation, or from lists for a comparison.

Both have the same interface, so that an app declares once what it observes.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from typing_extensions import override

from gpuplatform.errors import ClusterForbidden, ClusterRejected
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import Manifest, ResourceKind
from gpuplatform.planning.comparison import status_differs
from gpuplatform.planning.plan import Absent, Observation, Plan, Present, Unknown
from gpuplatform.reconciliation.driver import status_fields
from gpuplatform.reconciliation.mirror import version_number


class Owned(Protocol):
    """Reads objects of the cluster."""

    def one(self, kind: ResourceKind, namespace: str, name: str) -> Observation[Manifest]:
        """Return the object of that name."""

    def one_since(
        self, kind: ResourceKind, namespace: str, name: str, version: int
    ) -> Observation[Manifest]:
        """Return the object of that name as it was at that resource version or later.

        An answer that may be older is `Unknown`.
        """

    def all(
        self, kind: ResourceKind, namespace: str, owner: str
    ) -> Observation[Sequence[Manifest]]:
        """Return the objects that have the owner's label."""


class ReadNow(Owned):
    """Reads from the cluster at each call. A forbidden read is `Unknown`.

    Raises:
        ClusterUnavailable: by each method; nothing is known about the resource now.
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
                return Unknown("stale read: the answer is older than the known state")
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


class ReadAtOnce(Owned):
    """Reads lists of all objects with the label once, when it is created.

    An object of an expected name without the label is not in these lists; the reconciler's own
    read finds it.

    Raises:
        ClusterError: a list could not be read.
    """

    def __init__(self, cluster: Cluster, label: str, kinds: Sequence[ResourceKind]) -> None:
        self._by_name: dict[tuple[ResourceKind, str, str], Manifest] = {}
        self._by_owner: defaultdict[tuple[ResourceKind, str, str], list[Manifest]] = defaultdict(
            list
        )
        for kind in kinds:
            for item in cluster.list(kind, label_selector=label).items:
                self._take(kind, item, item["metadata"]["labels"][label])

    def _take(self, kind: ResourceKind, item: Manifest, owner: str) -> None:
        metadata = item["metadata"]
        self._by_name[kind, metadata["namespace"], metadata["name"]] = item
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

    def know(self, kind: ResourceKind, items: Sequence[Manifest]) -> None:
        """Also return these objects by name, with or without the label."""
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
