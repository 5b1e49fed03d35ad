"""Filters watch events before they are enqueued: only changes of planner inputs pass.

One filter for each reflector of the controller.
"""

from collections.abc import Callable
from functools import partial

from gpuplatform.kube.client import Listing
from gpuplatform.kube.kinds import Manifest, ResourceKind
from gpuplatform.workloads.relevance import facts_of, facts_of_resource, is_starting


class EventFilter:
    """Stores a hash of the planner inputs of each object of one kind, since the last list."""

    def __init__(
        self, facts: Callable[[Manifest], str], is_pending: Callable[[Manifest], bool]
    ) -> None:
        """`facts` returns the planner inputs; a new object that `is_pending` does not pass."""
        self._facts = facts
        self._is_pending = is_pending
        self._known: dict[str, int] = {}

    @classmethod
    def of_resources(cls) -> "EventFilter":
        """Return the filter of a custom resource of the platform."""
        return cls(facts_of_resource, lambda _: False)

    @classmethod
    def of_children(cls, kind: ResourceKind) -> "EventFilter":
        """Return the filter of objects of that kind that custom resources own."""
        return cls(partial(facts_of, kind), partial(is_starting, kind))

    def reset(self, listing: Listing) -> None:
        """Replace the stored hashes by those of a complete list."""
        self._known = {one["metadata"]["uid"]: hash(self._facts(one)) for one in listing.items}

    def is_relevant(self, type_: str, item: Manifest) -> bool:
        """Return whether the event changes a planner input, and store the new state."""
        uid = item["metadata"]["uid"]
        if type_ == "DELETED":
            self._known.pop(uid, None)
            return True
        facts = hash(self._facts(item))
        before = self._known.get(uid)
        self._known[uid] = facts
        if before is None:
            return type_ != "ADDED" or not self._is_pending(item)
        return before != facts
