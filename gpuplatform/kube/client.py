"""The cluster, as plain dicts: the only way from the platform to the Kubernetes API.

Every call is bounded in time (`deadline` shortens it further), none is tried again here, and every
failure is a `ClusterError` whose class says what the caller may do. A missing object is no error.
It knows no app, no database and no plan.
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
"""How often a list is begun again when its version is compacted away between two pages."""
WATCH_GRACE_SECONDS = 10.0
"""How much longer than asked a watch may be silent before its connection counts as lost."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A complete list, and the version at which it was true: a watch continues from there."""

    items: list[Manifest]
    resource_version: str


class Cluster:
    """One API server. Safe to share between threads, never across a fork (see `modes`)."""

    def __init__(self, load: Callable[[], Configuration]) -> None:
        """`load` reads address and credentials; it is called again when they are refused (401)."""
        self._load = load
        self._transport = Transport(load())

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def get(
        self, kind: ResourceKind, name: str, *, namespace: str | None = None
    ) -> Manifest | None:
        """Return the object, or `None` if the cluster looked and it is not there."""
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
        """Return all objects of one version of the cluster, read in pages; never a part of them.

        Raises:
            ClusterGone: The version was compacted away between two pages, again and again.
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
        """Make the object; one of that name is a `ClusterConflict` with reason `AlreadyExists`."""
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
        """Make the fields in `manifest` so (server-side apply), and create the object if need be.

        The server does the whole work even if nothing changes: compare first, skip the call.

        Raises:
            ClusterConflict: Other managers own fields with other values, and not `force`.
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
        """Change the fields in `patch`; a null removes one.

        A `uid` or `resourceVersion` in its `metadata` is a precondition: another object of the
        name, or another version, is a `ClusterConflict`.
        """
        path = kind.path(namespace, name, subresource)
        body = encoding.json_bytes(patch)
        return _object(self._send(Request("PATCH", path, _MANAGED, body, encoding.MERGE_PATCH)))

    def replace(self, kind: ResourceKind, manifest: Manifest) -> Manifest:
        """Put `manifest` in the place of the version it names. For objects that are ours alone."""
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
        """Ask for the deletion; `False` if there was no such object.

        `True` means accepted, not gone: finalizers and grace periods run afterwards.

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
        """Follow what happens after `resource_version`, until the server ends it at the timeout.

        Args:
            kind: What to follow.
            resource_version: Of a list, of the last event dealt with, or of a bookmark.
            namespace: All namespaces if absent.
            label_selector: Only objects that match.
            timeout_seconds: Asked of the server; rounded up to whole seconds.
            silence_seconds: A connection without a byte for so long counts as lost; without it the
                timeout and ten seconds more.

        Raises:
            ClusterGone: The version is compacted away; here or while iterating.
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
        """Return the end of what a container wrote; `None` if there is no such pod.

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
        """Return the server's version, such as `v1.36.3`: the cheapest question there is."""
        said = _object(self._send(Request("GET", "/version")))
        return str(said.get("gitVersion", ""))

    def _send(self, request: Request) -> Answer:
        answer = self._transport.exchange(request)
        if answer.status == 401:
            # The token was rotated or the certificate replaced: read them again, once.
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
            # A Go list that was never filled is written as null.
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
        said: Any = json.loads(answer.body)
    except ValueError as fault:
        raise unreadable("it is not JSON") from fault
    if not isinstance(said, dict):
        raise unreadable("it is no object")
    return said


def _fail(answer: Answer) -> NoReturn:
    raise error_for(parse_failure(answer.status, answer.headers, answer.body))


def _typed(kind: ResourceKind, item: Any) -> Manifest:
    """Add what lists leave out of their items, so that they look like the objects of a watch."""
    if not isinstance(item, dict):
        raise unreadable("an item of a list is no object")
    return {"apiVersion": kind.api_version, "kind": kind.kind, **item}


def _version_of(metadata: Manifest) -> str:
    version = metadata.get("resourceVersion")
    if not isinstance(version, str) or not version:
        raise unreadable("a list has no version")
    return version
