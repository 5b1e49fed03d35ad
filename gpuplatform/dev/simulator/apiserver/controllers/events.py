"""Functions that record Events of the controllers, and delete Events after one hour."""

import asyncio
import hashlib
import logging
from datetime import timedelta

from gpuplatform import clock
from gpuplatform.dev.simulator.apiserver.deletes import DeleteOptions, delete
from gpuplatform.dev.simulator.apiserver.errors import ApiError
from gpuplatform.dev.simulator.apiserver.objects import now
from gpuplatform.dev.simulator.apiserver.store import Entry
from gpuplatform.dev.simulator.apiserver.targets import Options, Target
from gpuplatform.dev.simulator.apiserver.writes import Writer
from gpuplatform.dev.simulator.isolation import isolated

log = logging.getLogger(__name__)

_LIFETIME = timedelta(hours=1)
_EVERY_SECONDS = 60


def record_event(
    writer: Writer, about: Entry, kind: str, explanation: tuple[str, str], source: str
) -> None:
    """Record an Event about an object. `explanation` is a tuple (reason, message).

    If the same Event exists, its count is increased instead.
    """
    obj, metadata = about.object, about.object["metadata"]
    namespace, (reason, message) = metadata.get("namespace", "default"), explanation
    identity = "\0".join((metadata["uid"], kind, reason, message)).encode()
    name = f"{metadata['name']}.{hashlib.sha256(identity).hexdigest()[:16]}"
    target = Target(writer.registry.require("events"), namespace, name)
    options = Options(manager=source)
    old = writer.store.get(target.key)
    if old:
        again = {"count": old.object.get("count", 1) + 1, "lastTimestamp": now()}
        writer.change(old, lambda event: event.update(again), options)
        return
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {
            "kind": obj["kind"],
            "apiVersion": obj["apiVersion"],
            "name": metadata["name"],
            "namespace": metadata.get("namespace", ""),
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
        },
        "reason": reason,
        "message": message,
        "type": kind,
        "count": 1,
        "firstTimestamp": now(),
        "lastTimestamp": now(),
        "source": {"component": source},
        "reportingComponent": source,
    }
    try:
        writer.create(target, body, options)
    except ApiError as error:
        log.debug("Cannot record the Event %s: %s", name, error)  # The namespace is terminating.


async def expire_events(writer: Writer) -> None:
    """Delete expired Events periodically until the task is cancelled."""
    events = writer.registry.require("events")
    while True:
        await asyncio.sleep(_EVERY_SECONDS)
        oldest = clock.rfc3339(clock.now() - _LIFETIME)
        for entry in writer.store.find(events.key):
            seen = (
                entry.object.get("lastTimestamp") or entry.object["metadata"]["creationTimestamp"]
            )
            with isolated(log, entry.key):
                if seen < oldest:
                    delete(writer.store, Target(events, *entry.key[2:]), DeleteOptions())
