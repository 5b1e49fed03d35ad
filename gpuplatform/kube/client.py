"""The client of the Kubernetes API. Objects are plain dicts.

All requests to the API server use this client. Each call has a time limit, which `deadline` can
shorten. The client does not retry. Each failure raises a `ClusterError`, and its class determines
whether the caller may retry. A missing object is not an error.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from kubernetes.client import Configuration

from gpuplatform.kube import encoding
from gpuplatform.kube.deadline import deadline
from gpuplatform.kube.errors import ClusterGone
from gpuplatform.kube.kinds import FIELD_MANAGER, POD, Manifest, ResourceKind
from gpuplatform.kube.responses import error_for, invalid_response, parse_failure
from gpuplatform.kube.transport import CALL_SECONDS, Request, Response, Transport, read_all
from gpuplatform.kube.watch import WatchStream

PAGE_SIZE = 500
LIST_ATTEMPTS = 3
"""Maximum number of attempts if the continue token of a list expires between two pages."""
WATCH_GRACE_SECONDS = 10.0
"""Seconds after the requested end of a watch before its connection counts as lost."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A complete list, and the resource version from which a watch continues."""

    items: list[Manifest]
    resource_version: str


class Cluster:
    """The connection to an API server. Threads may share it; forked processes must not."""

    def __init__(self, load: Callable[[], Configuration]) -> None:
        """Connect with the address and the credentials that `load` returns.

        `load` is called again after a 401 response.
        """
        self._load = load
        self._transport = Transport(load())

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def get(
        self, kind: ResourceKind, name: str, *, namespace: str | None = None
    ) -> Manifest | None:
        """Return the object, or `None` if it does not exist."""
        response = self._send(Request("GET", kind.path(namespace, name)))
        if _is_absent(response):
            return None
        return _object(response)

    def list(
        self,
        kind: ResourceKind,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
    ) -> Listing:
        """Return the complete list at one resource version. The list is read in pages.

        Raises:
            ClusterGone: If the continue token expired between two pages in each attempt.
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
        """Create the object.

        Raises:
            ClusterConflict: If the object exists. The reason is `AlreadyExists`.
        """
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
        """Apply `manifest` by server-side apply. A missing object is created.

        An apply without changes is as expensive for the server as one with changes, so compare
        before this call.

        Raises:
            ClusterConflict: If another field manager owns a field with another value, unless
                `force` is set.
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
        """Merge the fields of `patch` into the object. A null value removes a field.

        Raises:
            ClusterConflict: If `metadata` contains a `uid` or a `resourceVersion` that differs
                from that field of the object.
        """
        path = kind.path(namespace, name, subresource)
        body = encoding.json_bytes(patch)
        return _object(self._send(Request("PATCH", path, _MANAGED, body, encoding.MERGE_PATCH)))

    def replace(self, kind: ResourceKind, manifest: Manifest) -> Manifest:
        """Replace the object, if its resource version equals the version in `manifest`."""
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
        """Request the deletion of the object. Return whether the object exists.

        The object can continue to exist because of finalizers and its grace period.

        Raises:
            ClusterConflict: If the object has another `uid` or `resource_version`.
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
        response = self._send(Request("DELETE", path, {}, body, encoding.JSON))
        if _is_absent(response):
            return False
        _object(response)
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
        """Return the stream of the events after `resource_version`.

        Args:
            kind: The kind to watch.
            resource_version: The resource version of a list, an event or a bookmark.
            namespace: The namespace to watch. By default all namespaces are watched.
            label_selector: The label selector of the objects to watch.
            timeout_seconds: Duration of the watch in seconds, rounded up to an integer.
            silence_seconds: Time in seconds without data after which the connection counts as
                lost. The default is `timeout_seconds` plus ten seconds.

        Raises:
            ClusterGone: If the version has expired. Iterating can raise it too.
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
        """Return the last lines of a container's log, or `None` if the pod does not exist.

        Raises:
            ClusterRejected: If the container has not started, or has no previous run although
                `previous` is set.
        """
        query = {
            "container": container,
            "tailLines": str(tail_lines),
            "limitBytes": str(limit_bytes),
            "previous": "true" if previous else "",
        }
        response = self._send(Request("GET", POD.path(namespace, name, "log"), query))
        if _is_absent(response):
            return None
        if response.status != 200:
            _fail(response)
        return response.body.decode("utf-8", errors="replace")

    def version(self) -> str:
        """Return the version of the server, such as `v1.36.3`."""
        version = _object(self._send(Request("GET", "/version")))
        return str(version.get("gitVersion", ""))

    def _send(self, request: Request) -> Response:
        response = self._transport.exchange(request)
        if response.status == 401:
            # The token or the certificate may have been replaced: read the credentials again,
            # once.
            self._transport = Transport(self._load())
            response = self._transport.exchange(request)
        return response

    def _stream(self, request: Request, *, read_seconds: float) -> WatchStream:
        response = self._transport.open(request, read_seconds=read_seconds)
        if response.status == 401:
            response.close()
            self._transport = Transport(self._load())
            response = self._transport.open(request, read_seconds=read_seconds)
        if response.status != 200:
            with deadline(CALL_SECONDS):
                _fail(Response(response.status, response.headers, read_all(response)))
        return WatchStream(response)

    def _pages(self, kind: ResourceKind, first: Request) -> Listing:
        items: list[Manifest] = []
        request = first
        while True:
            page = _object(self._send(request))
            metadata, more = page.get("metadata"), page.get("items", ())
            # The API server encodes an empty list as null if its Go slice is nil.
            more = [] if more is None else more
            if not isinstance(metadata, dict) or not isinstance(more, list):
                raise invalid_response("a list has no items or no resource version")
            items += (_typed(kind, item) for item in more)
            token = metadata.get("continue")
            if not token:
                return Listing(items, _version_of(metadata))
            request = Request("GET", first.path, {**first.query, "continue": token})


_MANAGED = {"fieldManager": FIELD_MANAGER}


def _place(manifest: Manifest) -> tuple[str | None, str]:
    metadata = manifest["metadata"]
    return metadata.get("namespace"), metadata.get("name", "")


def _is_absent(response: Response) -> bool:
    if response.status != 404:
        return False
    return parse_failure(response.status, response.headers, response.body).is_missing_object


def _object(response: Response) -> Manifest:
    if not 200 <= response.status < 300:
        _fail(response)
    try:
        document: Any = json.loads(response.body)
    except ValueError as error:
        raise invalid_response("it is not JSON") from error
    if not isinstance(document, dict):
        raise invalid_response("it is not an object")
    return document


def _fail(response: Response) -> NoReturn:
    raise error_for(parse_failure(response.status, response.headers, response.body))


def _typed(kind: ResourceKind, item: Any) -> Manifest:
    """Return the list item with `apiVersion` and `kind`, which the items of a list lack."""
    if not isinstance(item, dict):
        raise invalid_response("an item of a list is not an object")
    return {"apiVersion": kind.api_version, "kind": kind.kind, **item}


def _version_of(metadata: Manifest) -> str:
    version = metadata.get("resourceVersion")
    if not isinstance(version, str) or not version:
        raise invalid_response("a list has no resource version")
    return version
