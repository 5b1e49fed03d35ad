"""The faults a `FaultProxy` can cause, and the rules that say when.

A fault of a request happens to the request as a whole; a fault of a stream edits the lines of one
watch on their way to the client.
"""

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Delay:
    """The request reaches the server late."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Hold:
    """The connection stays open without a word until the gate opens.

    With `is_after` the server has acted before, otherwise it knows nothing yet.
    """

    gate: threading.Event
    is_after: bool = False


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection is lost; with `is_after` the server has acted all the same."""

    is_after: bool = False


@dataclass(frozen=True, slots=True)
class Refuse:
    """The server is not asked; a Status object is the answer."""

    status: int
    reason: str = ""
    retry_after: int | None = None


@dataclass(frozen=True, slots=True)
class StaleRead:
    """A read is answered as the last one of the same address was, as from a cache behind."""


@dataclass(frozen=True, slots=True)
class Silence:
    """What a stream does instead of its next line: nothing, for ever, with the connection open."""


@dataclass(frozen=True, slots=True)
class Break:
    """What a stream does instead of its next line: send this, then lose the connection."""

    last_words: bytes = b""


Line: TypeAlias = bytes | Silence | Break


@dataclass(frozen=True, slots=True)
class Stream:
    """The lines of a watch come as `edit` makes them."""

    edit: Callable[[Iterable[bytes]], Iterator[Line]]


Fault: TypeAlias = Delay | Hold | Cut | Refuse | StaleRead | Stream


@dataclass(slots=True)
class Rule:
    """A fault, the requests it befalls, and how often."""

    fault: Fault
    verbs: tuple[str, ...] = ()
    """get, list, watch, create, update, patch, delete; empty means all."""
    resource: str = ""
    """The plural of a kind; empty means all."""
    times: int | None = 1
    """Without end if absent."""
    skip: int = 0
    """How many matching requests pass first."""
    hits: int = 0

    def takes(self, verb: str, resource: str) -> bool:
        """Whether this request is the rule's; counts it if so."""
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
    """The peer vanishes after some lines, and nothing says so."""
    return _ends_after(after, lambda line: Silence())


def cut_stream(after: int) -> Stream:
    """The connection is lost between two lines."""
    return _ends_after(after, lambda line: Break())


def cut_in_line(after: int) -> Stream:
    """The connection is lost in the midst of a line."""
    return _ends_after(after, lambda line: Break(line[: len(line) // 2]))


def broken_line(after: int) -> Stream:
    """A line comes that is no JSON, and the connection is lost."""
    return _ends_after(after, lambda line: Break(line[: len(line) // 2] + b"\n"))


def gone(after: int) -> Stream:
    """The version is compacted away while the watch runs."""
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    said = json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"
    return _ends_after(after, lambda line: Break(said))


def drop(every: int) -> Stream:
    """Each so-many-th line never comes."""
    return Stream(lambda lines: (line for n, line in enumerate(lines, 1) if n % every))


def repeat(every: int) -> Stream:
    """Each so-many-th line comes twice."""

    def edit(lines: Iterable[bytes]) -> Iterator[Line]:
        for number, line in enumerate(lines, 1):
            yield line
            if number % every == 0:
                yield line

    return Stream(edit)


def reorder(every: int) -> Stream:
    """Each so-many-th line comes after the one that follows it."""

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
