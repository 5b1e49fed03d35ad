"""The phases of a stock pool and the reasons that explain them."""

from types import MappingProxyType

from django.db.models import TextChoices

from gpuplatform.lifecycle.explanations import ExplainedReason, Explanation, explanations
from gpuplatform.workloads import owner
from gpuplatform.workloads.causes import DELAY_CAUSES


class PoolPhase(TextChoices):
    """The phases of a stock pool; the row copies that of the resource, which the planner writes.

    ::

        Pending ──> Progressing <──> Ready
                        ^  │           │
                        │  └──> Failed <┘      Empty: scaled to zero
                        └────────┘
        any ──> Terminating

    The API writes the first one; Terminating comes with a deletion.
    """

    PENDING = "Pending", "Pending"
    PROGRESSING = owner.PROGRESSING, "Progressing"
    READY = owner.READY, "Ready"
    EMPTY = "Empty", "Empty"
    FAILED = owner.FAILED, "Failed"
    TERMINATING = owner.TERMINATING, "Terminating"


POOL_PHASES: MappingProxyType[PoolPhase, str] = MappingProxyType(
    {
        PoolPhase.PENDING: "It was requested and is not yet observed in the cluster.",
        PoolPhase.PROGRESSING: "Its pods are starting, or a change is in progress.",
        PoolPhase.READY: "All desired pods are available.",
        PoolPhase.EMPTY: "It is scaled to zero.",
        PoolPhase.FAILED: "It cannot be brought to its spec; see the reason.",
        PoolPhase.TERMINATING: "It is being deleted.",
    }
)
"""What each of them means."""


class PoolReason(ExplainedReason):
    """Why the `Ready` condition of a pool has its status."""

    DEPLOYMENT_READY = (
        "DeploymentReady",
        Explanation(
            "All desired pods of the present generation are available.",
            "Nothing to do.",
            title="Ready",
            is_well=True,
        ),
    )
    DEPLOYMENT_PROGRESSING = (
        "DeploymentProgressing",
        Explanation(
            "A change is in progress, or pods are starting.",
            "Wait; the pods are starting.",
            title="Starting",
            causes=DELAY_CAUSES,
        ),
    )
    SCALED_TO_ZERO = (
        "ScaledToZero",
        Explanation("No pods are desired.", "Scale the pool up when its capacity is needed."),
    )
    INVALID_SPEC = owner.INVALID_SPEC
    NAME_CONFLICT = owner.NAME_CONFLICT
    POD_STARTUP_FAILED = owner.STARTUP_FAILED
    POD_STATUS_SYNC_FAILED = owner.PODS_UNREADABLE
    SERVICE_SYNC_FAILED = (
        "ServiceSyncFailed",
        Explanation(
            "The cluster does not allow the platform to read or write the pool's Service.",
            "Check the platform's permissions on Services.",
        ),
    )
    DEPLOYMENT_SYNC_FAILED = (
        "DeploymentSyncFailed",
        Explanation(
            "The cluster does not allow the platform to read or write the pool's Deployment.",
            "Check the platform's permissions on Deployments.",
        ),
    )
    FINALIZERS_REMAIN = owner.FINALIZERS_REMAIN


POOL_REASONS = explanations(PoolReason)
"""What each reason means, and what a person does."""
