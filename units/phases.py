"""Roles and phases of GPU units, and the reasons that explain the phases."""

from types import MappingProxyType
from typing import Final

from django.db.models import TextChoices

from gpuplatform.lifecycle.explanations import ExplainedReason, Explanation, explanations
from gpuplatform.workloads import owner
from gpuplatform.workloads.causes import DELAY_CAUSES

STOCK_NAMESPACE: Final = "runtime-stock"
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
        any ──> Terminating

    The API creates rows in phase `Pending`, and the acceptance of a deletion sets the phase
    `Terminating`.
    """

    PENDING = "Pending", "Pending"
    PROGRESSING = owner.PROGRESSING, "Progressing"
    READY = owner.READY, "Ready"
    STOPPED = "Stopped", "Stopped"
    FAILED = owner.FAILED, "Failed"
    TERMINATING = owner.TERMINATING, "Terminating"


UNIT_PHASES: MappingProxyType[UnitPhase, str] = MappingProxyType(
    {
        UnitPhase.PENDING: "The unit was requested; the cluster has not reported it yet.",
        UnitPhase.PROGRESSING: (
            "The pod is starting, changing or terminating, or the unit waits for its GPUs."
        ),
        UnitPhase.READY: "The pod is ready.",
        UnitPhase.STOPPED: "The unit has no pod and holds no GPUs.",
        UnitPhase.FAILED: "The spec cannot be applied; see the reason.",
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
    GPUS_MISSING = (
        "GPUsMissing",
        Explanation(
            "The node offers fewer GPUs than its pods hold. Its stock units cannot be claimed; its"
            " active units keep running.",
            "Find out why the node lost GPUs. The units recover when the GPUs are available.",
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
        Explanation("The previous pod is terminating.", "Wait until the pod is deleted."),
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
    FINALIZERS_REMAIN = owner.FINALIZERS_REMAIN


UNIT_REASONS = explanations(UnitReason)
"""The explanation and the next step of each reason."""


class UnitWait(ExplainedReason):
    """The reasons of waiting operations on units, in addition to `OperationWait`."""

    STOPPING = (
        "Stopping",
        Explanation(
            "The start waits until the previous pods of the unit are deleted.",
            "Wait. If the operation does not continue, find out why the pod does not terminate.",
        ),
    )
    WAITING_FOR_STOCK = (
        "WaitingForStock",
        Explanation(
            "No stock unit is claimed; the operation waits up to ten minutes for a ready one.",
            "Seed stock of this GPU spec, or increase its warm target.",
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
