"""The roles and phases of a GPU unit and the reasons that explain them."""

from enum import StrEnum
from types import MappingProxyType
from typing import Final

from django.db.models import TextChoices

from gpuplatform.lifecycle.transition import PhaseTable

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
    UNIT_PROGRESSING = "UnitProgressing"
    WAITING_FOR_STOCK = "WaitingForStock"
    STOPPED = "Stopped"
    STOPPING = "Stopping"
    CONSUMED = "Consumed"
    INVALID_SPEC = "InvalidSpec"
    ACCESS_CONFIG_INVALID = "AccessConfigInvalid"
    NAME_CONFLICT = "NameConflict"
    POD_STARTUP_FAILED = "PodStartupFailed"
    POD_STATUS_SYNC_FAILED = "PodStatusSyncFailed"
    UNIT_SERVICE_SYNC_FAILED = "UnitServiceSyncFailed"
    UNIT_DEPLOYMENT_SYNC_FAILED = "UnitDeploymentSyncFailed"
    FINALIZERS_REMAIN = "FinalizersRemain"


NEXT_STEPS: MappingProxyType[UnitReason, str] = MappingProxyType(
    {
        UnitReason.STOCK_READY: "Nothing to do.",
        UnitReason.UNIT_READY: "Nothing to do.",
        UnitReason.STOCK_NOT_READY: "Wait; the reservation is starting.",
        UnitReason.UNIT_PROGRESSING: "Wait; the pod is starting.",
        UnitReason.WAITING_FOR_STOCK: "Wait; the stock unit is giving up its GPU.",
        UnitReason.STOPPED: "Start the unit when it is wanted again.",
        UnitReason.STOPPING: "Wait; the pod is ending.",
        UnitReason.CONSUMED: "Nothing to do; a unit takes over its GPU.",
        UnitReason.INVALID_SPEC: "Correct the named field of the GPU unit.",
        UnitReason.ACCESS_CONFIG_INVALID: "Correct the named field of the unit's access.",
        UnitReason.NAME_CONFLICT: "Remove or rename the object that is in the way.",
        UnitReason.POD_STARTUP_FAILED: "Correct the image, the command or the requested size.",
        UnitReason.POD_STATUS_SYNC_FAILED: "Check the platform's rights on pods.",
        UnitReason.UNIT_SERVICE_SYNC_FAILED: "Check the platform's rights on services.",
        UnitReason.UNIT_DEPLOYMENT_SYNC_FAILED: "Check the platform's rights on deployments.",
        UnitReason.FINALIZERS_REMAIN: "Have the named finalizer taken off.",
    }
)
"""What a person does next, by reason."""
