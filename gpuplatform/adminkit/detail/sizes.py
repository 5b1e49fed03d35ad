"""Comparison of the desired image and sizes with the image and sizes of the pod or Deployment.

The mirror does not store the actual values, so they are part of the live data. A value that
cannot be read is unknown, not empty.
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
from gpuplatform.workloads.resources import resource_in

UNKNOWN: Final = "unknown"
MISSING: Final = "not found"
PLACEHOLDER_IMAGE: Final = "placeholder image"


@dataclass(frozen=True, slots=True)
class ActualSizes:
    """The comparison of the desired and the actual image and sizes."""

    lines: Sequence[Comparison]
    source: str
    """The object from which the actual values were read."""


def actual_sizes(found: Inspection) -> ActualSizes | None:
    """Return the comparison of the sizes, or `None` if the resource was not found."""
    spec = field(found.resource, "spec")
    if not isinstance(spec, dict):
        return None
    pods = [pod for pod in found.pods if not field(pod, "metadata", "deletionTimestamp")]
    if pods:
        named = shortened(str(field(pods[0], "metadata", "name")))
        return ActualSizes(list(_lines(spec, field(pods[0], "spec"))), f"in pod {named}")
    if found.deployment is not None:
        template = field(found.deployment, "spec", "template", "spec")
        return ActualSizes(list(_lines(spec, template)), "in the Deployment, which has no pods")
    if found.job is not None:
        template = field(found.job, "spec", "template", "spec")
        return ActualSizes(list(_lines(spec, template)), "in the Job, which has no pods")
    missing, is_unknown = (UNKNOWN, True) if found.faults else (MISSING, False)
    lines = [
        Comparison(label, _desired_text(label, desired), missing, is_equal=is_unknown)
        for label, desired in _desired(spec)
    ]
    return ActualSizes(lines, "")


def _lines(spec: Manifest, pod: object) -> Iterator[Comparison]:
    container = _main(pod, spec)
    amounts = _limits(container)
    named = {"CPU": "cpu", "Memory": "memory", "GPUs": resource_in(spec)}
    for label, desired in _desired(spec):
        actual = amounts.get(named.get(label, label))
        found = field(container, "image") if label == "Image" else actual
        yield _line(label, desired, str(found or ""))


def _desired(spec: Manifest) -> Iterator[tuple[str, str]]:
    """Yield the label and the value of each size. Further resources have their name as label."""
    for label, key in (("Image", "image"), ("CPU", "cpu"), ("Memory", "memory"), ("GPUs", "gpu")):
        yield label, str(field(spec, key) or "")
    further = field(spec, "resources")
    for name, amount in further.items() if isinstance(further, dict) else ():
        yield visible(str(name)), str(amount)


def _line(label: str, desired: str, actual: str) -> Comparison:
    """Return the comparison of two values. A spec without an image gets the placeholder image."""
    text = _desired_text(label, desired)
    is_equal = text == PLACEHOLDER_IMAGE or _value(desired) == _value(actual)
    return Comparison(label, text, _text(actual or "none"), is_equal=is_equal)


def _desired_text(label: str, desired: str) -> str:
    return _text(desired or (PLACEHOLDER_IMAGE if label == "Image" else "none"))


def _value(text: str) -> str:
    try:
        return canonical(text)
    except ValueError:
        return text


def _text(value: str) -> str:
    return visible(shortened(value, 512))


def _main(pod: object, spec: Manifest) -> Manifest:
    """Return the container that has the GPUs; a pod can also contain a sidecar."""
    containers = items(pod, "containers")
    with_gpu = (one for one in containers if resource_in(spec) in _limits(one))
    first: Manifest = containers[0] if containers else {}
    return next(with_gpu, first)


def _limits(container: object) -> Manifest:
    found = field(container, "resources", "limits")
    return found if isinstance(found, dict) else {}
