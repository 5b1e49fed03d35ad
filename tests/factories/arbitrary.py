"""Arbitrary values for property tests: content that any client can write, and observations."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from gpuplatform.planning.plan import Absent, Observation, Present, Unknown

KEYS = [
    *("status", "spec", "conditions", "type", "reason", "message", "containerStatuses"),
    *("state", "waiting", "terminated", "replicas", "availableReplicas", "annotations"),
    *("template", "priorityClassName", "nodeSelector", "phase", "labels"),
]
JUNK: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
    max_leaves=12,
)
"""Any JSON value, with the names of fields that planners read."""


def examples(share: float) -> int:
    """Return the number of examples of a property that needs more or fewer than the default."""
    profile = settings.default
    assert profile is not None
    return max(1, round(profile.max_examples * share))


def observation(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Observation[Any]]:
    """Return the observations of an object that may exist."""
    return st.one_of(st.just(Absent()), st.just(Unknown("forbidden")), values.map(Present))


def owned_object(
    base: dict[str, Any], specs: st.SearchStrategy[Any] = JUNK
) -> st.SearchStrategy[dict[str, Any]]:
    """Return objects with the valid metadata of `base`, as from an API server, and any content."""
    return st.builds(
        lambda status, spec, annotations, owners: {
            "metadata": {
                **base["metadata"],
                "annotations": annotations,
                "ownerReferences": owners,
            },
            "status": status,
            "spec": spec,
        },
        JUNK,
        specs,
        JUNK,
        st.sampled_from([base["metadata"]["ownerReferences"], [], None]),
    )
