"""The phases of a stock pool and the reasons that explain them."""

from enum import StrEnum
from types import MappingProxyType

from django.db.models import TextChoices

from gpuplatform.lifecycle.transition import PhaseTable


class PoolPhase(TextChoices):
    """How a stock pool is doing.

    ::

        Pending ──> Progressing <──> Ready
                        ^  │           │
                        │  └──> Failed <┘      Empty: scaled to zero
                        └────────┘
        any ──> Terminating

    The API makes the first one, the reconciler the others; Terminating comes with a deletion.
    """

    PENDING = "Pending", "Pending"
    PROGRESSING = "Progressing", "Progressing"
    READY = "Ready", "Ready"
    EMPTY = "Empty", "Empty"
    FAILED = "Failed", "Failed"
    TERMINATING = "Terminating", "Terminating"


_OBSERVED = frozenset({PoolPhase.PROGRESSING, PoolPhase.READY, PoolPhase.EMPTY, PoolPhase.FAILED})

POOL_TRANSITIONS: PhaseTable = MappingProxyType(
    {
        PoolPhase.PENDING: _OBSERVED | {PoolPhase.TERMINATING},
        PoolPhase.PROGRESSING: _OBSERVED | {PoolPhase.TERMINATING},
        PoolPhase.READY: _OBSERVED | {PoolPhase.TERMINATING},
        PoolPhase.EMPTY: _OBSERVED | {PoolPhase.TERMINATING},
        PoolPhase.FAILED: _OBSERVED | {PoolPhase.TERMINATING},
        PoolPhase.TERMINATING: frozenset(),
    }
)


class PoolReason(StrEnum):
    """Why the `Ready` condition of a pool is what it is."""

    DEPLOYMENT_READY = "DeploymentReady"
    DEPLOYMENT_PROGRESSING = "DeploymentProgressing"
    SCALED_TO_ZERO = "ScaledToZero"
    INVALID_SPEC = "InvalidSpec"
    NAME_CONFLICT = "NameConflict"
    POD_STARTUP_FAILED = "PodStartupFailed"
    POD_STATUS_SYNC_FAILED = "PodStatusSyncFailed"
    SERVICE_SYNC_FAILED = "ServiceSyncFailed"
    DEPLOYMENT_SYNC_FAILED = "DeploymentSyncFailed"
    FINALIZERS_REMAIN = "FinalizersRemain"


NEXT_STEPS: MappingProxyType[PoolReason, str] = MappingProxyType(
    {
        PoolReason.DEPLOYMENT_READY: "Nothing to do.",
        PoolReason.DEPLOYMENT_PROGRESSING: "Wait; the pods are starting.",
        PoolReason.SCALED_TO_ZERO: "Scale the pool up when its capacity is wanted.",
        PoolReason.INVALID_SPEC: "Correct the named field of the stock pool.",
        PoolReason.NAME_CONFLICT: "Remove or rename the object that is in the way.",
        PoolReason.POD_STARTUP_FAILED: "Correct the image, the command or the requested size.",
        PoolReason.POD_STATUS_SYNC_FAILED: "Check the platform's rights on pods.",
        PoolReason.SERVICE_SYNC_FAILED: "Check the platform's rights on services.",
        PoolReason.DEPLOYMENT_SYNC_FAILED: "Check the platform's rights on deployments.",
        PoolReason.FINALIZERS_REMAIN: "Have the named finalizer taken off.",
    }
)
"""What a person does next, by reason."""
