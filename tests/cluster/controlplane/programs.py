"""The programs of the control plane and of nodes: built by Go once, or given.

Go builds one binary from the module in this folder; its first argument names the program.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.cluster.controlplane.cache import cached, key_of, path_of

MODULE = Path(__file__).resolve().parent
MODULE_FILES = ("go.mod", "go.sum", "main.go", "gpuplugin.go")
COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
KUBERNETES = (1, 36, 3)
_NAME = "controlplane"


class CannotStart(Exception):
    """A program cannot be built or started; the message names the cause."""


def programs() -> dict[str, list[str]]:
    """Return the command of each component; build the components if necessary.

    Raises:
        CannotStart: a program is missing and cannot be built.
    """
    assets = os.environ.get("KUBEBUILDER_ASSETS", "")
    if assets:
        missing = [name for name in COMPONENTS if not (Path(assets) / name).is_file()]
        if missing:
            raise CannotStart(f"KUBEBUILDER_ASSETS={assets} has no {', '.join(missing)}.")
        return {name: [str(Path(assets) / name)] for name in COMPONENTS}
    binary = str(built_binary())
    return {name: [binary, name] for name in COMPONENTS}


def built_binary() -> Path:
    """Return the cached binary of this version of the module; build it if it does not exist."""
    return cached(_NAME, _key(), _build)


def is_built() -> bool:
    """Return whether the binary of this version of the module is cached."""
    return path_of(_NAME, _key()).exists()


def go_build(module: Path, package: str, output: Path, ldflags: str = "-s -w") -> bool:
    """Build a static program of a Go module; return whether that succeeded."""
    command = ["nice", "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", ldflags]
    done = subprocess.run(
        [*command, "-o", output, package],
        cwd=module,
        env=os.environ | {"CGO_ENABLED": "0"},
        check=False,
        stdout=sys.stderr,
    )
    return done.returncode == 0


def say(words: str) -> None:
    """Print to standard error; standard output is for the kubeconfig."""
    sys.stderr.write(words + "\n")
    sys.stderr.flush()


def _key() -> str:
    return key_of((MODULE / name).read_bytes() for name in MODULE_FILES)


def _build(binary: Path) -> None:
    if shutil.which("go") is None:
        raise CannotStart(
            "A real control plane needs Go (https://go.dev/dl) to be built, or KUBEBUILDER_ASSETS"
            f" with the programs {', '.join(COMPONENTS)}."
        )
    target = binary.with_suffix("")
    say(f"Building the control plane, once: 5 to 10 minutes on 2 cores. It is cached as {target}")
    major, minor, patch = KUBERNETES
    package = "k8s.io/component-base/version"
    flags = (
        f"-s -w -X {package}.gitVersion=v{major}.{minor}.{patch}"
        f" -X {package}.gitMajor={major} -X {package}.gitMinor={minor}"
    )
    if not go_build(MODULE, ".", binary, flags):
        raise CannotStart("The control plane could not be built; see the output of Go above.")
