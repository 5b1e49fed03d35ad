"""What keeps a pod from running, as values, with what each means and what a person does. Pure."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from gpuplatform.lifecycle.explanations import Explanation


class StartupCause(StrEnum):
    """What keeps a pod from running, or from being ready.

    A rejection by a quota and one by a policy have the same value: the Deployment reports both as
    `FailedCreate`, and only the message distinguishes them.
    """

    UNSCHEDULABLE = "Unschedulable"
    POD_REJECTED = "PodRejected"
    NODE_REFUSED = "NodeRefused"
    EVICTED = "Evicted"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    CONTAINER_CREATE_FAILED = "ContainerCreateFailed"
    OUT_OF_MEMORY = "OutOfMemory"
    CONTAINER_EXITED = "ContainerExited"
    POD_FAILED = "PodFailed"
    NODE_UNREACHABLE = "NodeUnreachable"
    NOT_READY = "NotReady"


UNPLACED: Final = frozenset({StartupCause.UNSCHEDULABLE, StartupCause.POD_REJECTED})
"""Causes of pods that are on no node and hold no GPU there."""

TRANSIENT: Final = frozenset(
    {
        StartupCause.UNSCHEDULABLE,
        StartupCause.POD_REJECTED,
        StartupCause.NODE_REFUSED,
        StartupCause.EVICTED,
        StartupCause.NODE_UNREACHABLE,
        StartupCause.NOT_READY,
    }
)
"""Causes that may pass without a change of the spec; a failed pull may, depending on its error."""

CRASH_LOOP: Final = frozenset(
    {
        StartupCause.OUT_OF_MEMORY,
        StartupCause.CONTAINER_EXITED,
        StartupCause.CONTAINER_CREATE_FAILED,
    }
)
"""Causes that the cluster retries in a crash loop."""

FAILURE_CAUSES: Final[Mapping[str, Explanation]] = MappingProxyType(
    {
        StartupCause.UNSCHEDULABLE: Explanation(
            "No node can take the pod.",
            "Free up or add the missing resources, or request less. The pod then starts"
            " automatically.",
            title="No suitable node",
        ),
        StartupCause.POD_REJECTED: Explanation(
            "The API server rejects the pod: a quota is exceeded or a policy forbids it.",
            "Raise the quota or delete what uses it, or change what the policy forbids.",
            title="Pod rejected",
        ),
        StartupCause.NODE_REFUSED: Explanation(
            "The node does not accept the pod that was assigned to it.",
            "Check the node. A replacement pod is created automatically.",
            title="Refused by the node",
        ),
        StartupCause.EVICTED: Explanation(
            "The node ended the pod to reclaim resources.",
            "Check the node's memory and disk. A replacement pod is created automatically.",
            title="Evicted",
        ),
        StartupCause.IMAGE_PULL_FAILED: Explanation(
            "The node cannot pull the image.",
            "Fix the image name or tag, or push the image, and check that the node can access the"
            " registry. The pod starts automatically once the image is available.",
            title="Image pull failed",
        ),
        StartupCause.CONTAINER_CREATE_FAILED: Explanation(
            "The container cannot be created or started.",
            "Check the command, the mounts, and the Secrets and variables that it references.",
            title="Container can't be created",
        ),
        StartupCause.OUT_OF_MEMORY: Explanation(
            "A container exceeded its memory limit and was terminated.",
            "Request more memory or reduce usage. See the log.",
            title="Out of memory",
        ),
        StartupCause.CONTAINER_EXITED: Explanation(
            "A container exited.",
            "See the log. Correct the command, its arguments or the image.",
            title="Container exited",
        ),
        StartupCause.POD_FAILED: Explanation(
            "The pod failed as a whole.",
            "See its Events and its log.",
            title="Pod failed",
        ),
    }
)
"""What each cause of a failed pod means, and what a person does."""

DELAY_CAUSES: Final[Mapping[str, Explanation]] = MappingProxyType(
    {
        StartupCause.IMAGE_PULL_FAILED: FAILURE_CAUSES[StartupCause.IMAGE_PULL_FAILED],
        StartupCause.NODE_UNREACHABLE: Explanation(
            "The node of the pod no longer reports to the cluster.",
            "Check the node. If it is lost, delete it or its pods.",
            title="Node unreachable",
        ),
        StartupCause.NOT_READY: Explanation(
            "The container runs, but its readiness probe has not succeeded.",
            "See the log, and check the readiness probe.",
            title="Not ready",
        ),
    }
)
"""The same for causes that delay a pod which has not failed."""
