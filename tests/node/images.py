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
        # With a layer that no other image has, so that a pull always loads it.
        f"{REGISTRY}/other": replace(
            app, files={"app": programs["app"], "bin/busybox": programs["busybox"]}
        ),
        # No node has its layer, so that a pull takes time.
        f"{REGISTRY}/large": replace(app, files={**app.files, "bin/busybox": programs["busybox"]}),
    }
