"""Statuses that are incomplete or odd, as any client with the permission can write them.

Made by a seeded generator, so that every run tries the same ones.
"""

import random
from collections.abc import Sequence
from typing import Any, Final

from gpuplatform.kube.kinds import Manifest

TIMES: Final = ("2026-01-31T12:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z")
ODD: Final[Sequence[Any]] = (None, {}, [], [None], [{}], "", "x", 0, -1, 2**31 - 1, True, False)
COUNTS: Final = (
    *("replicas", "readyReplicas", "availableReplicas", "updatedReplicas"),
    *("unavailableReplicas", "observedGeneration", "terminatingReplicas"),
)


class Statuses:
    """Generates statuses. The same seed generates the same statuses."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pod(self) -> Manifest:
        """Return the status of a pod that has not ended."""
        return self._some(
            phase=self._one(("Pending", "Running", "Unknown")),
            conditions=self._several(self._condition),
            containerStatuses=self._several(self._container),
            initContainerStatuses=self._several(self._container),
            podIP=self._one(("10.200.0.77", "")),
            startTime=self._one(TIMES),
            reason="Odd",
            message="odd",
        )

    def node(self) -> Manifest:
        """Return the status of a node."""
        return self._some(
            conditions=self._several(self._condition),
            capacity={"cpu": "1", "nvidia.com/gpu": self._one(("8", "0", "1k"))},
            allocatable={"nvidia.com/gpu": self._one(("8", "0", "-1"))},
            addresses=[self._some(type="InternalIP", address="10.9.9.9")],
            daemonEndpoints=self._one(({}, {"kubeletEndpoint": {}})),
            images=[self._some(names=["a"], sizeBytes=1)],
        )

    def workload(self) -> Manifest:
        """Return the status of a Deployment or a ReplicaSet."""
        counts = {name: self._one((0, 1, 2)) for name in COUNTS if self._one((True, False))}
        return {**counts, **self._some(conditions=self._several(self._condition))}

    def odd(self, status: Manifest) -> Manifest:
        """Return the status with one value replaced by an odd one."""
        if not status:
            return {"conditions": self._one(ODD)}
        key = self._one(sorted(status))
        value = status[key]
        if isinstance(value, dict) and value and self._one((True, False)):
            return {**status, key: self.odd(value)}
        if isinstance(value, list) and value and self._one((True, False)):
            changed = self.odd(value[0]) if isinstance(value[0], dict) else self._one(ODD)
            return {**status, key: [changed, *value[1:]]}
        return {**status, key: self._one(ODD)}

    def _condition(self) -> Manifest:
        return self._some(
            type=self._one(("Ready", "Available", "Progressing", "PodScheduled", "Odd", "")),
            status=self._one(("True", "False", "Unknown", "")),
            reason=self._one(("NewReplicaSetAvailable", "")),
            message="odd",
            lastTransitionTime=self._one(TIMES),
        )

    def _container(self) -> Manifest:
        return self._some(
            name=self._one(("main", "runtime-worker", "other")),
            image="odd:1",
            imageID="",
            ready=self._one((True, False)),
            restartCount=self._one((0, 3)),
            state=self._state(),
            lastState=self._state(),
        )

    def _state(self) -> Any:
        return self._one(
            (
                {},
                {"running": self._some(startedAt=self._one(TIMES))},
                {"waiting": self._some(reason=self._one(("CrashLoopBackOff", "Odd")))},
                {"terminated": self._some(exitCode=1, finishedAt=self._one(TIMES))},
            )
        )

    def _some(self, **fields: Any) -> Manifest:
        """Return a part of the fields, in which a value can be absent."""
        return {name: value for name, value in fields.items() if self._random.random() < 0.7}

    def _several(self, make: Any) -> Any:
        if self._random.random() < 0.2:
            return self._one((None, [], [{}]))
        return [make() for _ in range(self._random.randint(1, 3))]

    def _one(self, values: Sequence[Any]) -> Any:
        return self._random.choice(values)
