"""The phases of an operation."""

from types import MappingProxyType

from django.db.models import TextChoices

from gpuplatform.lifecycle.transition import PhaseTable, open_phases, terminal_phases


class OperationPhase(TextChoices):
    """What has become of what was asked.

    ::

        Pending ──claim──> Running ──outcome──> Succeeded | Failed
           │  ^               │ │
           │  └── waits ──────┘ └─ cancel (a seeding, between its parts) ──> Cancelled
           └── cancel ──> Cancelled

    An operator cancels what waits; the worker that has it makes every other move. *Succeeded*
    says that the resource is in the cluster, never that it is ready.
    """

    PENDING = "Pending", "Pending"
    RUNNING = "Running", "Running"
    SUCCEEDED = "Succeeded", "Succeeded"
    FAILED = "Failed", "Failed"
    CANCELLED = "Cancelled", "Cancelled"


OPERATION_TRANSITIONS: PhaseTable = MappingProxyType(
    {
        OperationPhase.PENDING: frozenset(
            {OperationPhase.RUNNING, OperationPhase.FAILED, OperationPhase.CANCELLED}
        ),
        OperationPhase.RUNNING: frozenset(
            {
                OperationPhase.RUNNING,
                OperationPhase.PENDING,
                OperationPhase.SUCCEEDED,
                OperationPhase.FAILED,
                OperationPhase.CANCELLED,
            }
        ),
        OperationPhase.SUCCEEDED: frozenset(),
        OperationPhase.FAILED: frozenset(),
        OperationPhase.CANCELLED: frozenset(),
    }
)
OPEN_PHASES = open_phases(OPERATION_TRANSITIONS)
ENDED_PHASES = terminal_phases(OPERATION_TRANSITIONS)
