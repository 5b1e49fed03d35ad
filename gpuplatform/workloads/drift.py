"""Drift that server-side apply does not correct: unwanted fields of another field manager.

Applying a variable's value keeps the source that a person set with `kubectl`, and vice versa; the
API server rejects a variable that has both. Pure.
"""

from typing import Any, Final

from gpuplatform.kube.fields import field, items
from gpuplatform.kube.kinds import DEPLOYMENT, Manifest
from gpuplatform.planning.ownership import patch_of
from gpuplatform.planning.plan import Patch

_CONTAINERS: Final = ("spec", "template", "spec", "containers")
_EITHER: Final = ("value", "valueFrom")


def without_foreign_sources(live: Manifest, wanted: Manifest) -> Patch | None:
    """Return the patch that removes unwanted sources of the platform's variables from `live`.

    It only removes fields, so that it changes no field ownership.
    """
    ours = {one["name"]: one for one in items(wanted, *_CONTAINERS)}
    present = items(live, *_CONTAINERS)
    left = [_without(one, items(ours.get(field(one, "name")), "env")) for one in present]
    if left == present:
        return None
    return patch_of(DEPLOYMENT, live, {"spec": {"template": {"spec": {"containers": left}}}})


def _without(container: Any, variables: list[Manifest]) -> Any:
    wanted = {one["name"]: one for one in variables}
    env = items(container, "env")
    left = [_only_wanted(one, wanted.get(field(one, "name"))) for one in env]
    return container if left == env else {**container, "env": left}


def _only_wanted(variable: Any, wanted: Manifest | None) -> Any:
    """Remove value or source from a variable of the platform, whichever is not wanted."""
    if wanted is None:
        return variable
    others = {key for key in _EITHER if key not in wanted}
    return {key: held for key, held in variable.items() if key not in others or not held}
