"""Faults of a `FaultProxy`, and the rules that select requests.

A fault of a request affects the whole request; a fault of a stream changes the lines of a watch.
"""

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Delay:
    """Delays the request."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Hold:
    """Keeps the connection open without a response until the gate opens.

    With `is_after`, the server executes the request before.
    """

    gate: threading.Event
    is_after: bool = False


@dataclass(frozen=True, slots=True)
class Cut:
    """Closes the connection; with `is_after`, the server has executed the request."""

    is_after: bool = False


@dataclass(frozen=True, slots=True)
class Refuse:
    """Responds with a Status object instead of the server."""

    status: int
    reason: str = ""
    retry_after: int | None = None


@dataclass(frozen=True, slots=True)
class StaleRead:
    """Responds to a read with the previous response for the same path: a stale read."""


@dataclass(frozen=True, slots=True)
class Silence:
    """The end of a stream: no further lines, with an open connection."""


@dataclass(frozen=True, slots=True)
class Break:
    """The end of a stream: sends these bytes and closes the connection."""

    last_words: bytes = b""


Line: TypeAlias = bytes | Silence | Break


@dataclass(frozen=True, slots=True)
class Stream:
    """Changes the lines of a watch with `edit`."""

    edit: Callable[[Iterable[bytes]], Iterator[Line]]


Fault: TypeAlias = Delay | Hold | Cut | Refuse | StaleRead | Stream


@dataclass(slots=True)
class Rule:
    """A fault, the requests that it affects, and the number of times."""

    fault: Fault
    verbs: tuple[str, ...] = ()
    """get, list, watch, create, update, patch, delete; empty selects all."""
    resource: str = ""
    """The plural of a kind; empty selects all."""
    times: int | None = 1
    """None: without limit."""
    skip: int = 0
    """Number of matching requests that pass first."""
    hits: int = 0

    def takes(self, verb: str, resource: str) -> bool:
        """Return whether the rule applies to this request, and count it."""
        if (self.verbs and verb not in self.verbs) or self.resource not in {"", resource}:
            return False
        if self.times is not None and self.hits >= self.times:
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        self.hits += 1
        return True


def half_open(after: int) -> Stream:
    """The stream stops after some lines, with an open connection."""
    return _ends_after(after, lambda line: Silence())


def cut_stream(after: int) -> Stream:
    """The connection is closed between two lines."""
    return _ends_after(after, lambda line: Break())


def cut_in_line(after: int) -> Stream:
    """The connection is closed within a line."""
    return _ends_after(after, lambda line: Break(line[: len(line) // 2]))


def broken_line(after: int) -> Stream:
    """A line is not JSON, then the connection is closed."""
    return _ends_after(after, lambda line: Break(line[: len(line) // 2] + b"\n"))


def gone(after: int) -> Stream:
    """The version is compacted during the watch: 410."""
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    event_line = json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"
    return _ends_after(after, lambda line: Break(event_line))


def drop(every: int) -> Stream:
    """Each n-th line is dropped."""
    return Stream(lambda lines: (line for n, line in enumerate(lines, 1) if n % every))


def repeat(every: int) -> Stream:
    """Each n-th line is repeated."""

    def edit(lines: Iterable[bytes]) -> Iterator[Line]:
        for number, line in enumerate(lines, 1):
            yield line
            if number % every == 0:
                yield line

    return Stream(edit)


def reorder(every: int) -> Stream:
    """Each n-th line is swapped with the next one."""

    def edit(lines: Iterable[bytes]) -> Iterator[Line]:
        late: bytes | None = None
        for number, line in enumerate(lines, 1):
            if late is None and number % every == 0:
                late = line
                continue
            yield line
            if late is not None:
                yield late
                late = None
        if late is not None:
            yield late

    return Stream(edit)


def _ends_after(after: int, last: Callable[[bytes], Line]) -> Stream:
    def edit(lines: Iterable[bytes]) -> Iterator[Line]:
        for number, line in enumerate(lines):
            if number >= after:
                yield last(line)
                return
            yield line

    return Stream(edit)
