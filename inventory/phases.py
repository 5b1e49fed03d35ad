"""Phases of stock pools, and the reasons that explain the phases."""

from types import MappingProxyType

from django.db.models import TextChoices

from gpuplatform.lifecycle.explanations import ExplainedReason, Explanation, explanations
from gpuplatform.workloads import owner
from gpuplatform.workloads.causes import DELAY_CAUSES


class PoolPhase(TextChoices):
    """The phases of a stock pool.

    The planner writes the phase to the status of the resource; the mirror copies it to the row.

    ::

        Pending ──> Progressing <──> Ready
                        ^  │           │
                        │  └──> Failed <┘      Empty: scaled to zero
                        └────────┘
        any ──> Terminating

    The API creates rows in phase `Pending`, and the acceptance of a deletion sets the phase
    `Terminating`.
    """

    PENDING = "Pending", "Pending"
    PROGRESSING = owner.PROGRESSING, "Progressing"
    READY = owner.READY, "Ready"
    EMPTY = "Empty", "Empty"
    FAILED = owner.FAILED, "Failed"
    TERMINATING = owner.TERMINATING, "Terminating"


POOL_PHASES: MappingProxyType[PoolPhase, str] = MappingProxyType(
    {
        PoolPhase.PENDING: "The stock pool was requested; the cluster has not reported it yet.",
        PoolPhase.PROGRESSING: "The pods are starting, or a change is in progress.",
        PoolPhase.READY: "All desired pods are available.",
        PoolPhase.EMPTY: "The stock pool is scaled to zero.",
        PoolPhase.FAILED: "The spec cannot be applied; see the reason.",
        PoolPhase.TERMINATING: "The stock pool is being deleted.",
    }
)
"""The description of each phase."""


class PoolReason(ExplainedReason):
    """The reasons of the `Ready` condition of a stock pool."""

    DEPLOYMENT_READY = (
        "DeploymentReady",
        Explanation(
            "All desired pods of the current generation are available.",
            "No action is required.",
            title="Ready",
            is_well=True,
        ),
    )
    DEPLOYMENT_PROGRESSING = (
        "DeploymentProgressing",
        Explanation(
            "A change is in progress, or pods are starting.",
            "Wait until the pods have started.",
            title="Starting",
            causes=DELAY_CAUSES,
        ),
    )
    SCALED_TO_ZERO = (
        "ScaledToZero",
        Explanation(
            "The desired number of pods is 0.",
            "Increase the number of replicas when you need the capacity.",
        ),
    )
    INVALID_SPEC = owner.INVALID_SPEC
    NAME_CONFLICT = owner.NAME_CONFLICT
    POD_STARTUP_FAILED = owner.STARTUP_FAILED
    POD_STATUS_SYNC_FAILED = owner.PODS_UNREADABLE
    SERVICE_SYNC_FAILED = (
        "ServiceSyncFailed",
        Explanation(
            "The cluster rejected a read or a write of the stock pool's Service.",
            "Check the platform's permissions for Services.",
        ),
    )
    DEPLOYMENT_SYNC_FAILED = (
        "DeploymentSyncFailed",
        Explanation(
            "The cluster rejected a read or a write of the stock pool's Deployment.",
            "Check the platform's permissions for Deployments.",
        ),
    )
    FINALIZERS_REMAIN = owner.FINALIZERS_REMAIN


POOL_REASONS = explanations(PoolReason)
"""The explanation and the next step of each reason."""
