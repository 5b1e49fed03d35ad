"""Image and size of what really runs, beside what is wanted: read from the pod or its Deployment.

The mirror has neither, so this is a part of what the cluster is asked for. What could not be read
is said to be unknown, never to be nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from gpuplatform.adminkit.detail.panels import Comparison
from gpuplatform.adminkit.display.text import shortened, visible
from gpuplatform.formats.quantity import canonical
from gpuplatform.kube.fields import field, items
from gpuplatform.kube.kinds import Manifest
from gpuplatform.reconciliation.inspection import Inspection

UNKNOWN: Final = "not known"
NONE_THERE: Final = "nothing there"
OWN_IMAGE: Final = "the platform's own"
_GPU: Final = "/gpu"
"""How the name of the resource ends, whoever makes the GPUs."""


@dataclass(frozen=True, slots=True)
class Running:
    """Image and size, wanted and seen, and where they were seen."""

    lines: Sequence[Comparison]
    seen_in: str


def running(found: Inspection) -> Running | None:
    """Return what runs beside what the resource wants; None without the resource."""
    spec = field(found.resource, "spec")
    if not isinstance(spec, dict):
        return None
    pods = [pod for pod in found.pods if not field(pod, "metadata", "deletionTimestamp")]
    if pods:
        named = shortened(str(field(pods[0], "metadata", "name")))
        return Running(list(_lines(spec, field(pods[0], "spec"))), f"in the pod {named}")
    if found.deployment is not None:
        template = field(found.deployment, "spec", "template", "spec")
        return Running(list(_lines(spec, template)), "in the Deployment; there is no pod")
    missing, is_unknown = (UNKNOWN, True) if found.faults else (NONE_THERE, False)
    lines = [
        Comparison(label, _shown(label, wanted), missing, is_within=is_unknown)
        for label, wanted in _wanted(spec)
    ]
    return Running(lines, "")


def _lines(spec: Manifest, pod: object) -> Iterator[Comparison]:
    container = _main(pod)
    amounts = _limits(container)
    gpus = [str(amount) for name, amount in amounts.items() if _is_gpu(name)]
    seen = {
        "Image": str(field(container, "image") or ""),
        "CPU": str(amounts.get("cpu") or ""),
        "Memory": str(amounts.get("memory") or ""),
        "GPUs": gpus[0] if gpus else "",
    }
    for label, wanted in _wanted(spec):
        yield _line(label, wanted, seen[label])


def _wanted(spec: Manifest) -> Iterator[tuple[str, str]]:
    for label, key in (("Image", "image"), ("CPU", "cpu"), ("Memory", "memory"), ("GPUs", "gpu")):
        yield label, str(field(spec, key) or "")


def _line(label: str, wanted: str, seen: str) -> Comparison:
    """Compare amounts by their value; whoever asks for no image gets the platform's own."""
    shown = _shown(label, wanted)
    is_equal = shown == OWN_IMAGE or _value(wanted) == _value(seen)
    return Comparison(label, shown, _text(seen or "none"), is_within=is_equal)


def _shown(label: str, wanted: str) -> str:
    return _text(wanted or (OWN_IMAGE if label == "Image" else "none"))


def _value(text: str) -> str:
    try:
        return canonical(text)
    except ValueError:
        return text


def _text(value: str) -> str:
    return visible(shortened(value, 512))


def _main(pod: object) -> Manifest:
    """Return the container that has the GPUs, beside which a sidecar may stand."""
    containers = items(pod, "containers")
    with_gpu = (one for one in containers if any(map(_is_gpu, _limits(one))))
    first: Manifest = containers[0] if containers else {}
    return next(with_gpu, first)


def _is_gpu(name: object) -> bool:
    return str(name).endswith(_GPU)


def _limits(container: object) -> Manifest:
    found = field(container, "resources", "limits")
    return found if isinstance(found, dict) else {}
