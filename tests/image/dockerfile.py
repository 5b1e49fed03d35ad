"""Executes the instructions of the Dockerfile in directories, without a container engine.

Every stage gets a directory as its root. RUN instructions are the ones of the Dockerfile with the
absolute paths below `/app`, `/opt` and `/tmp` moved into that root, and with the interpreter that
is given as `python`. Instructions that would change the machine are left out (`ON_A_MACHINE`).
"""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

BASE_IMAGE = "python:"
ON_A_MACHINE = re.compile(r"\b(groupadd|useradd|apt-get)\b")
_MOVED = re.compile(r"(?<![\w.:/-])/(?=(?:app|opt|tmp)\b)")
_REMOVED = re.compile(r"^(PYTHON|PIP_NO_CACHE|GPUPLATFORM_|DJANGO_|VIRTUAL_ENV|DATABASE_|REDIS_)")


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage after some of its instructions."""

    root: Path
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str = "/"
    command: tuple[str, ...] = ()

    def path(self, text: str) -> Path:
        """Return the location of a path of the image on this machine."""
        return self.root / PurePosixPath(self.workdir, text).relative_to("/")

    def environment(self) -> dict[str, str]:
        """Return the variables of a process of this stage."""
        outer = {name: value for name, value in os.environ.items() if not _REMOVED.match(name)}
        return {**outer, **self.env}


def read_instructions(text: str) -> list[tuple[str, str]]:
    """Return keyword and arguments of every instruction, with continued lines joined."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    split = (line.partition(" ") for line in joined.splitlines() if line.strip())
    return [(keyword.upper(), arguments.strip()) for keyword, _, arguments in split]


def needed_stages(
    instructions: Sequence[tuple[str, str]], targets: Collection[str]
) -> frozenset[str]:
    """Return the stages that `targets` need, with themselves; every stage without targets."""
    needs: dict[str, set[str]] = {}
    name = ""
    for keyword, arguments in instructions:
        if keyword == "FROM":
            base, _, name = arguments.partition(" AS ")
            needs[name] = {base}
        elif copied := re.match(r"--from=(\S+)", arguments):
            needs[name].add(copied[1])
    found = set(targets or needs)
    for stage in reversed(needs):  # A stage needs only earlier ones.
        if stage in found:
            found |= needs[stage]
    return frozenset(found)


class Build:
    """The stages of one Dockerfile below one directory."""

    def __init__(self, repository: Path, files: Iterable[PurePosixPath], python: str) -> None:
        """`files` is the build context, relative to the repository."""
        self._repository = repository
        self._files = tuple(files)
        self._python = python
        self.stages: dict[str, Stage] = {}

    def run(self, folder: Path, targets: Collection[str] = ()) -> None:
        """Execute the instructions that the stages `targets` need; by default every instruction.

        A RUN that fails is an AssertionError with its output.
        """
        instructions = read_instructions((self._repository / "Dockerfile").read_text())
        needed = needed_stages(instructions, targets)
        name = ""
        for keyword, arguments in instructions:
            if keyword == "FROM":
                base, _, name = arguments.partition(" AS ")
                if name in needed:
                    self.stages[name] = self._begin(base, folder / name)
            elif name in needed:
                self.stages[name] = self._carry_out(self.stages[name], keyword, arguments)

    def _begin(self, base: str, root: Path) -> Stage:
        if not base.startswith(BASE_IMAGE):
            inherited = self.stages[base]
            _copy_tree(inherited.root, root)
            return replace(inherited, root=root, env=_in_root(inherited, root))
        path = _interpreter_path(self._python, root)
        return Stage(root, env={"PATH": f"{path}:{os.environ['PATH']}"})

    def _carry_out(self, stage: Stage, keyword: str, arguments: str) -> Stage:
        match keyword:
            case "ENV":
                return replace(stage, env={**stage.env, **_variables(stage, arguments)})
            case "WORKDIR":
                stage.path(arguments).mkdir(parents=True, exist_ok=True)
                return replace(stage, workdir=arguments)
            case "COPY":
                self._copy(stage, arguments)
            case "RUN" if not ON_A_MACHINE.search(arguments):
                _run(stage, arguments)
            case "CMD":
                return replace(stage, command=tuple(json.loads(arguments)))
            case _:
                pass  # LABEL, USER, EXPOSE, STOPSIGNAL: attributes of an image.
        return stage

    def _copy(self, stage: Stage, arguments: str) -> None:
        *sources, target = shlex.split(arguments)
        if sources[0].startswith("--from="):
            other = self.stages[sources.pop(0).removeprefix("--from=")]
            for source in sources:
                _copy_tree(other.path(source), stage.path(target))
            return
        for source in sources:
            self._copy_from_context(stage, PurePosixPath(source), target)

    def _copy_from_context(self, stage: Stage, source: PurePosixPath, target: str) -> None:
        copied = [path for path in self._files if path == source or source in path.parents]
        if not copied:
            msg = f"COPY {source}: .dockerignore leaves no such file in the build context."
            raise FileNotFoundError(msg)
        for path in copied:
            inner = path.name if path == source else path.relative_to(source)
            is_renamed = path == source and not target.endswith("/")
            destination = stage.path(target) if is_renamed else stage.path(target) / inner
            destination.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(self._repository / path, destination)


def _in_root(stage: Stage, root: Path) -> dict[str, str]:
    """Return the variables of a stage with the paths of another root."""
    return {name: value.replace(f"{stage.root}/", f"{root}/") for name, value in stage.env.items()}


def _variables(stage: Stage, arguments: str) -> dict[str, str]:
    pairs = (word.partition("=") for word in shlex.split(_moved(stage, arguments)))
    return {name: value.replace("$PATH", stage.env["PATH"]) for name, _, value in pairs}


def _run(stage: Stage, arguments: str) -> None:
    (stage.root / "tmp").mkdir(exist_ok=True)
    done = subprocess.run(
        ["sh", "-euc", _moved(stage, arguments)],
        cwd=stage.path("."),
        env=stage.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"RUN {arguments}\n{done.stdout}"


def _moved(stage: Stage, text: str) -> str:
    return _MOVED.sub(f"{stage.root}/", text)


def _interpreter_path(python: str, root: Path) -> Path:
    """Return a directory in which `python` is the interpreter."""
    found = subprocess.run(
        [python, "-c", "import sys; print(sys.executable)"],
        capture_output=True,
        text=True,
        check=True,
    )
    path = root / "usr" / "bin"
    path.mkdir(parents=True)
    (path / "python").symlink_to(found.stdout.strip())
    return path


def _copy_tree(source: Path, target: Path) -> None:
    """Copy by hard links: no file is changed in the directory."""
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, copy_function=os.link, dirs_exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(source, target)
