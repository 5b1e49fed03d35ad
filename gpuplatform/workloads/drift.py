"""Corrects drift of environment variables that server-side apply does not correct. Pure.

If another field manager set `valueFrom` of a variable, applying `value` does not remove it, and
the API server rejects a variable with both fields. The same is true in the other direction, and
for two sources in `valueFrom`.
"""

from typing import Any, Final

from gpuplatform.kube.fields import field, items
from gpuplatform.kube.kinds import DEPLOYMENT, Manifest
from gpuplatform.planning.ownership import patch_of
from gpuplatform.planning.plan import Patch

_CONTAINERS: Final = ("spec", "template", "spec", "containers")
_EITHER: Final = ("value", "valueFrom")


def without_foreign_sources(live: Manifest, wanted: Manifest) -> Patch | None:
    """Return the patch that removes the unwanted field of the platform's variables.

    Return `None` if `live` has no unwanted field. The patch only removes fields, so that the
    platform does not become the owner of other fields.
    """
    ours = {one["name"]: one for one in items(wanted, *_CONTAINERS)}
    present = items(live, *_CONTAINERS)
    corrected = [_without(one, items(ours.get(field(one, "name")), "env")) for one in present]
    if corrected == present:
        return None
    pod_spec = {"containers": corrected}
    return patch_of(DEPLOYMENT, live, {"spec": {"template": {"spec": pod_spec}}})


def _without(container: Any, variables: list[Manifest]) -> Any:
    wanted = {one["name"]: one for one in variables}
    env = items(container, "env")
    corrected = [_only_wanted(one, wanted.get(field(one, "name"))) for one in env]
    return container if corrected == env else {**container, "env": corrected}


def _only_wanted(variable: Any, wanted: Manifest | None) -> Any:
    """Return the variable without `value` or `valueFrom`, if the platform does not set it."""
    if wanted is None:
        return variable
    others = {key for key in _EITHER if key not in wanted}
    kept = {key: held for key, held in variable.items() if key not in others or not held}
    sources, held = wanted.get("valueFrom"), kept.pop("valueFrom", None)
    if sources and isinstance(held, dict):
        held = {key: one for key, one in held.items() if key in sources}
    return {**kept, "valueFrom": held} if held else kept
