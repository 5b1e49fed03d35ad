"""The combined log of all processes. Each line starts with the name of its process."""

import os
import sys
from collections.abc import Mapping
from typing import TextIO

COLOURS = (36, 32, 33, 35, 34, 96, 92, 93, 95, 94)
RUNNER = "run"


def has_colour(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Return whether to use colors: the stream is a terminal, and NO_COLOR is not set.

    See https://no-color.org.
    """
    return stream.isatty() and not environment.get("NO_COLOR")


class Console:
    """A writer of log lines. If the stream is closed, further lines are discarded."""

    def __init__(self, names: tuple[str, ...], stream: TextIO = sys.stdout) -> None:
        """Assign a color to each process in `names`, and align the names in a column."""
        self._stream = stream
        self._width = max(map(len, (*names, RUNNER)))
        self._colours = (
            {name: COLOURS[at % len(COLOURS)] for at, name in enumerate(names)}
            if has_colour(stream, os.environ)
            else {}
        )

    def line(self, name: str, text: str) -> None:
        """Write a line of output of the process `name`."""
        prefix = f"{name:<{self._width}} |"
        if colour := self._colours.get(name):
            prefix = f"\x1b[{colour}m{prefix}\x1b[0m"
        self.plain(f"{prefix} {text}" if text else prefix)

    def note(self, text: str) -> None:
        """Write a message of the runner."""
        self.line(RUNNER, text)

    def plain(self, text: str) -> None:
        """Write multi-line text without a prefix."""
        try:
            self._stream.write(text + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            # The terminal is closed. Continue, because the processes have to be stopped.
            return


class LineBuffer:
    """A buffer that splits the output of one process into lines."""

    LIMIT = 64 * 1024

    def __init__(self) -> None:
        """Create an empty buffer."""
        self._rest = b""

    def feed(self, data: bytes) -> list[str]:
        """Add output and return the complete lines. Lines above the maximum length are split."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > self.LIMIT:
            lines.append(self._rest)
            self._rest = b""
        return [line.decode(errors="replace").rstrip("\r") for line in lines]

    def flush(self) -> list[str]:
        """Return the remaining incomplete line after the process has exited."""
        rest, self._rest = self._rest, b""
        return [rest.decode(errors="replace")] if rest else []
