"""Filters watch events, so that only changes of planner inputs are enqueued.

Each reflector of the controller has a filter.
"""

from collections.abc import Callable
from functools import partial

from gpuplatform.kube.client import Listing
from gpuplatform.kube.kinds import Manifest, ResourceKind
from gpuplatform.workloads.relevance import facts_of, facts_of_resource, is_starting


class EventFilter:
    """The filter of one kind, which stores a hash of the planner inputs of each object."""

    def __init__(
        self, facts: Callable[[Manifest], str], is_pending: Callable[[Manifest], bool]
    ) -> None:
        """Create an empty filter.

        Args:
            facts: Returns the planner inputs of an object as text.
            is_pending: Returns whether a new object has no relevant state yet.
        """
        self._facts = facts
        self._is_pending = is_pending
        self._known: dict[str, int] = {}

    @classmethod
    def of_resources(cls) -> "EventFilter":
        """Return a filter for custom resources."""
        return cls(facts_of_resource, lambda _: False)

    @classmethod
    def of_children(cls, kind: ResourceKind) -> "EventFilter":
        """Return a filter for owned objects of the kind."""
        return cls(partial(facts_of, kind), partial(is_starting, kind))

    def reset(self, listing: Listing) -> None:
        """Replace the stored hashes with the hashes of a complete list."""
        self._known = {one["metadata"]["uid"]: hash(self._facts(one)) for one in listing.items}

    def is_relevant(self, type_: str, item: Manifest) -> bool:
        """Return whether the event changes a planner input, and store the new hash."""
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
