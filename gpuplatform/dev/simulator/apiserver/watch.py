"""Watch requests: cursors over the history of a kind, with selectors and bookmarks."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TypeAlias

from gpuplatform.dev.simulator.apiserver import errors
from gpuplatform.dev.simulator.apiserver.lists import check_options, number_of, predicate_of
from gpuplatform.dev.simulator.apiserver.objects import to_bytes
from gpuplatform.dev.simulator.apiserver.resources import Resource
from gpuplatform.dev.simulator.apiserver.store import Change, Entry, Store, entry_of

Render: TypeAlias = Callable[[Entry], bytes]

_BOOKMARK_SECONDS = 30.0
_LAST_SECONDS = 2.0
"""Time in seconds before the end of a watch at which it sends its last bookmark."""
_MAX_SECONDS = 3600
_INITIAL_END = "k8s.io/initial-events-end"


class Watch:
    """A watch request. `render` returns an object as JSON in the requested form."""

    def __init__(
        self,
        store: Store,
        resource: Resource,
        namespace: str,
        query: Mapping[str, str],
        render: Render,
    ) -> None:
        """Create a watch from the query of a request.

        Raises:
            ApiError: 400 if a selector is invalid; 422 if options contradict each other; 500 if
            the
                resource version is invalid.
        """
        check_options(query, is_watch=True)
        version = query.get("resourceVersion") or "0"
        if not version.isdecimal():
            detail = f'resourceVersion: Invalid value: "{version}": invalid syntax'
            raise errors.ApiError(500, "", detail)
        self._store = store
        self._resource = resource
        self._namespace = namespace
        self._render = render
        self._matches = predicate_of(resource, query)
        self._bookmarks = query.get("allowWatchBookmarks") in {"true", "1"}
        self._seconds = min(number_of(query, "timeoutSeconds") or _MAX_SECONDS, _MAX_SECONDS)
        self._streams_list = query.get("sendInitialEvents") == "true"
        self._cursor = int(version)
        self._starts_with_list = self._streams_list or not self._cursor

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield batches of watch events, as JSON lines, until the timeout or an ERROR event."""
        history, wake = self._store.history(self._resource.key), asyncio.Event()
        history.subscribe(wake)
        try:
            loop = asyncio.get_running_loop()
            end = loop.time() + self._seconds
            if self._starts_with_list:
                yield self._initial()
            while True:
                wake.clear()
                batch = self._next()
                if batch is None:
                    yield self._expired(history.compacted)
                    return
                if batch:
                    yield batch
                    continue
                left = end - loop.time()
                if left <= 0:
                    return
                early = left - _LAST_SECONDS
                pause = min(early, _BOOKMARK_SECONDS) if early > 0 else left
                try:
                    await asyncio.wait_for(wake.wait(), pause)
                except TimeoutError:
                    if self._bookmarks and early > 0:
                        yield self._bookmark()
        finally:
            history.unsubscribe(wake)

    def _initial(self) -> bytes:
        entries = self._store.find(self._resource.key, self._namespace)
        self._cursor = self._store.version
        lines = [self._line("ADDED", e) for e in entries if self._selects(e)]
        if self._streams_list:
            lines.append(self._bookmark({_INITIAL_END: "true"}))
        return b"".join(lines)

    def _next(self) -> bytes | None:
        """Return the event lines of the changes since the last call.

        Returns `None` if the changes have been compacted.
        """
        changes = self._store.history(self._resource.key).since(self._cursor)
        if changes is None:
            return None
        self._cursor = max(self._cursor, self._store.version)
        return b"".join(self._event(change) for change in changes)

    def _event(self, change: Change) -> bytes:
        if self._namespace and change.entry.key[2] != self._namespace:
            return b""
        was = change.before is not None and self._selects(change.before)
        takes = self._selects(change.entry) and change.type != "DELETED"
        if was and takes:
            return self._line("MODIFIED", change.entry)
        if takes:
            return self._line("ADDED", change.entry)
        return self._line("DELETED", _last_state(change)) if was else b""

    def _selects(self, entry: Entry) -> bool:
        return self._matches is None or self._matches(entry.object)

    def _line(self, kind: str, entry: Entry) -> bytes:
        return b'{"type":"%b","object":%b}\n' % (kind.encode(), self._render(entry))

    def _bookmark(self, annotations: Mapping[str, str] | None = None) -> bytes:
        metadata: dict[str, object] = {
            "resourceVersion": str(self._cursor),
            "creationTimestamp": None,
        }
        if annotations:
            metadata["annotations"] = dict(annotations)
        obj = {
            "kind": self._resource.kind,
            "apiVersion": self._resource.api_version,
            "metadata": metadata,
        }
        return to_bytes({"type": "BOOKMARK", "object": obj}) + b"\n"

    def _expired(self, compacted: int) -> bytes:
        return error_event(
            errors.expired(f"too old resource version: {self._cursor} ({compacted})")
        )


def error_event(error: errors.ApiError) -> bytes:
    """Return an ERROR event, which ends a failed watch."""
    return to_bytes({"type": "ERROR", "object": error.status}) + b"\n"


def _last_state(change: Change) -> Entry:
    """Return the entry of a DELETED event: the last state with the version of the deletion."""
    if change.type == "DELETED" or change.before is None:
        return change.entry
    before = change.before.object
    metadata = {**before["metadata"], "resourceVersion": str(change.entry.version)}
    return entry_of(change.entry.key, {**before, "metadata": metadata}, change.entry.version)
