"""Which release's pod template a Deployment has: a new release restarts no running pod. Pure."""

import hashlib
import json
import re
from typing import Final

from gpuplatform.kube.fields import field
from gpuplatform.kube.kinds import GROUP, Manifest

TEMPLATE_VERSION: Final = 3
"""Incremented by a release that changes the pods of an unchanged spec. Running pods keep the older
template until their spec changes."""

TEMPLATE_VERSION_ANNOTATION: Final = f"{GROUP}/template-version"
SPEC_HASH_ANNOTATION: Final = f"{GROUP}/spec-hash"


def template_hash(payload: Manifest) -> str:
    """Return a fingerprint of the part of a spec that the pod template depends on."""
    canonical = json.dumps(payload, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def template_annotations(spec_hash: str) -> dict[str, str]:
    """Return the annotations of a Deployment that this release creates."""
    return {
        SPEC_HASH_ANNOTATION: spec_hash,
        TEMPLATE_VERSION_ANNOTATION: str(TEMPLATE_VERSION),
    }


def keeps_its_template(live: Manifest, wanted: Manifest) -> bool:
    """Return whether the pods of another release stay.

    Pods of an older release stay while the spec is the same, pods of a newer one always.
    """
    annotations = ("metadata", "annotations")
    version = str(field(live, *annotations, TEMPLATE_VERSION_ANNOTATION))
    if not re.fullmatch("[0-9]{1,9}", version) or int(version) == TEMPLATE_VERSION:
        return False
    is_same_spec = (
        field(live, *annotations, SPEC_HASH_ANNOTATION)
        == wanted["metadata"]["annotations"][SPEC_HASH_ANNOTATION]
    )
    return is_same_spec or int(version) > TEMPLATE_VERSION
