"""Roles and phases of GPU units, and the reasons that explain the phases."""

from types import MappingProxyType
from typing import Final

from django.db.models import TextChoices

from gpuplatform.formats import namespaces
from gpuplatform.lifecycle.explanations import ExplainedReason, Explanation, explanations
from gpuplatform.lifecycle.transition import PhaseTable
from gpuplatform.workloads import owner
from gpuplatform.workloads.causes import DELAY_CAUSES, END_CAUSES, NODE_CAUSES

STOCK_NAMESPACE: Final = namespaces.STOCK_NAMESPACE
"""The namespace of all stock units. Units in other namespaces are active units."""


class UnitRole(TextChoices):
    """The role of a GPU unit, which its namespace determines."""

    STOCK = "stock", "Stock"
    ACTIVE = "active", "Active"


def role_of(namespace: str) -> UnitRole:
    """Return the role of units in a namespace."""
    return UnitRole.STOCK if namespace == STOCK_NAMESPACE else UnitRole.ACTIVE


class UnitPhase(TextChoices):
    """The phases of a GPU unit in either role.

    The planner writes the phase to the status of the resource; the mirror copies it to the row.

    ::

        Pending ──> Progressing <──> Ready
                        ^  │           │
                        │  └──> Failed <┘      Stopped: no pod, no GPUs
                        └────────┘
        Progressing, Ready ──> Succeeded or Failed, if the program may end
        any ──> Terminating

    The API creates rows in phase `Pending`, and the acceptance of a deletion sets the phase
    `Terminating`.
    """

    PENDING = "Pending", "Pending"
    PROGRESSING = owner.PROGRESSING, "Progressing"
    READY = owner.READY, "Ready"
    STOPPED = "Stopped", "Stopped"
    SUCCEEDED = "Succeeded", "Succeeded"
    FAILED = owner.FAILED, "Failed"
    TERMINATING = owner.TERMINATING, "Terminating"


class RequestPhase(TextChoices):
    """The phases of a request for capacity.

    ::

        Open <──> Granted
          └───┬──────┘
              v
           Closed

    The matcher grants an open request. If the granted stock is deleted before the hand-over, the
    request is open again. The end of its operation closes it.
    """

    OPEN = "Open", "Waiting"
    GRANTED = "Granted", "Granted"
    CLOSED = "Closed", "Closed"


REQUEST_TRANSITIONS: PhaseTable = MappingProxyType(
    {
        RequestPhase.OPEN: frozenset({RequestPhase.GRANTED, RequestPhase.CLOSED}),
        RequestPhase.GRANTED: frozenset({RequestPhase.OPEN, RequestPhase.CLOSED}),
        RequestPhase.CLOSED: frozenset(),
    }
)


class WarmImageState(TextChoices):
    """The states of a warm image on a node."""

    PULLING = "Pulling", "Pulling"
    PRESENT = "Present", "Present"
    FAILED = "Failed", "Failed"


UNIT_PHASES: MappingProxyType[UnitPhase, str] = MappingProxyType(
    {
        UnitPhase.PENDING: "The unit was requested; the cluster has not reported it yet.",
        UnitPhase.PROGRESSING: (
            "The pod is starting, changing or terminating, or the unit waits for its GPUs."
        ),
        UnitPhase.READY: "The pod is ready.",
        UnitPhase.STOPPED: "The unit has no pod and holds no GPUs.",
        UnitPhase.SUCCEEDED: "The program ended successfully. The unit holds no GPUs.",
        UnitPhase.FAILED: "The spec cannot be applied, or the program failed; see the reason.",
        UnitPhase.TERMINATING: "The unit is being deleted.",
    }
)
"""The description of each phase."""


class UnitReason(ExplainedReason):
    """The reasons of the `Ready` condition of a unit."""

    STOCK_READY = (
        "StockReady",
        Explanation(
            "The placeholder pod of the stock unit is running; the stock unit can be claimed.",
            "No action is required.",
            title="Ready",
            is_well=True,
        ),
    )
    UNIT_READY = (
        "UnitReady",
        Explanation("The pod is ready.", "No action is required.", title="Ready", is_well=True),
    )
    STOCK_NOT_READY = (
        "StockNotReady",
        Explanation(
            "The placeholder pod of the stock unit is starting or changing.",
            "Wait until the pod has started.",
            title="Starting",
            causes=DELAY_CAUSES,
        ),
    )
    STOCK_WITHHELD = (
        "StockWithheld",
        Explanation(
            "The node of the stock unit would not accept the pod of a unit, so the stock unit"
            " cannot be claimed. The cause is the state of the node.",
            "Correct the state of the node. The stock unit can then be claimed again.",
            title="Withheld",
            causes=NODE_CAUSES,
        ),
    )
    GPUS_MISSING = (
        "GPUsMissing",
        Explanation(
            "The node offers fewer GPUs than its pods hold. The unit keeps running, but may have"
            " lost a GPU.",
            "Find out why the node lost GPUs. The unit recovers when the GPUs are available.",
        ),
    )
    UNIT_PROGRESSING = (
        "UnitProgressing",
        Explanation(
            "The pod is starting or changing.",
            "Wait. If the unit does not become ready, check the Events and the log of the pod.",
            title="Starting",
            causes=DELAY_CAUSES,
        ),
    )
    WAITING_FOR_STOCK = (
        "WaitingForStock",
        Explanation(
            "The consumed stock unit has not released its GPUs yet.",
            "Wait until the stock unit has released its GPUs.",
        ),
    )
    STOPPED = (
        "Stopped",
        Explanation(
            "The unit is stopped and holds no GPUs.",
            "Start the unit when you need it again.",
        ),
    )
    STOPPING = (
        "Stopping",
        Explanation("The previous pod is terminating.", "Wait until the pod has ended."),
    )
    PROGRAM_SUCCEEDED = (
        "ProgramSucceeded",
        Explanation(
            "The program ended with exit code 0. The unit holds no GPUs.",
            "Start the unit to run the program again, or delete the unit.",
            title="Succeeded",
            is_well=True,
        ),
    )
    PROGRAM_FAILED = (
        "ProgramFailed",
        Explanation(
            "The program failed, and its template does not start it again. The unit holds no"
            " GPUs. The message contains the exit code and the last lines of the log.",
            "Correct the program or its template, then start the unit.",
            title="Program failed",
            causes=END_CAUSES,
        ),
    )
    INVALID_SPEC = owner.INVALID_SPEC
    ACCESS_CONFIG_INVALID = (
        "AccessConfigInvalid",
        Explanation(
            "The `access` block of the unit is invalid; the message names the field and the rule.",
            "Correct that field of the `access` block.",
        ),
    )
    NAME_CONFLICT = owner.NAME_CONFLICT
    POD_STARTUP_FAILED = owner.STARTUP_FAILED
    POD_STATUS_SYNC_FAILED = owner.PODS_UNREADABLE
    UNIT_SERVICE_SYNC_FAILED = (
        "UnitServiceSyncFailed",
        Explanation(
            "The cluster rejected a read or a write of the unit's Service.",
            "Check the platform's permissions for Services.",
        ),
    )
    UNIT_DEPLOYMENT_SYNC_FAILED = (
        "UnitDeploymentSyncFailed",
        Explanation(
            "The cluster rejected a read or a write of the unit's Deployment.",
            "Check the platform's permissions for Deployments.",
        ),
    )
    UNIT_JOB_SYNC_FAILED = (
        "UnitJobSyncFailed",
        Explanation(
            "The cluster rejected a read or a write of the unit's Job.",
            "Check the platform's permissions for Jobs.",
        ),
    )
    FINALIZERS_REMAIN = owner.FINALIZERS_REMAIN
    WAITING_FOR_CAPACITY = (
        "WaitingForCapacity",
        Explanation(
            "The unit waits in the queue of its GPU spec until stock is granted to it.",
            "Wait, or cancel the operation. An operator can seed stock or add GPUs.",
            title="Waiting for capacity",
            is_well=True,
        ),
    )
    WAITING_FOR_QUOTA = (
        "WaitingForQuota",
        Explanation(
            "The tenant has reached a limit of GPUs, so that no stock is granted to the unit.",
            "Stop units that are not needed, or ask an operator for a higher limit.",
            title="Waiting for quota",
            is_well=True,
        ),
    )
    PREEMPTED = (
        "Preempted",
        Explanation(
            "The unit was stopped, because a request that is not preemptible needed its GPUs. It"
            " waits in the queue of its GPU spec and then starts again.",
            "Wait, or create units that must not be stopped without `preemptible`.",
        ),
    )
    PREEMPTION_NOTICE = (
        "PreemptionNotice",
        Explanation(
            "The unit is preemptible, and will be stopped for a request that is not. The message"
            " contains the time.",
            "Save the work of the unit. It waits for stock after the stop and then starts again.",
        ),
    )


UNIT_REASONS = explanations(UnitReason)
"""The explanation and the next step of each reason."""


class UnitWait(ExplainedReason):
    """The reasons of waiting operations on units, in addition to `OperationWait`."""

    STOPPING = (
        "Stopping",
        Explanation(
            "The start waits until the previous pods of the unit have ended.",
            "Wait. If the operation does not continue, find out why the pod does not terminate.",
        ),
    )
    WAITING_FOR_CAPACITY = (
        "WaitingForCapacity",
        Explanation(
            "The operation waits in the queue of its GPU spec until stock is granted to it.",
            "Check the capacity queue for the reason. Seed stock, or add GPUs.",
        ),
    )
    SEEDING = (
        "Seeding",
        Explanation(
            "The removal waits for stock units that are being created.",
            "Wait. The operation continues automatically.",
        ),
    )


UNIT_WAITS = explanations(UnitWait)
"""The explanation and the next step of each reason."""


class QueueCause(ExplainedReason):
    """The causes for which the requests of a GPU spec wait for stock."""

    SPEC_MISSING = (
        "SpecMissing",
        Explanation(
            "The catalogue does not contain the GPU spec, so that no stock is seeded for it.",
            "Create the GPU spec, or cancel the operations.",
        ),
    )
    SPEC_DISABLED = (
        "SpecDisabled",
        Explanation(
            "The GPU spec is disabled, so that its stock cannot be claimed.",
            "Enable the GPU spec, or cancel the operations.",
        ),
    )
    WAITING_FOR_QUOTA = (
        "WaitingForQuota",
        Explanation(
            "The tenant has reached a limit of GPUs.",
            "Wait until the tenant uses fewer GPUs, or change its limits.",
        ),
    )
    STOCK_AVAILABLE = (
        "StockAvailable",
        Explanation(
            "Stock is ready. It is granted in order, or held for the first request.",
            "Wait. If the requests remain, check that an operations worker is running.",
        ),
    )
    STOCK_UNSCHEDULABLE = (
        "StockUnschedulable",
        Explanation(
            "The stock that was seeded for the queue does not fit any node.",
            "Add nodes, or stop units or stock pools that hold GPUs.",
        ),
    )
    STOCK_STARTING = (
        "StockStarting",
        Explanation("Stock of the GPU spec is starting.", "Wait until it is ready."),
    )
    TOP_UP_PAUSED = (
        "TopUpPaused",
        Explanation(
            "The top-up of the GPU spec is paused, so that no stock is seeded.",
            "Resume the top-up, or seed stock.",
        ),
    )
    STOCK_FAILED = (
        "StockFailed",
        Explanation(
            "Several stock units have failed, so that the top-up has stopped.",
            "Resolve the failures of the stock units, and remove these stock units.",
        ),
    )
    STOCK_MISSING = (
        "StockMissing",
        Explanation(
            "No stock of the GPU spec is ready or starting. The top-up seeds stock.",
            "Wait. If no stock starts, check that a periodic worker is running.",
        ),
    )


QUEUE_CAUSES = explanations(QueueCause)
"""The explanation and the next step of each cause."""
