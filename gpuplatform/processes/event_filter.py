"""Which events are told on to the reconcilers: those that change what a planner goes by.

Part of the composition root; one for each reflector of the controller.
"""

from collections.abc import Callable
from functools import partial

from gpuplatform.kube.client import Listing
from gpuplatform.kube.kinds import Manifest, ResourceKind
from gpuplatform.workloads.relevance import facts_of, facts_of_resource, is_starting


class EventFilter:
    """Remembers a number for each object of one kind, from the last list on."""

    def __init__(
        self, facts: Callable[[Manifest], str], is_silent: Callable[[Manifest], bool]
    ) -> None:
        """`is_silent` says of a new object whether it has nothing to tell yet."""
        self._of = facts
        self._is_silent = is_silent
        self._known: dict[str, int] = {}

    @classmethod
    def of_resources(cls) -> "EventFilter":
        """Return what follows resources of ours."""
        return cls(facts_of_resource, lambda _: False)

    @classmethod
    def of_children(cls, kind: ResourceKind) -> "EventFilter":
        """Return what follows objects of that kind that resources of ours own."""
        return cls(partial(facts_of, kind), partial(is_starting, kind))

    def reset(self, listing: Listing) -> None:
        """Take a complete list as what is known."""
        self._known = {one["metadata"]["uid"]: hash(self._of(one)) for one in listing.items}

    def is_relevant(self, type_: str, item: Manifest) -> bool:
        """Say whether this event has news, and remember what it says."""
        uid = item["metadata"]["uid"]
        if type_ == "DELETED":
            self._known.pop(uid, None)
            return True
        facts = hash(self._of(item))
        before = self._known.get(uid)
        self._known[uid] = facts
        if before is None:
            return type_ != "ADDED" or not self._is_silent(item)
        return before != facts
