"""The events of all pods during a test, in the order of their resource versions."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.errors import ClusterUnavailable
from gpuplatform.kube.kinds import POD, Manifest
from gpuplatform.planning.ownership import UNIT_LABEL

END_SECONDS = 10.0


class PodEvents:
    """The events of the pods of units."""

    def __init__(self) -> None:
        self._seen: list[tuple[str, Manifest]] = []

    def pods_of(self, unit: str) -> list[Manifest]:
        """Return all states of the pods of the unit, oldest first."""
        return [
            pod for _, pod in list(self._seen) if pod["metadata"]["labels"][UNIT_LABEL] == unit
        ]

    def first(self, unit: str, holds: Callable[[Manifest], bool], type_: str = "") -> int | None:
        """Return the resource version of the first state of a pod of the unit that matches."""
        for seen, pod in list(self._seen):
            is_of_unit = pod["metadata"]["labels"][UNIT_LABEL] == unit
            if is_of_unit and type_ in {"", seen} and holds(pod):
                return int(pod["metadata"]["resourceVersion"])
        return None

    def ended(self, unit: str) -> int | None:
        """Return the resource version at which a pod of the unit was in a terminal phase."""
        return self.first(unit, has_ended)

    def created(self, unit: str) -> int | None:
        """Return the resource version at which the first pod of the unit was created."""
        return self.first(unit, lambda _: True, "ADDED")

    def follow(self, cluster: Cluster, stop: threading.Event) -> None:
        """Watch until `stop`."""
        version = cluster.list(POD, label_selector=UNIT_LABEL).resource_version
        while not stop.is_set():
            try:
                for event in cluster.watch(
                    POD, label_selector=UNIT_LABEL, resource_version=version, timeout_seconds=2
                ):
                    version = event.resource_version or version
                    self._seen.append((event.type, event.object))
            except ClusterUnavailable:
                if not stop.is_set():
                    raise


def has_ended(pod: Manifest) -> bool:
    """Return whether the phase of a pod is terminal."""
    return pod["status"].get("phase") in {"Succeeded", "Failed"}


@contextmanager
def following(cluster: Cluster) -> Iterator[PodEvents]:
    """Record the events of pods during the block."""
    events, stop = PodEvents(), threading.Event()
    thread = threading.Thread(target=events.follow, args=(cluster, stop), daemon=True)
    thread.start()
    try:
        yield events
    finally:
        stop.set()
        thread.join(END_SECONDS)
