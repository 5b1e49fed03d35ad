"""The images of a release, for nodes: the stages of the Dockerfile as archives.

The instructions of the Dockerfile are carried out in directories. Two things differ from the
images of a release, because a test of nodes has neither a container engine nor a registry: the
base image consists of the interpreter of this environment with its libraries and of busybox, and
`pip install` copies the packages of this environment.
"""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement
from typing_extensions import override

from gpuplatform.dev.embedded.wheels import nats_server
from tests.image.context import context_files
from tests.image.dockerfile import Build, Stage
from tests.node import archive
from tests.node.images import APPLETS

REPOSITORY = Path(__file__).resolve().parents[2]
PLATFORM, ECHO = "docker.io/library/gpu-platform:shipped", "docker.io/library/gpu-platform:echo"
NATS = "docker.io/library/nats:shipped"
STAGES = {PLATFORM: "platform", ECHO: "echo"}
USER = "10001:10001"

_VENV = Path("opt/venv")
_PIP = re.compile(r"\S+/pip install .*? -r (\S+)")
_INSTALL = r'(cd "$SHIPPED_FROM" && "$SHIPPED_WITH" -m tests.node.shipped \1 /opt/venv)'
_UNUSED = ("config-*", "ensurepip", "idlelib", "lib2to3", "site-packages", "test", "tkinter")
_LIBRARY = re.compile(r"(/\S+) \(0x")


def write_images(busybox: Path, folder: Path, images: Sequence[str] = tuple(STAGES)) -> list[Path]:
    """Write the archives of images, and return their paths."""
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="shipped-") as name:
        build = _LocalBuild(REPOSITORY, context_files(REPOSITORY), _interpreter())
        build.run(Path(name), [STAGES[image] for image in images])
        stages = {image: build.stages[STAGES[image]] for image in images}
        base = dict(_base(busybox, [stage.root / _VENV for stage in stages.values()]))
        return [
            _write(image, stage, base, folder / f"{STAGES[image]}.tar")
            for image, stage in stages.items()
        ]


def write_nats(folder: Path) -> Path:
    """Write the archive of the queue, and return its path."""
    nats = folder / "nats.tar"
    archive.write(archive.Image(NATS, files={"nats-server": nats_server()}), nats)
    return nats


class _LocalBuild(Build):
    """A build that needs no network."""

    @override
    def _carry_out(self, stage: Stage, keyword: str, arguments: str) -> Stage:
        if keyword != "RUN":
            return super()._carry_out(stage, keyword, arguments)
        # Variables, because paths in the instruction are moved into the directory of the stage.
        local = {"SHIPPED_FROM": str(REPOSITORY), "SHIPPED_WITH": sys.executable}
        local_stage = replace(stage, env={**stage.env, **local})
        super()._carry_out(local_stage, keyword, _PIP.sub(_INSTALL, arguments))
        return stage


def install(requirements: Path, venv: Path) -> None:
    """Copy the packages of a list of requirements from this environment to another one."""
    lines = requirements.read_text("utf-8").splitlines()
    pins = [Requirement(line.rstrip(" \\")) for line in lines if re.match("[a-z0-9]", line)]
    [target] = venv.glob("lib/python*/site-packages")
    for pin in pins:
        if pin.marker is not None and not pin.marker.evaluate():
            continue
        distribution = importlib.metadata.distribution(pin.name)
        for file in distribution.files or ():
            source = Path(str(distribution.locate_file(file)))
            if ".." not in file.parts and source.is_file():
                path = target / file
                path.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, path)
        for command in distribution.entry_points.select(group="console_scripts"):
            _write_command(venv / "bin" / command.name, command.value)


def _write_command(path: Path, value: str) -> None:
    module, _, function = value.partition(":")
    lines = ["#!/opt/venv/bin/python", "import sys", f"from {module} import {function}"]
    path.write_text("\n".join([*lines, f"sys.exit({function}())", ""]))
    path.chmod(0o755)


def _interpreter() -> str:
    """Return the interpreter of this environment, not that of its venv."""
    return os.path.realpath(sys.executable)


def _base(busybox: Path, venvs: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    """Yield the files of the base image, by their path in the image."""
    yield "bin/busybox", busybox
    interpreter, library = Path(_interpreter()), Path(sysconfig.get_path("stdlib"))
    extensions = [path for venv in venvs for path in venv.rglob("*.so*")]
    programs = [interpreter, *library.rglob("*.so"), *extensions]
    files = [interpreter, *_files_below(library, unused=_UNUSED), *_libraries(programs)]
    yield from ((str(path).lstrip("/"), path) for path in files)


def _files_below(folder: Path, unused: tuple[str, ...] = ()) -> Iterator[Path]:
    ignored = shutil.ignore_patterns(*unused)
    for directory, folders, names in os.walk(folder):
        if Path(directory) == folder:
            folders[:] = sorted(set(folders) - ignored(directory, folders))
        yield from (Path(directory, name) for name in sorted(names))


def _libraries(programs: list[Path]) -> set[Path]:
    """Return the shared libraries of programs, by the paths at which the loader finds them."""
    found: set[Path] = set()
    for start in range(0, len(programs), 50):
        batch = [str(path) for path in programs[start : start + 50]]
        listed = subprocess.run(["ldd", *batch], capture_output=True, text=True, check=False)
        found |= {Path(path) for path in _LIBRARY.findall(listed.stdout)}
    return {path for path in found if _VENV.as_posix() not in path.as_posix()}


def _write(name: str, stage: Stage, base: Mapping[str, Path], path: Path) -> Path:
    root = stage.root
    own = {
        str(PurePosixPath(file.relative_to(root))): file
        for folder in ("app", "opt")
        for file in _files_below(root / folder)
        if file.is_file() and not file.is_symlink()
    }
    config = root / _VENV / "pyvenv.cfg"
    config.write_text(
        f"home = {Path(_interpreter()).parent}\ninclude-system-site-packages = false\n"
    )
    prefix = f"{root}/"
    environment = [f"{key}={value.replace(prefix, '/')}" for key, value in stage.env.items()]
    image = archive.Image(
        name,
        command=stage.command,
        environment=tuple(environment),
        files={**base, **own},
        links={
            **{f"bin/{applet}": "busybox" for applet in APPLETS},
            **{str(_VENV / "bin" / name): _interpreter() for name in ("python", "python3")},
        },
        user=USER,
        folder=stage.workdir,
        level=1,
    )
    archive.write(image, path)
    return path


if __name__ == "__main__":
    install(Path(sys.argv[1]), Path(sys.argv[2]))
