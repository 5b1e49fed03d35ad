"""The roles and phases of a GPU unit and the reasons that explain them."""

from types import MappingProxyType
from typing import Final

from django.db.models import TextChoices

from gpuplatform.lifecycle.explanations import ExplainedReason, Explanation, explanations
from gpuplatform.workloads import owner
from gpuplatform.workloads.causes import DELAY_CAUSES

STOCK_NAMESPACE: Final = "runtime-stock"
"""The namespace of stock; a unit in another namespace is active."""


class UnitRole(TextChoices):
    """What a GPU unit is for; its namespace decides."""

    STOCK = "stock", "Stock"
    ACTIVE = "active", "Active"


def role_of(namespace: str) -> UnitRole:
    """Return the role of a unit in that namespace."""
    return UnitRole.STOCK if namespace == STOCK_NAMESPACE else UnitRole.ACTIVE


class UnitPhase(TextChoices):
    """The phases of a GPU unit, in either role; the row copies that of the resource.

    ::

        Pending ──> Progressing <──> Ready
                        ^  │           │
                        │  └──> Failed <┘      Stopped: its GPU is released
                        └────────┘
        any ──> Terminating

    The API writes the first one, the planner the others; Terminating comes with a deletion.
    """

    PENDING = "Pending", "Pending"
    PROGRESSING = owner.PROGRESSING, "Progressing"
    READY = owner.READY, "Ready"
    STOPPED = "Stopped", "Stopped"
    FAILED = owner.FAILED, "Failed"
    TERMINATING = owner.TERMINATING, "Terminating"


UNIT_PHASES: MappingProxyType[UnitPhase, str] = MappingProxyType(
    {
        UnitPhase.PENDING: "It was requested and is not yet observed in the cluster.",
        UnitPhase.PROGRESSING: (
            "Its pod is starting, changing or terminating, or it waits for its GPU."
        ),
        UnitPhase.READY: "Its pod is ready.",
        UnitPhase.STOPPED: "It is kept without a pod and holds no GPU.",
        UnitPhase.FAILED: "It cannot be brought to its spec; see the reason.",
        UnitPhase.TERMINATING: "It is being deleted.",
    }
)
"""What each of them means."""


class UnitReason(ExplainedReason):
    """Why the `Ready` condition of a unit has its status."""

    STOCK_READY = (
        "StockReady",
        Explanation(
            "The placeholder pod of a stock unit runs; the stock can be handed over.",
            "Nothing to do.",
            title="Ready",
            is_well=True,
        ),
    )
    UNIT_READY = (
        "UnitReady",
        Explanation("The pod is ready.", "Nothing to do.", title="Ready", is_well=True),
    )
    STOCK_NOT_READY = (
        "StockNotReady",
        Explanation(
            "The placeholder pod of a stock unit is starting or changing.",
            "Wait; the pod is starting.",
            title="Starting",
            causes=DELAY_CAUSES,
        ),
    )
    GPUS_MISSING = (
        "GPUsMissing",
        Explanation(
            "The node offers fewer GPUs than its pods hold: stock is not eligible, units run on.",
            "Find out why the node lost GPUs; the state recovers automatically with them.",
        ),
    )
    UNIT_PROGRESSING = (
        "UnitProgressing",
        Explanation(
            "The pod is starting or changing.",
            "Wait; if it lasts, see the pod, its Events and its log.",
            title="Starting",
            causes=DELAY_CAUSES,
        ),
    )
    WAITING_FOR_STOCK = (
        "WaitingForStock",
        Explanation(
            "The claimed stock unit has not released its GPU yet.",
            "Wait; the stock unit is releasing its GPU.",
        ),
    )
    STOPPED = (
        "Stopped",
        Explanation(
            "The unit is stopped and holds no GPU.",
            "Start the unit when it is needed again.",
        ),
    )
    STOPPING = (
        "Stopping",
        Explanation("The pod of the last run is terminating.", "Wait; the pod is terminating."),
    )
    INVALID_SPEC = owner.INVALID_SPEC
    ACCESS_CONFIG_INVALID = (
        "AccessConfigInvalid",
        Explanation(
            "The unit's access breaks a rule; the message names field and rule.",
            "Correct the named field of the unit's access.",
        ),
    )
    NAME_CONFLICT = owner.NAME_CONFLICT
    POD_STARTUP_FAILED = owner.STARTUP_FAILED
    POD_STATUS_SYNC_FAILED = owner.PODS_UNREADABLE
    UNIT_SERVICE_SYNC_FAILED = (
        "UnitServiceSyncFailed",
        Explanation(
            "The cluster does not allow the platform to read or write the unit's Service.",
            "Check the platform's permissions on Services.",
        ),
    )
    UNIT_DEPLOYMENT_SYNC_FAILED = (
        "UnitDeploymentSyncFailed",
        Explanation(
            "The cluster does not allow the platform to read or write the unit's Deployment.",
            "Check the platform's permissions on Deployments.",
        ),
    )
    FINALIZERS_REMAIN = owner.FINALIZERS_REMAIN


UNIT_REASONS = explanations(UnitReason)
"""What each reason means, and what a person does."""


class UnitWait(ExplainedReason):
    """Why an operation on units waits, in addition to what makes every operation wait."""

    STOPPING = (
        "Stopping",
        Explanation(
            "A start waits until the pods of the last run are gone.",
            "Wait; if it lasts, find out why the pod does not terminate.",
        ),
    )
    WAITING_FOR_STOCK = (
        "WaitingForStock",
        Explanation(
            "The claimed stock was lost; the operation waits up to ten minutes for other stock.",
            "Seed stock of that GPU spec, or raise its warm target.",
        ),
    )
    SEEDING = (
        "Seeding",
        Explanation(
            "A removal waits for stock that is being created.",
            "Wait; the operation continues automatically.",
        ),
    )


UNIT_WAITS = explanations(UnitWait)
"""What each wait means, and what a person does."""
