"""One watch: a stream of events, read line by line.

Called by `client`. It neither resumes nor lists; the reflector does.
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
    """A change of an object: `ADDED`, `MODIFIED` or `DELETED`.

    The object of a `BOOKMARK` has only a resource version.
    """

    type: str
    object: dict[str, Any]

    @property
    def resource_version(self) -> str:
        """The version from which to resume after this event."""
        metadata = self.object.get("metadata")
        version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
        return version if isinstance(version, str) else ""


class WatchStream(Iterator[WatchEvent]):
    """The events of one watch, until the server ends it.

    Iterating raises `ClusterGone` if the requested version was compacted away, and
    `ClusterUnavailable` if the connection is lost, times out or sends unreadable data: list again.
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
        """End the watch and close its connection, which may still carry events."""
        interrupt.detach()
        self._response.close()


def _lines(response: BaseHTTPResponse) -> Iterator[bytes]:
    pending = bytearray()
    while some := read_some(response):
        start = len(pending)
        pending += some
        # Search only the new bytes, so that a long line is searched once.
        while (end := pending.find(b"\n", start)) >= 0:
            line = bytes(pending[:end]).strip()
            del pending[: end + 1]
            start = 0
            if line:
                yield line
    if pending.strip():
        raise unreadable("a watch ended within an event")


def _parse(line: bytes) -> WatchEvent:
    try:
        document = json.loads(line)
    except ValueError as fault:
        raise unreadable("an event of a watch is not JSON") from fault
    if not isinstance(document, Mapping):
        raise unreadable("an event of a watch is not an object")
    kind, body = document.get("type"), document.get("object")
    if not isinstance(kind, str) or not isinstance(body, dict):
        raise unreadable("an event of a watch lacks its type or its object")
    if kind == "ERROR":
        raise error_for(failure_of_status(body))
    return WatchEvent(kind, body)
