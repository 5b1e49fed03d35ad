"""What server-side apply does not put right: a field that is not wanted and is somebody else's.

Applying a variable's value leaves the source that a person gave it with `kubectl`, and the other
way round; the API server refuses a variable that has both. Pure.
"""

from typing import Any, Final

from gpuplatform.kube.fields import field, items
from gpuplatform.kube.kinds import DEPLOYMENT, Manifest
from gpuplatform.planning.ownership import patch_of
from gpuplatform.planning.plan import Patch

_CONTAINERS: Final = ("spec", "template", "spec", "containers")
_EITHER: Final = ("value", "valueFrom")


def without_foreign_sources(live: Manifest, wanted: Manifest) -> Patch | None:
    """Return what takes from our variables in `live` what they are not to have.

    Only removes, so that nobody becomes the owner of anything by it.
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
    """Leave out of a variable of ours the one of the two that it is not to have."""
    if wanted is None:
        return variable
    others = {key for key in _EITHER if key not in wanted}
    return {key: held for key, held in variable.items() if key not in others or not held}
