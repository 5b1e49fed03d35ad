"""The client of the Kubernetes API, with objects as plain dicts; nothing else calls the API.

Every call has a time limit (`deadline` can shorten it), no call is retried here, and every failure
is a `ClusterError` whose class determines what the caller may do. A missing object is not an
error. The client knows no app, no database and no plan.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from kubernetes.client import Configuration

from gpuplatform.errors import ClusterGone
from gpuplatform.kube import encoding
from gpuplatform.kube.deadline import deadline
from gpuplatform.kube.kinds import FIELD_MANAGER, POD, Manifest, ResourceKind
from gpuplatform.kube.responses import error_for, parse_failure, unreadable
from gpuplatform.kube.transport import CALL_SECONDS, Answer, Request, Transport, read_all
from gpuplatform.kube.watch import WatchEvent, WatchStream

__all__ = ["FIELD_MANAGER", "Cluster", "Listing", "Manifest", "WatchEvent", "WatchStream"]

PAGE_SIZE = 500
LIST_ATTEMPTS = 3
"""Number of attempts when the version of a list is compacted away between two pages."""
WATCH_GRACE_SECONDS = 10.0
"""Seconds after the requested end of a watch before its silent connection counts as lost."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A complete list and its resource version, from which a watch continues."""

    items: list[Manifest]
    resource_version: str


class Cluster:
    """One API server. Safe to share between threads, never across a fork (see `modes`)."""

    def __init__(self, load: Callable[[], Configuration]) -> None:
        """`load` reads address and credentials; it is called again after a 401."""
        self._load = load
        self._transport = Transport(load())

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def get(
        self, kind: ResourceKind, name: str, *, namespace: str | None = None
    ) -> Manifest | None:
        """Return the object, or `None` if the API server reports that it does not exist."""
        answer = self._send(Request("GET", kind.path(namespace, name)))
        if _is_absent(answer):
            return None
        return _object(answer)

    def list(
        self,
        kind: ResourceKind,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
    ) -> Listing:
        """Return all objects as of one resource version, read in pages; never a partial list.

        Raises:
            ClusterGone: The version was compacted away between two pages, in every attempt.
        """
        query = {
            "limit": str(PAGE_SIZE),
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
        }
        request = Request("GET", kind.path(namespace), query)
        for _ in range(LIST_ATTEMPTS - 1):
            try:
                return self._pages(kind, request)
            except ClusterGone:
                continue
        return self._pages(kind, request)

    def create(self, kind: ResourceKind, manifest: Manifest) -> Manifest:
        """Create the object; if it exists, raise `ClusterConflict` with reason `AlreadyExists`."""
        namespace, _ = _place(manifest)
        body = encoding.json_bytes(manifest)
        path = kind.path(namespace)
        return _object(self._send(Request("POST", path, _MANAGED, body, encoding.JSON)))

    def apply(
        self,
        kind: ResourceKind,
        manifest: Manifest,
        *,
        field_manager: str = FIELD_MANAGER,
        force: bool = True,
    ) -> Manifest:
        """Apply `manifest` (server-side apply): set its fields, and create a missing object.

        An apply without changes costs the server as much as one with changes: compare first.

        Raises:
            ClusterConflict: Another field manager owns a field with another value, and `force` is
                not set.
        """
        namespace, name = _place(manifest)
        query = {"fieldManager": field_manager, "force": "true" if force else "false"}
        body = encoding.apply_bytes(manifest)
        path = kind.path(namespace, name)
        return _object(self._send(Request("PATCH", path, query, body, encoding.APPLY)))

    def merge_patch(
        self,
        kind: ResourceKind,
        name: str,
        patch: Manifest,
        *,
        namespace: str | None = None,
        subresource: str = "",
    ) -> Manifest:
        """Change the fields in `patch`; a null removes a field.

        A `uid` or `resourceVersion` in its `metadata` is a precondition: the call raises
        `ClusterConflict` if the object has another one.
        """
        path = kind.path(namespace, name, subresource)
        body = encoding.json_bytes(patch)
        return _object(self._send(Request("PATCH", path, _MANAGED, body, encoding.MERGE_PATCH)))

    def replace(self, kind: ResourceKind, manifest: Manifest) -> Manifest:
        """Replace the version that `manifest` names. For objects that only the platform writes."""
        namespace, name = _place(manifest)
        body = encoding.json_bytes(manifest)
        path = kind.path(namespace, name)
        return _object(self._send(Request("PUT", path, _MANAGED, body, encoding.JSON)))

    def delete(
        self,
        kind: ResourceKind,
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str = "Background",
    ) -> bool:
        """Request the deletion; return `False` if the object does not exist.

        `True` means accepted: finalizers and grace periods run afterwards.

        Raises:
            ClusterConflict: The object has another `uid` or `resource_version` than given.
        """
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        options: Manifest = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": propagation,
        }
        if given := {key: value for key, value in preconditions.items() if value}:
            options["preconditions"] = given
        body = encoding.json_bytes(options)
        path = kind.path(namespace, name)
        answer = self._send(Request("DELETE", path, {}, body, encoding.JSON))
        if _is_absent(answer):
            return False
        _object(answer)
        return True

    def watch(
        self,
        kind: ResourceKind,
        *,
        resource_version: str,
        namespace: str | None = None,
        label_selector: str = "",
        timeout_seconds: float,
        silence_seconds: float | None = None,
    ) -> WatchStream:
        """Return the events after `resource_version`, until the server ends the watch.

        Args:
            kind: The kind to watch.
            resource_version: That of a list, of the last processed event, or of a bookmark.
            namespace: All namespaces if absent.
            label_selector: Only objects that match.
            timeout_seconds: Duration requested from the server; rounded up to whole seconds.
            silence_seconds: A connection without a byte for this time counts as lost; the default
                is the timeout plus ten seconds.

        Raises:
            ClusterGone: The version was compacted away; raised here or while iterating.
        """
        seconds = max(1, int(-(-timeout_seconds // 1)))
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "labelSelector": label_selector,
            "timeoutSeconds": str(seconds),
        }
        request = Request("GET", kind.path(namespace), query)
        silence = seconds + WATCH_GRACE_SECONDS
        if silence_seconds is not None:
            silence = min(silence, silence_seconds)
        return self._stream(request, read_seconds=silence)

    def pod_log(
        self,
        name: str,
        *,
        namespace: str,
        container: str,
        tail_lines: int,
        limit_bytes: int,
        previous: bool = False,
    ) -> str | None:
        """Return the last lines of a container's log; `None` if the pod does not exist.

        Raises:
            ClusterRejected: The container has not started, or had no run before (`previous`).
        """
        query = {
            "container": container,
            "tailLines": str(tail_lines),
            "limitBytes": str(limit_bytes),
            "previous": "true" if previous else "",
        }
        answer = self._send(Request("GET", POD.path(namespace, name, "log"), query))
        if _is_absent(answer):
            return None
        if answer.status != 200:
            _fail(answer)
        return answer.body.decode("utf-8", errors="replace")

    def version(self) -> str:
        """Return the server's version, such as `v1.36.3`: the cheapest request."""
        version = _object(self._send(Request("GET", "/version")))
        return str(version.get("gitVersion", ""))

    def _send(self, request: Request) -> Answer:
        answer = self._transport.exchange(request)
        if answer.status == 401:
            # The token was rotated or the certificate was replaced: read them again, once.
            self._transport = Transport(self._load())
            answer = self._transport.exchange(request)
        return answer

    def _stream(self, request: Request, *, read_seconds: float) -> WatchStream:
        response = self._transport.open(request, read_seconds=read_seconds)
        if response.status == 401:
            response.close()
            self._transport = Transport(self._load())
            response = self._transport.open(request, read_seconds=read_seconds)
        if response.status != 200:
            with deadline(CALL_SECONDS):
                _fail(Answer(response.status, response.headers, read_all(response)))
        return WatchStream(response)

    def _pages(self, kind: ResourceKind, first: Request) -> Listing:
        items: list[Manifest] = []
        request = first
        while True:
            page = _object(self._send(request))
            metadata, more = page.get("metadata"), page.get("items", ())
            # Go encodes a nil slice as null.
            more = [] if more is None else more
            if not isinstance(metadata, dict) or not isinstance(more, list):
                raise unreadable("a list has no items or no version")
            items += (_typed(kind, item) for item in more)
            token = metadata.get("continue")
            if not token:
                return Listing(items, _version_of(metadata))
            request = Request("GET", first.path, {**first.query, "continue": token})


_MANAGED = {"fieldManager": FIELD_MANAGER}


def _place(manifest: Manifest) -> tuple[str | None, str]:
    metadata = manifest["metadata"]
    return metadata.get("namespace"), metadata.get("name", "")


def _is_absent(answer: Answer) -> bool:
    if answer.status != 404:
        return False
    return parse_failure(answer.status, answer.headers, answer.body).is_missing_object


def _object(answer: Answer) -> Manifest:
    if not 200 <= answer.status < 300:
        _fail(answer)
    try:
        document: Any = json.loads(answer.body)
    except ValueError as fault:
        raise unreadable("it is not JSON") from fault
    if not isinstance(document, dict):
        raise unreadable("it is not an object")
    return document


def _fail(answer: Answer) -> NoReturn:
    raise error_for(parse_failure(answer.status, answer.headers, answer.body))


def _typed(kind: ResourceKind, item: Any) -> Manifest:
    """Add apiVersion and kind, which the items of a list lack, as the objects of a watch have."""
    if not isinstance(item, dict):
        raise unreadable("an item of a list is not an object")
    return {"apiVersion": kind.api_version, "kind": kind.kind, **item}


def _version_of(metadata: Manifest) -> str:
    version = metadata.get("resourceVersion")
    if not isinstance(version, str) or not version:
        raise unreadable("a list has no version")
    return version
