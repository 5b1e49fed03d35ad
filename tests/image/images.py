"""The image of the platform: built in a directory, or by a container engine."""

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gpuplatform.dev.embedded.children import Command
from tests.image.dockerfile import Stage

APPLICATION = "/app"


class Image(Protocol):
    """The interface of an image for the check."""

    def files(self) -> list[str]:
        """Return the path of every file below `/app`, relative to it."""

    def command(
        self, name: str, argv: Sequence[str], env: Mapping[str, str], port: int
    ) -> Command:
        """Return the start command of a process; the default is the command of the image.

        `port` replaces the port that the image's command listens on.
        """

    def end(self, names: Iterable[str]) -> None:
        """End the remaining processes with these names."""


@dataclass(frozen=True, slots=True)
class DirectoryImage:
    """The stage `platform` in a directory; its processes run on this machine."""

    stage: Stage

    def files(self) -> list[str]:
        """Return the path of every file below `/app`, relative to it."""
        root = self.stage.path(APPLICATION)
        return [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()]

    def command(
        self, name: str, argv: Sequence[str], env: Mapping[str, str], port: int
    ) -> Command:
        """Return the start command of a process in the directory."""
        del name
        whole = [word.replace("0.0.0.0:8080", f"127.0.0.1:{port}") for word in self._argv(argv)]
        program = shutil.which(whole[0], path=self.stage.env["PATH"])
        assert program, f"the image has no program {whole[0]}"
        whole[0] = program
        return Command(
            argv=tuple(whole),
            env={**self.stage.environment(), **env},
            cwd=self.stage.path(APPLICATION),
        )

    def end(self, names: Iterable[str]) -> None:
        """Do nothing: the processes are children of the check and end with it."""

    def _argv(self, argv: Sequence[str]) -> Sequence[str]:
        return argv or self.stage.command


@dataclass(frozen=True, slots=True)
class EngineImage:
    """An image of a container engine, in the network of this machine and as in production."""

    reference: str
    kubeconfig: Path
    engine: str = "docker"

    def files(self) -> list[str]:
        """Return the path of every file below `/app`, relative to it."""
        command = ("find", APPLICATION, "-type", "f", "-printf", "%P\\n")
        found = subprocess.run(
            [self.engine, "run", "--rm", self.reference, *command],
            capture_output=True,
            text=True,
            check=True,
        )
        return found.stdout.splitlines()

    def command(
        self, name: str, argv: Sequence[str], env: Mapping[str, str], port: int
    ) -> Command:
        """Return the start command of a container; it ends with the engine's client."""
        kubeconfig = f"{self.kubeconfig}:{self.kubeconfig}:ro"
        options = ["--rm", "--init=false", "--network=host", "--read-only", "--cap-drop=ALL"]
        options += ["--tmpfs=/tmp", f"--name=image-check-{name}", f"--volume={kubeconfig}"]
        options += [f"--env={key}={value}" for key, value in env.items()]
        whole = [self.engine, "run", *options, self.reference]
        return Command(argv=(*whole, *(argv or self._web(port))), env=dict(os.environ))

    def end(self, names: Iterable[str]) -> None:
        """Remove the containers that a failed check left."""
        containers = [f"image-check-{name}" for name in names]
        subprocess.run([self.engine, "rm", "--force", *containers], check=False)

    def _web(self, port: int) -> list[str]:
        """Return the image's own command with another port: the network is the machine's."""
        found = subprocess.run(
            [self.engine, "inspect", "--format", '{{join .Config.Cmd "\\n"}}', self.reference],
            capture_output=True,
            text=True,
            check=True,
        )
        words = found.stdout.strip().splitlines()
        return [word.replace("0.0.0.0:8080", f"127.0.0.1:{port}") for word in words]
