"""The simulated run of a command line: its output, and how it ends. Pure.

`true`, `false`, `exit`, `sleep`, `echo` and shell scripts of them are interpreted. No command is
executed, because it would run on the machine of the developer.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

TERMINATION_LOG: Final = "/dev/termination-log"
_SHELLS: Final = {"sh", "bash", "ash", "dash"}
_IGNORED: Final = {"set", "trap", "cd"}


@dataclass(frozen=True, slots=True)
class Exit:
    """The exit code and run time of a container that exits without being stopped."""

    code: int
    after_seconds: float = 0.0
    reason: str = ""

    def reported_reason(self) -> str:
        """Return the reason for the status of the container."""
        return self.reason or ("Error" if self.code else "Completed")


@dataclass(frozen=True, slots=True)
class Run:
    """The simulated run of a command line."""

    exit: Exit | None = None
    """How the program ends, or `None` if it does not end."""
    output: str = ""
    message: str = ""
    """Content of the termination log."""
    is_known: bool = False
    """Whether the whole command line was interpreted. Other programs are servers, for example."""


@dataclass(frozen=True, slots=True)
class _Step:
    """The result of one command. A command with `seconds=None` does not end."""

    code: int = 0
    seconds: float | None = 0.0
    output: str = ""


def run_of(command: list[str]) -> Run:
    """Return the run of a command line."""
    if not command:
        return Run()
    program = command[0].rpartition("/")[2]
    if program in _SHELLS and len(command) > 2 and command[1].endswith("c"):
        return _run_of_script(command[2])
    step = _step_of([program, *command[1:]])
    return Run() if step is None else _joined([(step, "")])


def _run_of_script(script: str) -> Run:
    found: list[tuple[_Step, str]] = []
    for line in _lines(script):
        words, target = _redirected(line)
        step = _step_of(words)
        if step is None:
            output = _joined(found)
            return Run(None, output.output, output.message)
        found.append((step, target))
        if words[0] == "exit" or step.seconds is None:
            break
    return _joined(found)


def _joined(steps: list[tuple[_Step, str]]) -> Run:
    output = "".join(step.output for step, target in steps if not target)
    message = "".join(step.output for step, target in steps if target == TERMINATION_LOG)
    durations = [step.seconds for step, _ in steps if step.seconds is not None]
    ends = len(durations) == len(steps)
    code = steps[-1][0].code if steps else 0
    return Run(Exit(code, sum(durations)) if ends else None, output, message, is_known=True)


def _lines(script: str) -> Iterator[list[str]]:
    """Yield the words of each command. A line that is not shell syntax is an unknown command."""
    for line in re.split(r"[;\n]|&&", script):
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            words = [line]
        if words[:1] == ["exec"]:
            words = words[1:]
        if words and words[0] not in _IGNORED:
            yield words


def _redirected(words: list[str]) -> tuple[list[str], str]:
    """Return the words without a redirection of the output, and the file that receives it."""
    if words[-1] in {">&2", "1>&2"}:
        return words[:-1], ""
    if len(words) > 2 and words[-2] in {">", ">>"}:
        return words[:-2], words[-1]
    if len(words) > 1 and words[-1].startswith(">"):
        return words[:-1], words[-1].lstrip(">")
    return words, ""


def _step_of(words: list[str]) -> _Step | None:
    """Return the result of a command, or `None` if it is unknown."""
    step: _Step | None = None
    match words:
        case ["true" | ":", *_] | ["exit"]:
            step = _Step()
        case ["false", *_]:
            step = _Step(1)
        case ["echo", *texts]:
            step = _Step(output=" ".join(texts) + "\n")
        case ["exit", number] if re.fullmatch("[0-9]{1,18}", number):
            step = _Step(int(number) % 256)
        case ["sleep", "infinity" | "inf"]:
            step = _Step(seconds=None)
        case ["sleep", number] if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,3})?s?", number):
            step = _Step(seconds=float(number.rstrip("s")))
    return step
