"""Events live one hour, as with the real server's default."""

import asyncio
from datetime import timedelta

from gpuplatform import clock
from gpuplatform.dev.simulator.apiserver.deletes import DeleteOptions, delete
from gpuplatform.dev.simulator.apiserver.intake import Target
from gpuplatform.dev.simulator.apiserver.writes import Writer

_LIFE = timedelta(hours=1)
_EVERY_SECONDS = 60


async def expire_events(writer: Writer) -> None:
    """Delete old events until cancelled."""
    events = writer.registry.need("events")
    while True:
        await asyncio.sleep(_EVERY_SECONDS)
        oldest = clock.rfc3339(clock.now() - _LIFE)
        for entry in writer.store.find(events.key):
            seen = (
                entry.object.get("lastTimestamp") or entry.object["metadata"]["creationTimestamp"]
            )
            if seen < oldest:
                delete(writer.store, Target(events, *entry.key[2:]), DeleteOptions())
