"""What a node consists of: programs that Go builds, unpacked packages, images. All are cached."""

import functools
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.controlplane.cache import cached, key_of
from tests.cluster.controlplane.programs import CannotStart, built_binary, go_build, say
from tests.node import archive, images, packages

FOLDER = Path(__file__).resolve().parent
PROGRAMS = FOLDER / "programs"
KUBE_ROUTER = FOLDER / "kuberouter"
KUBE_ROUTER_PACKAGE = "github.com/cloudnativelabs/kube-router/v2/cmd/kube-router"


@dataclass(frozen=True, slots=True)
class Builds:
    """The cached files of nodes."""

    kubernetes: Path
    """The binary with the control plane and the programs of a node."""
    kube_router: Path
    pause: Path
    packages: Path
    """The directory of the unpacked Debian packages."""
    images: Path
    """The directory of the image archives."""


def all_built() -> Builds:
    """Return the cached files; build those that do not exist.

    Raises:
        CannotStart: something cannot be built.
    """
    pause, app = _program("pause"), _program("app")
    unpacked = packages.unpacked()
    return Builds(
        kubernetes=built_binary(),
        kube_router=_kube_router(),
        pause=pause,
        packages=unpacked,
        images=_images({"pause": pause, "app": app, "busybox": unpacked / "usr/bin/busybox"}),
    )


def _kube_router() -> Path:
    key = key_of(_content(KUBE_ROUTER.iterdir()))
    return cached("kube-router", key, functools.partial(_go, KUBE_ROUTER, KUBE_ROUTER_PACKAGE))


def _program(name: str) -> Path:
    key = key_of(_content([PROGRAMS / "go.mod", *(PROGRAMS / name).iterdir()]))
    return cached(name, key, functools.partial(_go, PROGRAMS, f"./{name}"))


def _go(module: Path, package: str, binary: Path) -> None:
    if shutil.which("go") is None:
        raise CannotStart("Real nodes need Go (https://go.dev/dl) to be built.")
    say(f"Building {binary.stem}, once. It is cached as {binary.with_suffix('')}")
    if not go_build(module, package, binary):
        raise CannotStart(f"{binary.stem} could not be built; see the output of Go above.")


def _images(programs: dict[str, Path]) -> Path:
    """Return the directory of the archives of all images."""
    wanted = images.images(programs)
    declared = [repr(image).encode() for image in wanted.values()]
    key = key_of([(FOLDER / "archive.py").read_bytes(), *declared])

    def build(folder: Path) -> None:
        for name, image in wanted.items():
            path = folder / f"{name}.tar"
            path.parent.mkdir(parents=True, exist_ok=True)
            archive.write(image, path)

    return cached("images", key, build)


def _content(paths: Iterable[Path]) -> list[bytes]:
    return [path.read_bytes() for path in sorted(paths)]
