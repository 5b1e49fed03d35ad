"""The response model of the notice that the platform stops a unit."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from pydantic import Field

from gpuplatform.api.schema import Reply
from units.core.drain import notice_text
from units.drain_progress import notices_of
from units.models import GpuUnit
from units.waiting_units import preemption_notices, preemption_text


class StopNoticeReply(Reply):
    """The notice that the platform stops a unit."""

    reason: Literal["NodeDrain", "Preemption"] = Field(description="Code of the cause.")
    stops_at: datetime = Field(description="Time of the stop.")
    message: str = Field(description="Human-readable explanation.")


def stop_notices(rows: Sequence[GpuUnit]) -> dict[int, StopNoticeReply]:
    """Return the notices of units, by the id of the unit.

    Of two notices of a unit, the earlier stop counts.
    """
    preemptible = [row.pk for row in rows if row.is_preemptible]
    found = {
        unit: StopNoticeReply(
            reason="Preemption", stops_at=one.stops_at, message=preemption_text(one.stops_at)
        )
        for unit, one in (preemption_notices(preemptible) if preemptible else {}).items()
    }
    groups = {row.pk: row.group_name for row in rows}
    for unit, drain in notices_of(rows).items():
        at = drain.deadline
        if at is not None and (unit not in found or at < found[unit].stops_at):
            text = notice_text(drain.node, at, groups[unit])
            found[unit] = StopNoticeReply(reason="NodeDrain", stops_at=at, message=text)
    return found
