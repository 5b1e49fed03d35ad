"""The roles and phases of a GPU unit and the reasons that explain them."""

from enum import StrEnum
from types import MappingProxyType
from typing import Final

from django.db.models import TextChoices

from gpuplatform.lifecycle.explanations import Explanation
from gpuplatform.lifecycle.transition import PhaseTable
from gpuplatform.workloads.causes import DELAY_CAUSES, FAILURE_CAUSES

STOCK_NAMESPACE: Final = "runtime-stock"
"""Where stock lives; a unit anywhere else is active."""


class UnitRole(TextChoices):
    """What a GPU unit is for; its namespace decides."""

    STOCK = "stock", "Stock"
    ACTIVE = "active", "Active"


def role_of(namespace: str) -> UnitRole:
    """Return the role of a unit in that namespace."""
    return UnitRole.STOCK if namespace == STOCK_NAMESPACE else UnitRole.ACTIVE


class UnitPhase(TextChoices):
    """How a GPU unit is doing, in either role.

    ::

        Pending ──> Progressing <──> Ready
                        ^  │           │
                        │  └──> Failed <┘      Stopped: its GPU is given up
                        └────────┘
        any ──> Terminating

    The API makes the first one, the reconciler the others; Terminating comes with a deletion.
    """

    PENDING = "Pending", "Pending"
    PROGRESSING = "Progressing", "Progressing"
    READY = "Ready", "Ready"
    STOPPED = "Stopped", "Stopped"
    FAILED = "Failed", "Failed"
    TERMINATING = "Terminating", "Terminating"


UNIT_PHASES: MappingProxyType[UnitPhase, str] = MappingProxyType(
    {
        UnitPhase.PENDING: "It was asked for and is not yet seen in the cluster.",
        UnitPhase.PROGRESSING: "Its pod is starting, changing or ending, or it waits for its GPU.",
        UnitPhase.READY: "Its pod is ready.",
        UnitPhase.STOPPED: "It is kept, and holds no GPU.",
        UnitPhase.FAILED: "Something is in its way, and the reason says what.",
        UnitPhase.TERMINATING: "It is being deleted.",
    }
)
"""What each of them means."""

_OBSERVED = frozenset(
    {UnitPhase.PROGRESSING, UnitPhase.READY, UnitPhase.STOPPED, UnitPhase.FAILED}
)

UNIT_TRANSITIONS: PhaseTable = MappingProxyType(
    {
        UnitPhase.PENDING: _OBSERVED | {UnitPhase.TERMINATING},
        UnitPhase.PROGRESSING: _OBSERVED | {UnitPhase.TERMINATING},
        UnitPhase.READY: _OBSERVED | {UnitPhase.TERMINATING},
        UnitPhase.STOPPED: _OBSERVED | {UnitPhase.TERMINATING},
        UnitPhase.FAILED: _OBSERVED | {UnitPhase.TERMINATING},
        UnitPhase.TERMINATING: frozenset(),
    }
)


class UnitReason(StrEnum):
    """Why the `Ready` condition of a unit is what it is."""

    STOCK_READY = "StockReady"
    UNIT_READY = "UnitReady"
    STOCK_NOT_READY = "StockNotReady"
    GPUS_MISSING = "GPUsMissing"
    UNIT_PROGRESSING = "UnitProgressing"
    WAITING_FOR_STOCK = "WaitingForStock"
    STOPPED = "Stopped"
    STOPPING = "Stopping"
    INVALID_SPEC = "InvalidSpec"
    ACCESS_CONFIG_INVALID = "AccessConfigInvalid"
    NAME_CONFLICT = "NameConflict"
    POD_STARTUP_FAILED = "PodStartupFailed"
    POD_STATUS_SYNC_FAILED = "PodStatusSyncFailed"
    UNIT_SERVICE_SYNC_FAILED = "UnitServiceSyncFailed"
    UNIT_DEPLOYMENT_SYNC_FAILED = "UnitDeploymentSyncFailed"
    FINALIZERS_REMAIN = "FinalizersRemain"


UNIT_REASONS: MappingProxyType[UnitReason, Explanation] = MappingProxyType(
    {
        UnitReason.STOCK_READY: Explanation(
            "The reservation of a stock unit runs; it can be handed over.",
            "Nothing to do.",
            title="Ready",
            is_well=True,
        ),
        UnitReason.UNIT_READY: Explanation(
            "The user's pod is ready.",
            "Nothing to do.",
            title="Ready",
            is_well=True,
        ),
        UnitReason.STOCK_NOT_READY: Explanation(
            "The reservation of a stock unit is starting or changing.",
            "Wait; the reservation is starting.",
            title="Starting",
            causes=DELAY_CAUSES,
        ),
        UnitReason.GPUS_MISSING: Explanation(
            "The node offers fewer GPUs than its pods hold: stock is kept back, units run on.",
            "See why the node lost GPUs; all is well by itself once they are there again.",
        ),
        UnitReason.UNIT_PROGRESSING: Explanation(
            "The user's pod is starting or changing.",
            "Wait; if it lasts, its pod, its Events and its log say why.",
            title="Starting",
            causes=DELAY_CAUSES,
        ),
        UnitReason.WAITING_FOR_STOCK: Explanation(
            "The stock unit that is taken over has not given up its GPU yet.",
            "Wait; the stock unit is giving up its GPU.",
        ),
        UnitReason.STOPPED: Explanation(
            "The unit is stopped and holds no GPU.",
            "Start the unit when it is wanted again.",
        ),
        UnitReason.STOPPING: Explanation(
            "The pod of a stopped unit is ending.",
            "Wait; the pod is ending.",
        ),
        UnitReason.INVALID_SPEC: Explanation(
            "A resource that was written by hand breaks a rule; the message has field and rule.",
            "Correct the named field of the GPU unit.",
        ),
        UnitReason.ACCESS_CONFIG_INVALID: Explanation(
            "The unit's access breaks a rule; the message has field and rule.",
            "Correct the named field of the unit's access.",
        ),
        UnitReason.NAME_CONFLICT: Explanation(
            "An object of the unit's name exists and is not the unit's; it is left as it is.",
            "Remove or rename the object that is in the way.",
        ),
        UnitReason.POD_STARTUP_FAILED: Explanation(
            "The pod does not start; the cause says why.",
            "Correct what the message names: the image, the command, the size or a Secret.",
            causes=FAILURE_CAUSES,
        ),
        UnitReason.POD_STATUS_SYNC_FAILED: Explanation(
            "The cluster does not let the platform read the unit's pods.",
            "Check the platform's rights on pods.",
        ),
        UnitReason.UNIT_SERVICE_SYNC_FAILED: Explanation(
            "The cluster refuses to let the platform read or write the unit's Service.",
            "Check the platform's rights on services.",
        ),
        UnitReason.UNIT_DEPLOYMENT_SYNC_FAILED: Explanation(
            "The cluster refuses to let the platform read or write the unit's Deployment.",
            "Check the platform's rights on deployments.",
        ),
        UnitReason.FINALIZERS_REMAIN: Explanation(
            "A finalizer of somebody else holds the deletion up; the message names it.",
            "Have the named finalizer taken off.",
        ),
    }
)
"""What each of them means, and what a person does."""


class UnitWait(StrEnum):
    """Why an operation on units waits, beside what makes every operation wait."""

    STOPPING = "Stopping"
    WAITING_FOR_STOCK = "WaitingForStock"
    SEEDING = "Seeding"


UNIT_WAITS: MappingProxyType[UnitWait, Explanation] = MappingProxyType(
    {
        UnitWait.STOPPING: Explanation(
            "A start waits until the pods of the last run are gone.",
            "Wait; if it lasts, see why the pod does not end.",
        ),
        UnitWait.WAITING_FOR_STOCK: Explanation(
            "The stock that was set aside vanished; for ten minutes other stock is waited for.",
            "Seed stock of that GPU spec, or raise its warm target.",
        ),
        UnitWait.SEEDING: Explanation(
            "A removal waits for stock that is just being made.",
            "Wait; it goes on by itself.",
        ),
    }
)
"""What each of them means, and what a person does."""
