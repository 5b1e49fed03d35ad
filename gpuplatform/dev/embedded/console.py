"""One log for many processes: each line has the name of its process, in color on a terminal."""

import os
import sys
from collections.abc import Mapping
from typing import TextIO

COLOURS = (36, 32, 33, 35, 34, 96, 92, 93, 95, 94)
RUNNER = "run"


def has_colour(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Return whether to use color: on a terminal, unless NO_COLOR is set (https://no-color.org)."""
    return stream.isatty() and not environment.get("NO_COLOR")


class Console:
    """Writes whole lines to one stream; a closed stream only silences the log."""

    def __init__(self, names: tuple[str, ...], stream: TextIO = sys.stdout) -> None:
        """`names` of the processes determine the width and the colors of the prefix."""
        self._stream = stream
        self._width = max(map(len, (*names, RUNNER)))
        self._colours = (
            {name: COLOURS[at % len(COLOURS)] for at, name in enumerate(names)}
            if has_colour(stream, os.environ)
            else {}
        )

    def line(self, name: str, text: str) -> None:
        """Write one line of the process with this name."""
        prefix = f"{name:<{self._width}} |"
        if colour := self._colours.get(name):
            prefix = f"\x1b[{colour}m{prefix}\x1b[0m"
        self.plain(f"{prefix} {text}" if text else prefix)

    def note(self, text: str) -> None:
        """Write a line of the runner."""
        self.line(RUNNER, text)

    def plain(self, text: str) -> None:
        """Write text without a prefix."""
        try:
            self._stream.write(text + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            # The terminal is closed; the processes still have to be stopped.
            return


class LineBuffer:
    """Splits the output of one process into lines."""

    LIMIT = 64 * 1024

    def __init__(self) -> None:
        """Start without a rest."""
        self._rest = b""

    def feed(self, data: bytes) -> list[str]:
        """Return the complete lines; a line beyond the limit is split."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > self.LIMIT:
            lines.append(self._rest)
            self._rest = b""
        return [line.decode(errors="replace").rstrip("\r") for line in lines]

    def flush(self) -> list[str]:
        """Return the rest, after the end of the process."""
        rest, self._rest = self._rest, b""
        return [rest.decode(errors="replace")] if rest else []
