"""Corrects drift that server-side apply does not correct. Pure.

If another field manager set `valueFrom` of a variable, applying `value` does not remove it, and
the API server rejects a variable with both fields. The same is true in the other direction, and
for two sources in `valueFrom`, two handlers of a probe, and two sources of a volume.
"""

from typing import Any, Final

from gpuplatform.kube.fields import field, items
from gpuplatform.kube.kinds import DEPLOYMENT, Manifest
from gpuplatform.planning.ownership import patch_of
from gpuplatform.planning.plan import Patch

_POD: Final = ("spec", "template", "spec")
_CONTAINERS: Final = (*_POD, "containers")
_VOLUMES: Final = (*_POD, "volumes")
_EITHER: Final = ("value", "valueFrom")
_PROBES: Final = ("readinessProbe", "startupProbe", "livenessProbe")
_HANDLERS: Final = frozenset({"httpGet", "tcpSocket", "exec", "grpc"})


def without_foreign_sources(live: Manifest, wanted: Manifest) -> Patch | None:
    """Return the patch that removes the unwanted field of the platform's variables and probes.

    Return `None` if `live` has no unwanted field. The patch only removes fields, so that the
    platform does not become the owner of other fields.
    """
    ours = {one["name"]: one for one in items(wanted, *_CONTAINERS)}
    present = items(live, *_CONTAINERS)
    corrected = [_container(one, ours.get(field(one, "name"))) for one in present]
    changes = {} if corrected == present else {"containers": corrected}
    mounted = {one["name"]: one for one in items(wanted, *_VOLUMES)}
    volumes = items(live, *_VOLUMES)
    sources = [_volume(one, mounted.get(field(one, "name"))) for one in volumes]
    changes |= {} if sources == volumes else {"volumes": sources}
    return (
        patch_of(DEPLOYMENT, live, {"spec": {"template": {"spec": changes}}}) if changes else None
    )


def _container(container: Any, wanted: Manifest | None) -> Any:
    if wanted is None:
        return container
    return _without(_probed(container, wanted), items(wanted, "env"))


def _probed(container: Manifest, wanted: Manifest) -> Manifest:
    """Return the container without other handlers of the platform's probes."""
    found: Manifest = {}
    for name in _PROBES:
        probe = container.get(name)
        if name in wanted and isinstance(probe, dict):
            others = _HANDLERS - {*wanted[name]}
            found[name] = {key: one for key, one in probe.items() if key not in others}
    return {**container, **found}


def _volume(volume: Any, wanted: Manifest | None) -> Any:
    """Return the volume without another source, if it is a volume of the platform."""
    if wanted is None:
        return volume
    return {key: one for key, one in volume.items() if key in wanted}


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
