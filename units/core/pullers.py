"""The pullers: pods that keep the warm images of a GPU spec on a node. Pure.

A puller has one container for each warm image, so that the kubelet pulls the image and does not
delete it. The containers only sleep and hold no GPUs. Stock pods do not depend on pullers: a
change of the warm images restarts no stock pod, and a failed or slow pull delays none.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpuplatform.formats.image import canonical
from gpuplatform.kube.fields import field, items
from gpuplatform.kube.kinds import GROUP, POD, Manifest
from gpuplatform.planning.ownership import MANAGED_BY_LABEL, MANAGER, deletion_of
from gpuplatform.planning.plan import Create, Delete
from gpuplatform.workloads.causes import StartupCause
from gpuplatform.workloads.container_failures import StartupFailure, failure_of_container
from gpuplatform.workloads.pod_settings import PodSettings
from gpuplatform.workloads.pods import STOCK_PRIORITY_CLASS
from gpuplatform.workloads.startup import node_refusal
from units.phases import STOCK_NAMESPACE, WarmImageState

PULLER_LABEL: Final = f"{GROUP}/warm-images"
"""Label of pullers. The value is the name of the GPU spec."""

MAX_CREATED: Final = 50
"""Maximum number of pullers that one run creates, so that the registry is not overloaded."""

_COMMAND: Final = ("sleep", "2147483647")
"""An image without this program is kept, too: its container ends, and the pod is not restarted."""


@dataclass(frozen=True, slots=True)
class Puller:
    """The desired puller of a GPU spec on a node."""

    spec_name: str
    node: str
    images: tuple[str, ...]
    pull_secrets: tuple[str, ...] = ()
    tolerations: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class ImageOnNode:
    """The state of a warm image on a node."""

    spec_name: str
    node: str
    image: str
    """The complete name of the image."""
    state: WarmImageState
    cause: str = ""
    message: str = ""


def puller_pod(puller: Puller, settings: PodSettings) -> Manifest:
    """Return the pod of a puller. Its name depends on all of its fields, which cannot change."""
    labels = {
        "app.kubernetes.io/name": "warm-images",
        MANAGED_BY_LABEL: MANAGER,
        PULLER_LABEL: puller.spec_name,
    }
    spec: Manifest = {
        # The scheduler is not involved: the puller requests no resources, and the node has a unit.
        "nodeName": puller.node,
        "restartPolicy": "Never",
        "priorityClassName": STOCK_PRIORITY_CLASS,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        # Process 1 ignores SIGTERM.
        "terminationGracePeriodSeconds": 1,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_container(number, one) for number, one in enumerate(puller.images)],
        **settings.pulls(puller.pull_secrets),
    }
    if puller.tolerations:
        spec["tolerations"] = [dict(one) for one in puller.tolerations]
    name = f"warm-images-{_digest([labels, spec])}"
    metadata = {"name": name, "namespace": STOCK_NAMESPACE, "labels": labels}
    return {"apiVersion": POD.api_version, "kind": POD.kind, "metadata": metadata, "spec": spec}


def plan_pullers(
    wanted: Sequence[Manifest], pods: Sequence[Manifest]
) -> tuple[list[Create], list[Delete]]:
    """Return the pullers to create and to delete, from the complete list of pullers.

    A puller that its node evicted or rejected is deleted; the next run creates it again. The GPU
    specs take turns, so that a GPU spec with many nodes does not delay the others.
    """
    names = {pod["metadata"]["name"] for pod in wanted}
    existing = {pod["metadata"]["name"] for pod in pods}
    missing = [pod for pod in wanted if pod["metadata"]["name"] not in existing]
    surplus = [
        pod
        for pod in pods
        if not field(pod, "metadata", "deletionTimestamp")
        and (pod["metadata"]["name"] not in names or node_refusal(pod))
    ]
    return (
        [Create(POD, pod) for pod in _in_turns(missing)[:MAX_CREATED]],
        [deletion_of(POD, pod) for pod in surplus],
    )


def spec_name_of(pod: Manifest) -> str:
    """Return the name of the GPU spec of a desired puller."""
    return str(pod["metadata"]["labels"][PULLER_LABEL])


def _in_turns(pods: Sequence[Manifest]) -> list[Manifest]:
    """Sort pullers so that the first ones of all GPU specs precede the second ones."""
    turns = Counter[str]()

    def turn(pod: Manifest) -> int:
        turns[spec_name_of(pod)] += 1
        return turns[spec_name_of(pod)]

    return sorted(pods, key=turn)


def images_of(pod: Manifest, live: Manifest, rejection: str = "") -> list[ImageOnNode]:
    """Return the states of the images of a desired puller.

    Args:
        pod: The desired puller.
        live: The existing puller, or an empty dict.
        rejection: The message of the API server if it rejected the puller, or an empty string.
    """
    refused = StartupFailure(StartupCause.POD_REJECTED, rejection) if rejection else None
    failure = refused or node_refusal(live)
    statuses = {field(one, "name"): one for one in items(live, "status", "containerStatuses")}
    spec_name, node = spec_name_of(pod), pod["spec"]["nodeName"]
    found = []
    for container in pod["spec"]["containers"]:
        image = canonical(container["image"])
        status = statuses.get(container["name"], {})
        state, problem = _state(status, failure)
        cause, message = (str(problem.cause), problem.text) if problem else ("", "")
        found.append(ImageOnNode(spec_name, node, image, state, cause, message))
    return found


def _state(
    status: Manifest, failure: StartupFailure | None
) -> tuple[WarmImageState, StartupFailure | None]:
    """Return the state of an image from the status of its container.

    The kubelet creates a container after the pull. If it cannot start, its image is present.
    """
    if failure:
        return WarmImageState.FAILED, failure
    if failure := failure_of_container(status):
        is_pull = failure.cause == StartupCause.IMAGE_PULL_FAILED
        return (WarmImageState.FAILED, failure) if is_pull else (WarmImageState.PRESENT, None)
    was_created = bool(field(status, "containerID"))
    return (WarmImageState.PRESENT if was_created else WarmImageState.PULLING), None


def _container(number: int, image: str) -> Manifest:
    return {
        "name": f"image-{number}",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": list(_COMMAND),
        # Otherwise, an image that sets it to `all` would have access to the GPUs of the node.
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
        "resources": {
            "requests": {"cpu": "0", "memory": "0"},
            "limits": {"cpu": "100m", "memory": "64Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:20]
