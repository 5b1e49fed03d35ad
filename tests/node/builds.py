"""What a node consists of: programs that Go builds, unpacked packages, images. All are cached."""

import functools
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.controlplane.cache import cached, key_of, path_of
from tests.cluster.controlplane.programs import (
    CannotStart,
    built_binary,
    go_build,
    is_built,
    say,
)
from tests.node import archive, images, packages

FOLDER = Path(__file__).resolve().parent
PROGRAMS = FOLDER / "programs"
KUBE_ROUTER = FOLDER / "kuberouter"
KUBE_ROUTER_PACKAGE = "github.com/cloudnativelabs/kube-router/v2/cmd/kube-router"
OWN_PROGRAMS = ("pause", "app")
CORE_SECONDS = 360
"""Maximum duration of the core set of the tests, if everything is built."""
KUBE_ROUTER_SECONDS = 1200
"""Maximum duration of the build of kube-router on two busy processors."""


@dataclass(frozen=True, slots=True)
class Builds:
    """The cached files of nodes."""

    kubernetes: Path
    """The binary with the control plane and the programs of a node."""
    kube_router: Path | None
    """The program that enforces NetworkPolicies; without it, none is in force."""
    pause: Path
    packages: Path
    """The directory of the unpacked Debian packages."""
    images: Path
    """The directory of the image archives."""


def all_built(*, has_policies: bool = True) -> Builds:
    """Return the cached files; build those that do not exist.

    Raises:
        CannotStart: something cannot be built.
    """
    pause, app = (_program(name) for name in OWN_PROGRAMS)
    unpacked = packages.unpacked()
    return Builds(
        kubernetes=built_binary(),
        kube_router=_kube_router() if has_policies else None,
        pause=pause,
        packages=unpacked,
        images=_images({"pause": pause, "app": app, "busybox": unpacked / "usr/bin/busybox"}),
    )


def is_kube_router_built() -> bool:
    """Return whether kube-router is cached. Its build takes minutes."""
    return path_of("kube-router", _key_of_kube_router()).exists()


def has_time_for_policies(seconds: int) -> bool:
    """Return whether policies can be enforced within this time: kube-router may have to be built.

    Without it, the tests of policies are skipped.
    """
    if is_kube_router_built() or seconds >= CORE_SECONDS + KUBE_ROUTER_SECONDS:
        return True
    say(f"The build of kube-router needs more than {seconds} s. Tests of policies are skipped.")
    return False


def needs_go() -> bool:
    """Return whether a program other than kube-router is not cached."""
    own = (path_of(name, _key_of_program(name)).exists() for name in OWN_PROGRAMS)
    return not (is_built() and all(own))


def _kube_router() -> Path:
    build = functools.partial(_go, KUBE_ROUTER, KUBE_ROUTER_PACKAGE)
    return cached("kube-router", _key_of_kube_router(), build)


def _key_of_kube_router() -> str:
    return key_of(_content(KUBE_ROUTER.iterdir()))


def _program(name: str) -> Path:
    build = functools.partial(_go, PROGRAMS, f"./{name}")
    return cached(name, _key_of_program(name), build)


def _key_of_program(name: str) -> str:
    return key_of(_content([PROGRAMS / "go.mod", *(PROGRAMS / name).iterdir()]))


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
