"""Kubernetes conditions as dicts, merged as the API conventions require.

Source: Kubernetes API conventions, "Typical status properties". Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from gpuplatform.clock import rfc3339

ConditionStatus = Literal["True", "False", "Unknown"]

DEGRADED: Final = "Degraded"
"""Type of the condition of a resource that runs with a known problem."""


@dataclass(frozen=True, slots=True)
class Condition:
    """An observed condition. The reason is in CamelCase; the message is human-readable."""

    type: str
    status: ConditionStatus
    reason: str
    message: str
    observed_generation: int


def merge_conditions(
    present: Sequence[dict[str, Any]], observed: Sequence[Condition], now: datetime
) -> list[dict[str, Any]]:
    """Return the conditions in `present`, updated with the conditions in `observed`.

    Conditions are matched by type and sorted by type. Conditions without an observation are
    unchanged. `lastTransitionTime` changes only if the status changes.
    """
    before = {str(condition.get("type")): condition for condition in present}
    merged = dict(before)
    for condition in observed:
        old = before.get(condition.type)
        since = rfc3339(now)
        if old is not None and old.get("status") == condition.status:
            since = str(old.get("lastTransitionTime") or since)
        merged[condition.type] = {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
            "observedGeneration": condition.observed_generation,
            "lastTransitionTime": since,
        }
    return [merged[key] for key in sorted(merged)]
