"""Phases of operations, and the reasons for which operations wait."""

from types import MappingProxyType

from django.db.models import TextChoices

from gpuplatform.lifecycle.explanations import ExplainedReason, Explanation, explanations
from gpuplatform.lifecycle.transition import PhaseTable, open_phases, terminal_phases


class OperationPhase(TextChoices):
    """Phase of an operation. `Succeeded` means stored in the cluster, not ready.

    ::

        Pending ──claim──> Running ──outcome──> Succeeded | Failed
           │  ^               │ │
           │  └── waits ──────┘ └─ cancel (a seeding, between its steps) ──> Cancelled
           └── cancel ──> Cancelled

    An operator cancels a waiting operation. The worker that claimed the operation performs
    every other transition.
    """

    PENDING = "Pending", "Pending"
    RUNNING = "Running", "Running"
    SUCCEEDED = "Succeeded", "Succeeded"
    FAILED = "Failed", "Failed"
    CANCELLED = "Cancelled", "Cancelled"


OPERATION_PHASES: MappingProxyType[OperationPhase, str] = MappingProxyType(
    {
        OperationPhase.PENDING: "The operation waits for a worker, for an earlier operation on the"
        " object, or because of its reason.",
        OperationPhase.RUNNING: "A worker executes the operation.",
        OperationPhase.SUCCEEDED: "The change is stored in the cluster.",
        OperationPhase.FAILED: "The operation failed. The error code names the cause.",
        OperationPhase.CANCELLED: "An operator cancelled the operation. Objects that it"
        " created remain.",
    }
)
"""The meaning of each phase."""

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


class OperationWait(ExplainedReason):
    """Reasons for which an operation of any kind waits. Apps define additional reasons."""

    CLUSTER_UNAVAILABLE = (
        "ClusterUnavailable",
        Explanation(
            "The cluster does not respond, responds with 5xx or limits the rate of requests.",
            "Check the API server and the network. The operation is retried automatically.",
        ),
    )
    CLUSTER_FORBIDDEN = (
        "ClusterForbidden",
        Explanation(
            "The cluster rejects the request because of a missing permission or a quota.",
            "Grant the permission or raise the quota that the message names. The operation is"
            " retried automatically.",
        ),
    )
    CLUSTER_REJECTED = (
        "ClusterRejected",
        Explanation(
            "The cluster rejects the stop of the unit. The stop is retried until it succeeds.",
            "Remove the cause that the message names, such as an admission policy.",
        ),
    )
    CLUSTER_ERROR = (
        "ClusterError",
        Explanation(
            "The cluster returned another error.",
            "Resolve the error in the message. The operation is retried automatically.",
        ),
    )
    CONFLICT = (
        "Conflict",
        Explanation(
            "Another writer changed the object at the same time.",
            "Wait. If the conflict persists, find the other writer of the object.",
        ),
    )
    RECOVERY_NEEDED = (
        "RecoveryNeeded",
        Explanation(
            "The cluster and the database do not match, so that nothing is written.",
            "Stop every process and run `manage.py recover` (in development, `make recover`).",
        ),
    )
    EARLIER_OPERATION = (
        "EarlierOperation",
        Explanation(
            "An earlier operation on the same object has not ended.",
            "Wait. Operations on an object are executed in the order of their acceptance.",
        ),
    )
    NO_WORKER = (
        "NoWorker",
        Explanation(
            "No worker has claimed the operation yet.",
            "If the operation does not start, check that an `operations` worker is running.",
        ),
    )
    PROGRESSING = (
        "Progressing",
        Explanation(
            "The operation has completed a step and continues with the next one.",
            "Wait. The progress shows the number of processed objects.",
        ),
    )
    CANCELLING = (
        "Cancelling",
        Explanation(
            "The cancellation waits until the operation has completed its current step.",
            "Wait. The cancellation ends automatically.",
        ),
    )
    LEFTOVER_CONFLICT = (
        "LeftoverConflict",
        Explanation(
            "A late write of an ended operation created an object with the same name.",
            "Wait. The platform deletes the leftover object.",
        ),
    )


OPERATION_WAITS = explanations(OperationWait)
