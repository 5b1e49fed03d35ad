"""The event stream of one watch. A `Reflector` continues watches and lists objects."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from typing_extensions import override
from urllib3 import BaseHTTPResponse

from gpuplatform.kube import interrupt
from gpuplatform.kube.responses import error_for, failure_of_status, invalid_response
from gpuplatform.kube.transport import read_some


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """An event of a watch, with the type `ADDED`, `MODIFIED`, `DELETED` or `BOOKMARK`.

    The object of a bookmark has only a resource version.
    """

    type: str
    object: dict[str, Any]

    @property
    def resource_version(self) -> str:
        """The resource version from which a watch continues after this event."""
        metadata = self.object.get("metadata")
        version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
        return version if isinstance(version, str) else ""


class WatchStream(Iterator[WatchEvent]):
    """The events of a watch, until the server ends it.

    Iterating raises `ClusterGone` if the requested version has expired, and `ClusterUnavailable`
    if the connection is lost, times out or sends invalid data. List the objects again in both
    cases.
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
        """End the watch and close its connection."""
        interrupt.detach()
        self._response.close()


def _lines(response: BaseHTTPResponse) -> Iterator[bytes]:
    pending = bytearray()
    while some := read_some(response):
        start = len(pending)
        pending += some
        # Search only the new bytes.
        while (end := pending.find(b"\n", start)) >= 0:
            line = bytes(pending[:end]).strip()
            del pending[: end + 1]
            start = 0
            if line:
                yield line
    if pending.strip():
        raise invalid_response("a watch ended within an event")


def _parse(line: bytes) -> WatchEvent:
    try:
        document = json.loads(line)
    except ValueError as error:
        raise invalid_response("an event of a watch is not JSON") from error
    if not isinstance(document, Mapping):
        raise invalid_response("an event of a watch is not an object")
    kind, body = document.get("type"), document.get("object")
    if not isinstance(kind, str) or not isinstance(body, dict):
        raise invalid_response("an event of a watch has no type or no object")
    if kind == "ERROR":
        raise error_for(failure_of_status(body))
    return WatchEvent(kind, body)
