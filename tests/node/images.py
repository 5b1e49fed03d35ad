"""The container images of the tests, from single files: no registry and no container engine."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tests.node.archive import Image

PAUSE = "registry.k8s.io/pause:3.10.1"
APP = "docker.io/library/app:1"
"""The test program (`programs/app`): serves HTTP, or fails as its arguments request."""
BUSYBOX = "docker.io/library/busybox:1.36"
"""The image of the platform's stock."""
PLATFORM_SETTINGS = {"GPUPLATFORM_RESERVATION_IMAGE": BUSYBOX}
"""Settings of a platform whose stock runs on the nodes, which cannot pull the default image."""
APPLETS = (
    *("[", "cat", "cp", "date", "dd", "df", "echo", "env", "false", "grep", "head", "id", "ip"),
    *("kill", "ls", "mkdir", "mount", "nc", "ps", "rm", "sed", "sh", "sleep", "stat", "tail"),
    *("tar", "test", "top", "touch", "true", "wget"),
)


PRELOADED, REGISTRY = "preloaded", "registry"
"""The directories of the archives that every node imports, and that the registry serves."""


def images(programs: Mapping[str, Path]) -> dict[str, Image]:
    """Return each image by the path of its archive; `programs` has the program of each."""
    applets = {f"bin/{name}": "busybox" for name in APPLETS}
    app = Image(APP, entrypoint=("/app",), files={"app": programs["app"]})
    return {
        f"{PRELOADED}/pause": Image(
            PAUSE, entrypoint=("/pause",), files={"pause": programs["pause"]}
        ),
        f"{PRELOADED}/app": app,
        f"{PRELOADED}/busybox": Image(
            BUSYBOX, command=("sh",), files={"bin/busybox": programs["busybox"]}, links=applets
        ),
        # A kubelet that has pulled a digest asks the registry of every other image of this digest
        # for permission: the registry has different ones.
        f"{REGISTRY}/app": replace(app, environment=("PULLED=yes",)),
        # Each has a layer that no other image has, so that its first pull loads the layer.
        **{
            f"{REGISTRY}/{name}": replace(
                app, files={**app.files, f"bin/{name}": programs["busybox"]}
            )
            for name in ("other", "large")
        },
    }
