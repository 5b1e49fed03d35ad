"""The platform as processes of this machine, next to the nodes."""

import contextlib
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from typing_extensions import override

from gpuplatform.deployment.isolation import QUEUE_PORT
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import GPU_UNIT, NAMESPACE, POD
from gpuplatform.planning.ownership import UNIT_LABEL
from tests.acceptance.platform import RunningPlatform
from tests.node import network
from tests.node.images import PLATFORM_SETTINGS
from tests.node.relay import relaying
from tests.node.shipped import ECHO

SYSTEM_NAMESPACE = "gpu-platform"
IMAGES = {**PLATFORM_SETTINGS, "GPUPLATFORM_SIDECAR_IMAGE": ECHO}
"""Images that the nodes have."""


class QueuePlatform(RunningPlatform):
    """A platform whose queue pods can reach, at the address of the network of the nodes."""

    def __init__(self, folder: Path, kubeconfig: Path) -> None:
        super().__init__(folder, kubeconfig=kubeconfig)
        url = urlsplit(self._layout.addresses()["NATS_URL"])
        self._queue = url.hostname or "", url.port or 0
        self._url = {"NATS_URL": f"nats://{network.ADDRESS}:{QUEUE_PORT}"}

    @contextlib.contextmanager
    def reachable_queue(self) -> Iterator[None]:
        """Relay connections to the queue during the block."""
        listener = socket.create_server((network.ADDRESS, QUEUE_PORT)).detach()
        with relaying(listener, *self._queue):
            yield

    @override
    def start(
        self, name: str, *, role: str = "", further: Mapping[str, str] | None = None
    ) -> None:
        super().start(name, role=role, further={**(further or {}), **self._url})

    @override
    def run_once(self, name: str, further: Mapping[str, str] | None = None) -> None:
        super().run_once(name, {**(further or {}), **self._url})


@contextlib.contextmanager
def images_of_the_nodes() -> Iterator[None]:
    """Let a platform that is created in the block use images that the nodes have."""
    with pytest.MonkeyPatch.context() as patch:
        for name, image in IMAGES.items():
            patch.setenv(name, image)
        yield


@contextlib.contextmanager
def stopped_afterwards(platform: RunningPlatform) -> Iterator[None]:
    """Stop a platform after the block, and remove its units and its record of the database."""
    try:
        yield
    finally:
        platform.stop_all()
        cluster = platform.cluster()
        _remove(platform, cluster)
        cluster.close()


def _remove(platform: RunningPlatform, cluster: Cluster) -> None:
    for unit in cluster.list(GPU_UNIT).items:
        metadata = unit["metadata"]
        cluster.delete(GPU_UNIT, metadata["name"], namespace=metadata["namespace"])
    # Otherwise, no platform with another database could use the cluster.
    cluster.delete(NAMESPACE, SYSTEM_NAMESPACE)
    platform.wait(
        lambda: not cluster.list(POD, label_selector=UNIT_LABEL).items, "the end of all pods"
    )
    platform.wait(
        lambda: cluster.get(NAMESPACE, SYSTEM_NAMESPACE) is None, "the end of the namespace"
    )
