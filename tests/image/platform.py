"""A platform whose processes run from the image, as in production, with the embedded servers."""

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from typing_extensions import override

from gpuplatform.dev.embedded.layout import http_get
from gpuplatform.dev.embedded.ports import LOOPBACK, free_port
from gpuplatform.dev.embedded.supervisor import Part
from gpuplatform.metrics.server import LIVE_PATH
from tests.acceptance.platform import PROCESSES, RunningPlatform
from tests.image.images import Image

STOP_SECONDS = 30.0
"""The grace period of a container in deploy/base."""

OURS = tuple(name for name in PROCESSES if name != "kubelet")


class ImagePlatform(RunningPlatform):
    """Servers from the checkout, processes from an image."""

    def __init__(self, folder: Path, repository: Path) -> None:
        super().__init__(folder, is_like_production=True)
        self._services = yaml.safe_load((repository / "compose.yaml").read_text())["services"]
        self._ports = {name: free_port() for name in OURS}
        self._seed = (folder / "data" / "nats" / "account-seed").read_text().strip()

    @override
    def start(
        self, name: str, *, role: str = "", further: Mapping[str, str] | None = None
    ) -> None:
        super().start(name, role=role, further=further)
        if name == "cluster":
            self.kubeconfig.chmod(0o644)  # The user of a container reads it.

    def use(self, image: Image) -> None:
        """Use this image for the preparation and the processes."""
        self._replace("prepare", image, self._services["migrate"]["command"], self._settings())
        for name in OURS:
            service: Mapping[str, Any] = self._services[name]
            env = {
                **self._settings(),
                "GPUPLATFORM_ROLE": service["environment"]["GPUPLATFORM_ROLE"],
                "GPUPLATFORM_METRICS_PORT": str(self._ports[name]),
                "GPUPLATFORM_METRICS_HOST": LOOPBACK,
            }
            self._replace(name, image, service.get("command", ()), env)

    def _replace(
        self, name: str, image: Image, argv: Sequence[str], env: Mapping[str, str]
    ) -> None:
        part = self._parts[name]
        command = image.command(name, tuple(argv), env, self.port)
        self._parts[name] = Part(name, command, after=part.after, is_ready=part.is_ready)

    def _settings(self) -> dict[str, str]:
        addresses = self._layout.addresses()
        return {
            **{name: addresses[name] for name in ("DATABASE_URL", "REDIS_URL", "NATS_URL")},
            "GPUPLATFORM_NATS_SEED": self._seed,
            "GPUPLATFORM_SECRET_KEY": "only-for-the-check-of-the-image-" + "k" * 20,
            "GPUPLATFORM_ALLOWED_HOSTS": f"localhost,{LOOPBACK}",
            "KUBE_MODE": "required",
            "KUBECONFIG": str(self.kubeconfig),
        }

    def not_alive(self) -> Iterator[str]:
        """Yield each process that does not respond to `/livez`, on the port of its probe."""
        for name in OURS:
            answer = http_get(self._ports[name], LIVE_PATH)
            if answer is None or answer[0] != 200:
                yield name

    def stop_in_order(self) -> dict[str, int]:
        """End every process as Kubernetes does; return the exit codes."""
        for name in OURS:
            os.kill(self.pid_of(name), signal.SIGTERM)
        return {name: self._children.pop(name).wait(STOP_SECONDS) for name in OURS}
