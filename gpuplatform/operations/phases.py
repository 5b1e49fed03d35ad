"""The phases of an operation."""

from enum import StrEnum
from types import MappingProxyType

from django.db.models import TextChoices

from gpuplatform.lifecycle.explanations import Explanation, next_steps
from gpuplatform.lifecycle.transition import PhaseTable, open_phases, terminal_phases


class OperationPhase(TextChoices):
    """The state of an accepted request.

    ::

        Pending ──claim──> Running ──outcome──> Succeeded | Failed
           │  ^               │ │
           │  └── waits ──────┘ └─ cancel (a seeding, between its steps) ──> Cancelled
           └── cancel ──> Cancelled

    An operator cancels an operation that waits; the worker that claimed it makes every other
    move. *Succeeded* means that the change is stored in the cluster, not that the object is ready.
    """

    PENDING = "Pending", "Pending"
    RUNNING = "Running", "Running"
    SUCCEEDED = "Succeeded", "Succeeded"
    FAILED = "Failed", "Failed"
    CANCELLED = "Cancelled", "Cancelled"


OPERATION_PHASES: MappingProxyType[OperationPhase, str] = MappingProxyType(
    {
        OperationPhase.PENDING: "It waits for a worker, an earlier operation, or its reason.",
        OperationPhase.RUNNING: "A worker executes it.",
        OperationPhase.SUCCEEDED: "The change is stored in the cluster.",
        OperationPhase.FAILED: "It failed; the error code is the cause.",
        OperationPhase.CANCELLED: "An operator cancelled it; objects that it created remain.",
    }
)
"""Meaning of each phase."""

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


class OperationWait(StrEnum):
    """Reasons for which an operation of any kind waits; apps define further ones."""

    CLUSTER_UNAVAILABLE = "ClusterUnavailable"
    CLUSTER_FORBIDDEN = "ClusterForbidden"
    CLUSTER_REJECTED = "ClusterRejected"
    CLUSTER_ERROR = "ClusterError"
    CONFLICT = "Conflict"
    PROGRESSING = "Progressing"
    CANCELLING = "Cancelling"
    LEFTOVER_IN_THE_WAY = "LeftoverInTheWay"


OPERATION_WAITS: MappingProxyType[OperationWait, Explanation] = MappingProxyType(
    {
        OperationWait.CLUSTER_UNAVAILABLE: Explanation(
            "The cluster does not answer, answers 5xx or limits the rate of requests.",
            "Check the API server and the network; the operation is retried automatically.",
        ),
        OperationWait.CLUSTER_FORBIDDEN: Explanation(
            "The cluster refuses the request because of permissions or quota; see the message.",
            "Grant the permission or raise the quota; the operation is retried automatically.",
        ),
        OperationWait.CLUSTER_REJECTED: Explanation(
            "The cluster refuses to stop the unit; a stop is retried until it succeeds.",
            "Remove the obstacle in the message, such as an admission policy.",
        ),
        OperationWait.CLUSTER_ERROR: Explanation(
            "The cluster answered with another error; see the message.",
            "Read the message; the operation is retried automatically.",
        ),
        OperationWait.CONFLICT: Explanation(
            "Another writer changed the object at the same time.",
            "Wait; if it persists, find the other writer of the object.",
        ),
        OperationWait.PROGRESSING: Explanation(
            "A long operation has finished a step and continues.",
            "Wait; the progress shows how much is done.",
        ),
        OperationWait.CANCELLING: Explanation(
            "A cancellation waits until the current step of a worker has ended.",
            "Wait; it ends automatically.",
        ),
        OperationWait.LEFTOVER_IN_THE_WAY: Explanation(
            "A late write of an ended operation left an object with that name.",
            "Wait; the platform deletes it.",
        ),
    }
)
"""Meaning and next step for each reason."""

WAIT_NEXT_STEPS = next_steps(OPERATION_WAITS)
"""Next step for each reason."""
