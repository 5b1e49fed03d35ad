"""One watch: a stream of events, read line by line.

Called by `client`. It never resumes and never lists: that is the reflector's work.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from typing_extensions import override
from urllib3 import BaseHTTPResponse

from gpuplatform.kube import interrupt
from gpuplatform.kube.responses import error_for, failure_of_status, unreadable
from gpuplatform.kube.transport import read_some


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """What happened to an object: `ADDED`, `MODIFIED` or `DELETED`.

    Of a `BOOKMARK` only the resource version of its object says something.
    """

    type: str
    object: dict[str, Any]

    @property
    def resource_version(self) -> str:
        """The version to resume after once this event is dealt with."""
        metadata = self.object.get("metadata")
        version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
        return version if isinstance(version, str) else ""


class WatchStream(Iterator[WatchEvent]):
    """The events of one watch, until the server ends it, which is no error.

    Iterating raises `ClusterGone` when the version asked for is compacted away and
    `ClusterUnavailable` when the connection is lost, falls silent, or says what cannot be read:
    list again then.
    """

    def __init__(self, response: BaseHTTPResponse) -> None:
        self._response = response
        self._lines = _lines(response)

    @override
    def __iter__(self) -> Self:
        return self

    @override
    def __next__(self) -> WatchEvent:
        try:
            return _parse(next(self._lines))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the watch. Its connection cannot be used again: more events may be on their way."""
        interrupt.detach()
        self._response.close()


def _lines(response: BaseHTTPResponse) -> Iterator[bytes]:
    pending = bytearray()
    while some := read_some(response):
        start = len(pending)
        pending += some
        # Only what is new can hold the end of a line: a long line is searched once, not squared.
        while (end := pending.find(b"\n", start)) >= 0:
            line = bytes(pending[:end]).strip()
            del pending[: end + 1]
            start = 0
            if line:
                yield line
    if pending.strip():
        raise unreadable("a watch ended in the midst of an event")


def _parse(line: bytes) -> WatchEvent:
    try:
        said = json.loads(line)
    except ValueError as fault:
        raise unreadable("an event of a watch is not JSON") from fault
    if not isinstance(said, Mapping):
        raise unreadable("an event of a watch is no object")
    kind, body = said.get("type"), said.get("object")
    if not isinstance(kind, str) or not isinstance(body, dict):
        raise unreadable("an event of a watch lacks its type or its object")
    if kind == "ERROR":
        raise error_for(failure_of_status(body))
    return WatchEvent(kind, body)
