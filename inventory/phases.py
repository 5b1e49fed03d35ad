"""The phases of a stock pool and the reasons that explain them."""

from enum import StrEnum
from types import MappingProxyType

from django.db.models import TextChoices

from gpuplatform.lifecycle.explanations import Explanation
from gpuplatform.lifecycle.transition import PhaseTable
from gpuplatform.workloads.causes import DELAY_CAUSES, FAILURE_CAUSES


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


POOL_PHASES: MappingProxyType[PoolPhase, str] = MappingProxyType(
    {
        PoolPhase.PENDING: "It was asked for and is not yet seen in the cluster.",
        PoolPhase.PROGRESSING: "Its pods are starting, or a change is under way.",
        PoolPhase.READY: "As many pods as wanted are available.",
        PoolPhase.EMPTY: "It is scaled to zero.",
        PoolPhase.FAILED: "Something is in its way, and the reason says what.",
        PoolPhase.TERMINATING: "It is being deleted.",
    }
)
"""What each of them means."""

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


POOL_REASONS: MappingProxyType[PoolReason, Explanation] = MappingProxyType(
    {
        PoolReason.DEPLOYMENT_READY: Explanation(
            "As many pods as wanted are available, of the present generation.",
            "Nothing to do.",
            title="Ready",
            is_well=True,
        ),
        PoolReason.DEPLOYMENT_PROGRESSING: Explanation(
            "A change is under way, or pods are starting.",
            "Wait; the pods are starting.",
            title="Starting",
            causes=DELAY_CAUSES,
        ),
        PoolReason.SCALED_TO_ZERO: Explanation(
            "No pods are wanted.",
            "Scale the pool up when its capacity is wanted.",
        ),
        PoolReason.INVALID_SPEC: Explanation(
            "A resource that was written by hand breaks a rule; the message has field and rule.",
            "Correct the named field of the stock pool.",
        ),
        PoolReason.NAME_CONFLICT: Explanation(
            "An object of the pool's name exists and is not the pool's; it is left as it is.",
            "Remove or rename the object that is in the way.",
        ),
        PoolReason.POD_STARTUP_FAILED: Explanation(
            "Too few pods are available; the cause says why.",
            "Correct what the message names: the image, the command, the size or a Secret.",
            causes=FAILURE_CAUSES,
        ),
        PoolReason.POD_STATUS_SYNC_FAILED: Explanation(
            "The cluster does not let the platform read the pool's pods.",
            "Check the platform's rights on pods.",
        ),
        PoolReason.SERVICE_SYNC_FAILED: Explanation(
            "The cluster refuses to let the platform read or write the pool's Service.",
            "Check the platform's rights on services.",
        ),
        PoolReason.DEPLOYMENT_SYNC_FAILED: Explanation(
            "The cluster refuses to let the platform read or write the pool's Deployment.",
            "Check the platform's rights on deployments.",
        ),
        PoolReason.FINALIZERS_REMAIN: Explanation(
            "A finalizer of somebody else holds the deletion up; the message names it.",
            "Have the named finalizer taken off.",
        ),
    }
)
"""What each of them means, and what a person does."""
