"""The causes that prevent a pod from running or becoming ready, with their explanations. Pure."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from gpuplatform.lifecycle.explanations import Explanation


class StartupCause(StrEnum):
    """The cause that prevents a pod from running or becoming ready, or from starting on a node.

    `PodRejected` includes quotas and policies, because the Deployment reports both as
    `FailedCreate`; only the message differs.
    """

    UNSCHEDULABLE = "Unschedulable"
    POD_REJECTED = "PodRejected"
    REJECTED_BY_NODE = "RejectedByNode"
    EVICTED = "Evicted"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    CONTAINER_CREATE_FAILED = "ContainerCreateFailed"
    OUT_OF_MEMORY = "OutOfMemory"
    CONTAINER_EXITED = "ContainerExited"
    POD_FAILED = "PodFailed"
    NODE_UNREACHABLE = "NodeUnreachable"
    NOT_READY = "NotReady"
    NODE_MISSING = "NodeMissing"
    NODE_NOT_READY = "NodeNotReady"
    NODE_CORDONED = "NodeCordoned"
    NODE_UNDER_PRESSURE = "NodeUnderPressure"
    NODE_TAINTED = "NodeTainted"
    NODE_LABELS_DIFFER = "NodeLabelsDiffer"
    GPUS_MISSING = "GPUsMissing"


UNPLACED: Final = frozenset({StartupCause.UNSCHEDULABLE, StartupCause.POD_REJECTED})
"""Causes of pods that are not assigned to a node, so that they hold no GPU."""

TRANSIENT: Final = frozenset(
    {
        StartupCause.UNSCHEDULABLE,
        StartupCause.POD_REJECTED,
        StartupCause.REJECTED_BY_NODE,
        StartupCause.EVICTED,
        StartupCause.NODE_UNREACHABLE,
        StartupCause.NOT_READY,
    }
)
"""Causes that can end without a change of the spec. For a failed image pull the error decides."""

CRASH_LOOP: Final = frozenset(
    {
        StartupCause.OUT_OF_MEMORY,
        StartupCause.CONTAINER_EXITED,
        StartupCause.CONTAINER_CREATE_FAILED,
    }
)
"""Causes of containers that the kubelet restarts with a back-off."""

FAILURE_CAUSES: Final[Mapping[str, Explanation]] = MappingProxyType(
    {
        StartupCause.UNSCHEDULABLE: Explanation(
            "No node meets the requirements of the pod.",
            "Add nodes, release the missing resources, or reduce the requests of the pod. The pod"
            " then starts automatically.",
            title="No suitable node",
        ),
        StartupCause.POD_REJECTED: Explanation(
            "The API server rejected the pod because of a quota or an admission policy.",
            "Raise the quota, delete objects that use it, or change the pod to comply with the"
            " policy.",
            title="Pod rejected",
        ),
        StartupCause.REJECTED_BY_NODE: Explanation(
            "The kubelet of the assigned node rejected the pod.",
            "Check the node. A replacement pod is created automatically.",
            title="Rejected by the node",
        ),
        StartupCause.EVICTED: Explanation(
            "The node evicted the pod to reclaim resources.",
            "Check the memory and the disk space of the node. A replacement pod is created"
            " automatically.",
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
            "Check the command, and that the referenced Secrets exist.",
            title="Container not created",
        ),
        StartupCause.OUT_OF_MEMORY: Explanation(
            "A container was terminated because it exceeded its memory limit.",
            "Request more memory, or reduce the memory usage of the program. Check the log.",
            title="Out of memory",
        ),
        StartupCause.CONTAINER_EXITED: Explanation(
            "A container exited with an error, or although it must keep running.",
            "Check the log, then correct the command, its arguments or the image.",
            title="Container exited",
        ),
        StartupCause.POD_FAILED: Explanation(
            "The pod failed, and the node reported no reason.",
            "Check the Events and the log of the pod.",
            title="Pod failed",
        ),
    }
)
"""The explanation of each cause of a failed pod."""

DELAY_CAUSES: Final[Mapping[str, Explanation]] = MappingProxyType(
    {
        StartupCause.IMAGE_PULL_FAILED: FAILURE_CAUSES[StartupCause.IMAGE_PULL_FAILED],
        StartupCause.UNSCHEDULABLE: FAILURE_CAUSES[StartupCause.UNSCHEDULABLE],
        StartupCause.NODE_UNREACHABLE: Explanation(
            "The node of the pod no longer sends its status to the API server.",
            "Check the node. If it is lost, delete the node or its pods.",
            title="Node unreachable",
        ),
        StartupCause.NOT_READY: Explanation(
            "A container is running but is not ready.",
            "Check the log and the readiness probe.",
            title="Not ready",
        ),
    }
)
"""The explanation of each cause that delays a pod that has not failed."""

NODE_CAUSES: Final[Mapping[str, Explanation]] = MappingProxyType(
    {
        StartupCause.NODE_MISSING: Explanation(
            "The node no longer exists.",
            "No action is required: the cluster deletes the pods of the node.",
            title="Node does not exist",
        ),
        StartupCause.NODE_NOT_READY: Explanation(
            "The node is not ready.",
            "Check the kubelet of the node.",
            title="Node not ready",
        ),
        StartupCause.NODE_CORDONED: Explanation(
            "The node is cordoned, so that no pod is scheduled on it.",
            "Uncordon the node when its maintenance has ended.",
            title="Node cordoned",
        ),
        StartupCause.NODE_UNDER_PRESSURE: Explanation(
            "The node lacks memory, disk space or process ids, and accepts no pods.",
            "Release the resource on the node that the message names.",
            title="Node under pressure",
        ),
        StartupCause.NODE_TAINTED: Explanation(
            "The node has a taint that the pods of units do not tolerate.",
            "Remove the taint, or add a toleration to the GPU spec and seed new stock.",
            title="Node tainted",
        ),
        StartupCause.NODE_LABELS_DIFFER: Explanation(
            "The node does not have the labels that the placement of the unit requires.",
            "Correct the labels of the node, or change the GPU spec and seed new stock.",
            title="Node labels differ",
        ),
        StartupCause.GPUS_MISSING: Explanation(
            "The node offers fewer GPUs than its pods hold.",
            "Find out why the node lost GPUs.",
            title="GPUs missing",
        ),
    }
)
"""The explanation of each cause for which a node does not accept the pod of a unit."""

END_CAUSES: Final[Mapping[str, Explanation]] = MappingProxyType(
    {
        cause: FAILURE_CAUSES[cause]
        for cause in (
            StartupCause.CONTAINER_EXITED,
            StartupCause.OUT_OF_MEMORY,
            StartupCause.CONTAINER_CREATE_FAILED,
            StartupCause.POD_FAILED,
        )
    }
)
"""The explanation of each cause of a program that failed."""
