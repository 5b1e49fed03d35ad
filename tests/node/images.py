"""The container images of the tests, from single files: no registry and no container engine."""

from collections.abc import Mapping
from pathlib import Path

from tests.node.archive import Image

PAUSE = "registry.k8s.io/pause:3.10.1"
APP = "docker.io/library/app:1"
"""The test program (`programs/app`): serves HTTP, or fails in the way that its arguments name."""
BUSYBOX = "docker.io/library/busybox:1.36"
"""The image of the platform's stock."""
APPLETS = (
    *("[", "cat", "cp", "date", "dd", "df", "echo", "env", "false", "grep", "head", "id", "ip"),
    *("kill", "ls", "mkdir", "mount", "nc", "ps", "rm", "sed", "sh", "sleep", "stat", "tail"),
    *("tar", "test", "top", "touch", "true", "wget"),
)


def images(programs: Mapping[str, Path]) -> dict[str, Image]:
    """Return each image by the name of its archive; `programs` has the program of each."""
    applets = {f"bin/{name}": "busybox" for name in APPLETS}
    return {
        "pause": Image(PAUSE, entrypoint=("/pause",), files={"pause": programs["pause"]}),
        "app": Image(APP, entrypoint=("/app",), files={"app": programs["app"]}),
        "busybox": Image(
            BUSYBOX, command=("sh",), files={"bin/busybox": programs["busybox"]}, links=applets
        ),
    }
