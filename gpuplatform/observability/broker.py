"""What the overview of the admin asks of parts that only the composition root knows."""

from collections.abc import Sequence
from typing import Final

from gpuplatform.adminkit.display.badges import Shape
from gpuplatform.adminkit.overview.health import Health, health_of, register_health
from gpuplatform.observability.reporter import read_broker

MANY_MESSAGES: Final = 1_000
"""A queue with more of them grows faster than it is worked off, as the alert has it."""


def broker_health() -> Sequence[Health]:
    """Return whether the broker answers, and what waits in its queues."""
    queues = read_broker()
    if queues is None:
        return [health_of(Shape.FAILED, "broker", "It does not answer.")]
    waiting = [f"{name} {number}" for name, number in queues.items() if number]
    shape = Shape.WAITING if max(queues.values()) > MANY_MESSAGES else Shape.READY
    text = f"{', '.join(waiting)} in queue" if waiting else "queues are empty"
    return [health_of(shape, "broker", text)]


register_health(broker_health)
