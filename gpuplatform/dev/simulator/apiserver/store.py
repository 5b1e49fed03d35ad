"""The object store: objects by key, a version counter, and recent changes for watches.

Stored objects are never modified. A writer clones an object, edits the copy and commits it.
Controllers listen to commits; watches read the history and wait for changes.
"""

import asyncio
import logging
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from gpuplatform.dev.simulator.apiserver.journal import Journal
from gpuplatform.dev.simulator.apiserver.objects import (
    Manifest,
    controller_of,
    from_bytes,
    to_bytes,
)
from gpuplatform.dev.simulator.apiserver.resources import GroupPlural
from gpuplatform.dev.simulator.isolation import isolated

log = logging.getLogger(__name__)

Key: TypeAlias = tuple[str, str, str, str]
"""Key of an object: group, plural, namespace and name."""
Place: TypeAlias = tuple[str, str, str]
"""Key of a collection: group, plural and namespace."""

_WINDOW = 2000
"""Number of changes of each kind that watches can read. Older changes are compacted (410)."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored version of an object. `head` and `body` are its JSON, split after `apiVersion`."""

    key: Key
    object: Manifest
    head: bytes
    body: bytes
    version: int

    @property
    def json(self) -> bytes:
        """The object as JSON."""
        return self.head + self.body


@dataclass(frozen=True, slots=True)
class Change:
    """A committed change. `entry` is the new state, or the last state of a deleted object."""

    type: str
    entry: Entry
    before: Entry | None


class History:
    """The recent changes of one kind, from old to new."""

    def __init__(self, compacted: int) -> None:
        """Create an empty history. Changes up to the version `compacted` are not available."""
        self.compacted = compacted
        self.changes: list[Change] = []
        self._wake: set[asyncio.Event] = set()

    def append(self, change: Change) -> None:
        """Append `change` and notify all watches."""
        self.changes.append(change)
        if len(self.changes) > 2 * _WINDOW:
            self.compacted = self.changes[_WINDOW - 1].entry.version
            del self.changes[:_WINDOW]
        for event in self._wake:
            event.set()

    def since(self, version: int) -> list[Change] | None:
        """Return the changes after `version`, or `None` if they have been compacted."""
        if version < self.compacted:
            return None
        start = bisect_right(self.changes, version, key=lambda change: change.entry.version)
        return list(islice(self.changes, start, None))

    def subscribe(self, event: asyncio.Event) -> None:
        """Set `event` at each future change."""
        self._wake.add(event)

    def unsubscribe(self, event: asyncio.Event) -> None:
        """Stop setting `event`."""
        self._wake.discard(event)


class Store:
    """The store of all objects. Without a journal the objects are only in memory."""

    def __init__(self, journal: Journal | None) -> None:
        self._journal = journal
        self._objects: defaultdict[GroupPlural, dict[str, dict[str, Entry]]] = defaultdict(dict)
        self._order: dict[Place, list[str]] = {}
        self._histories: dict[GroupPlural, History] = {}
        self._listeners: list[Callable[[Change], None]] = []
        self._compacted = 0
        self.by_uid: dict[str, Key] = {}
        self.dependents: defaultdict[str, set[Key]] = defaultdict(set)
        """Keys of the objects that have an owner reference to each UID."""
        self._uncontrolled: defaultdict[Place, set[Key]] = defaultdict(set)
        self.version = 0
        if journal:
            self._load(journal)

    def _load(self, journal: Journal) -> None:
        for key, state in journal.read():
            if state.startswith(b"{"):
                obj = from_bytes(state)
                version = int(obj["metadata"]["resourceVersion"])
                head = _head(obj)
                self._place(Entry(key, obj, head, state[len(head) :], version))
            else:
                version = int(state)
                self._displace(key)
            self.version = max(self.version, version)
        self._compacted = self.version

    def listen(self, listener: Callable[[Change], None]) -> None:
        """Register a listener, which is called after each commit and must not write."""
        self._listeners.append(listener)

    def history(self, kind: GroupPlural) -> History:
        """Return the history of a kind."""
        if kind not in self._histories:
            self._histories[kind] = History(self._compacted)
        return self._histories[kind]

    def get(self, key: Key) -> Entry | None:
        """Return the current state of an object, or `None` if it does not exist."""
        return self._objects[key[:2]].get(key[2], {}).get(key[3])

    def find(self, kind: GroupPlural, namespace: str = "") -> list[Entry]:
        """Return the objects of a kind, sorted by namespace and name."""
        places = self._objects[kind]
        return [
            places[place][name]
            for place in ([namespace] if namespace else sorted(places))
            for name in self._names((*kind, place))
        ]

    def _names(self, place: Place) -> list[str]:
        """Return the sorted names in a collection. The result is cached until a name changes."""
        if place not in self._order:
            self._order[place] = sorted(self._objects[place[:2]].get(place[2], {}))
        return self._order[place]

    def owned(self, uid: str) -> list[Entry]:
        """Return the objects whose owner references contain `uid`."""
        found = (self.get(key) for key in sorted(self.dependents.get(uid, ())))
        return [entry for entry in found if entry]

    def uncontrolled(self, kind: GroupPlural, namespace: str) -> list[Entry]:
        """Return the objects in a collection that have no controller."""
        found = (self.get(key) for key in sorted(self._uncontrolled[(*kind, namespace)]))
        return [entry for entry in found if entry]

    def commit(self, key: Key, obj: Manifest) -> Entry:
        """Store `obj` with a new version. The caller must not modify `obj` afterwards."""
        before = self.get(key)
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        entry = entry_of(key, obj, self.version)
        self._place(entry)
        if self._journal:
            self._journal.put(key, entry.json)
        self._publish(Change("MODIFIED" if before else "ADDED", entry, before))
        return entry

    def remove(self, key: Key, obj: Manifest) -> Entry:
        """Delete an object. `obj` is its last state."""
        before = self.get(key)
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        entry = entry_of(key, obj, self.version)
        self._displace(key)
        if self._journal:
            self._journal.remove(key, self.version)
        self._publish(Change("DELETED", entry, before))
        return entry

    def _publish(self, change: Change) -> None:
        self.history(change.entry.key[:2]).append(change)
        for listener in self._listeners:
            with isolated(log, change.entry.key):  # The change is stored already.
                listener(change)
        if self._journal and self._journal.needs_rewrite:
            self._journal.rewrite(self.version, ((e.key, e.json) for e in self.entries()))

    def entries(self) -> list[Entry]:
        """Return all objects, sorted by version."""
        places = (place for places in self._objects.values() for place in places.values())
        entries = (entry for place in places for entry in place.values())
        return sorted(entries, key=lambda entry: entry.version)

    def _place(self, entry: Entry) -> None:
        old = self.get(entry.key)
        if old is None:
            self._order.pop(entry.key[:3], None)
        else:
            self._unlink(old)
        self._objects[entry.key[:2]].setdefault(entry.key[2], {})[entry.key[3]] = entry
        metadata = entry.object["metadata"]
        self.by_uid[metadata["uid"]] = entry.key
        for reference in metadata.get("ownerReferences", ()):
            self.dependents[reference["uid"]].add(entry.key)
        if controller_of(entry.object) is None:
            self._uncontrolled[entry.key[:3]].add(entry.key)

    def _displace(self, key: Key) -> None:
        old = self._objects[key[:2]].get(key[2], {}).pop(key[3], None)
        if old:
            self._order.pop(key[:3], None)
            self._unlink(old)

    def _unlink(self, old: Entry) -> None:
        self._uncontrolled[old.key[:3]].discard(old.key)
        metadata = old.object["metadata"]
        self.by_uid.pop(metadata["uid"], None)
        for reference in metadata.get("ownerReferences", ()):
            keys = self.dependents[reference["uid"]]
            keys.discard(old.key)
            if not keys:
                del self.dependents[reference["uid"]]


def entry_of(key: Key, obj: Manifest, version: int) -> Entry:
    """Return an entry for `obj` without storing the entry."""
    rest = {name: part for name, part in obj.items() if name not in {"kind", "apiVersion"}}
    return Entry(key, obj, _head(obj), to_bytes(rest)[1:], version)


def _head(obj: Manifest) -> bytes:
    return to_bytes({"kind": obj["kind"], "apiVersion": obj["apiVersion"]})[:-1] + b","
