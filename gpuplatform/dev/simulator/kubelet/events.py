"""The writer of pod Events, with a rate limit.

A repeated Event increases the count of the existing Event.
"""

import asyncio
import logging
from collections import OrderedDict

from gpuplatform.dev.simulator.isolation import isolated
from gpuplatform.dev.simulator.kubelet.client import ApiClient, Manifest
from gpuplatform.dev.simulator.kubelet.containers import PodEvent
from gpuplatform.dev.simulator.kubelet.texts import digest, timestamp
from gpuplatform.kube.errors import ClusterConflict, ClusterError

log = logging.getLogger(__name__)

MAX_PENDING = 2000
"""Maximum number of queued Events. Further Events are dropped, because Events are best effort."""
MAX_REMEMBERED = 4000


class EventWriter:
    """A queue of Events that are written one at a time."""

    def __init__(self, client: ApiClient, per_second: float) -> None:
        self._client = client
        self._per_second = per_second
        self._queue: asyncio.Queue[tuple[Manifest, PodEvent, float]] = asyncio.Queue(MAX_PENDING)
        self._counts: OrderedDict[str, int] = OrderedDict()

    def add(self, pod: Manifest, events: tuple[PodEvent, ...], now: float) -> None:
        """Enqueue Events of a pod."""
        for event in events:
            if self._per_second and not self._queue.full():
                self._queue.put_nowait((pod, event, now))

    async def run(self) -> None:
        """Write Events until the task is cancelled."""
        while True:
            pod, event, now = await self._queue.get()
            with isolated(log, event):
                await self._try(pod, event, now)
            await asyncio.sleep(1 / self._per_second)

    async def _try(self, pod: Manifest, event: PodEvent, now: float) -> None:
        try:
            await self._write(pod, event, now)
        except ClusterError as error:
            log.debug("Dropped an Event: %s", error)

    async def _write(self, pod: Manifest, event: PodEvent, now: float) -> None:
        metadata = pod["metadata"]
        name = f"{metadata['name']}.{digest(metadata['uid'] + repr(event))[:16]}"
        path = f"/api/v1/namespaces/{metadata['namespace']}/events"
        count = self._counts.pop(name, 0) + 1
        if count == 1:
            try:
                await self._client.request("POST", path, body=_event(pod, name, event, now))
            except ClusterConflict:
                found = await self._client.request("GET", f"{path}/{name}")
                count = int(found.get("count") or 1) + 1
        if count > 1:
            await self._client.merge_patch(
                f"{path}/{name}", {"count": count, "lastTimestamp": timestamp(now)}
            )
        self._counts[name] = count
        if len(self._counts) > MAX_REMEMBERED:
            self._counts.popitem(last=False)


def _event(pod: Manifest, name: str, event: PodEvent, now: float) -> Manifest:
    metadata, node = pod["metadata"], pod["spec"]["nodeName"]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": metadata["namespace"]},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
        },
        "type": event.type,
        "reason": event.reason,
        "message": event.message[:1024],
        "source": {"component": "kubelet", "host": node},
        "reportingComponent": "kubelet",
        "reportingInstance": node,
        "firstTimestamp": timestamp(now),
        "lastTimestamp": timestamp(now),
        "count": 1,
    }
