"""The phases of an operation."""

from enum import StrEnum
from types import MappingProxyType

from django.db.models import TextChoices

from gpuplatform.lifecycle.explanations import Explanation, next_steps
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


OPERATION_PHASES: MappingProxyType[OperationPhase, str] = MappingProxyType(
    {
        OperationPhase.PENDING: "It waits for a worker, its turn, or what its reason names.",
        OperationPhase.RUNNING: "A worker is at it.",
        OperationPhase.SUCCEEDED: "It is done in the cluster; the object says when it is ready.",
        OperationPhase.FAILED: "It was refused; the code says why.",
        OperationPhase.CANCELLED: "An operator took it back; what was made stays.",
    }
)
"""What each of them means."""

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
    """Why an operation of any kind waits; apps have further ones beside their phases."""

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
            "The cluster does not answer, answers 5xx, or asks to wait.",
            "Check the API server and the path to it; the job goes on by itself.",
        ),
        OperationWait.CLUSTER_FORBIDDEN: Explanation(
            "The cluster refuses for want of rights or quota; the message has its words.",
            "Give the account the right, or raise the quota; the job goes on by itself.",
        ),
        OperationWait.CLUSTER_REJECTED: Explanation(
            "The cluster refuses a stop; it is tried again, since a stop never fails.",
            "Remove what the message names, such as an admission policy.",
        ),
        OperationWait.CLUSTER_ERROR: Explanation(
            "The cluster answered with an error of another kind; the message has its words.",
            "Read the message; the job is tried again by itself.",
        ),
        OperationWait.CONFLICT: Explanation(
            "Somebody else changed the object at the same time.",
            "Wait; if it lasts, find who else writes the object.",
        ),
        OperationWait.PROGRESSING: Explanation(
            "A long job has done a part and goes on.",
            "Wait; its progress says how far it is.",
        ),
        OperationWait.CANCELLING: Explanation(
            "A cancellation waits until the part that a worker is at has ended.",
            "Wait; it ends by itself.",
        ),
        OperationWait.LEFTOVER_IN_THE_WAY: Explanation(
            "A late write of a job that has ended left an object of that name.",
            "Wait; the platform removes it.",
        ),
    }
)
"""What each of them means, and what a person does."""

WAIT_NEXT_STEPS = next_steps(OPERATION_WAITS)
"""What a person does next, by what it waits for."""
