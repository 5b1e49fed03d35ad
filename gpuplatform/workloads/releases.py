"""The version of a pod template, so that a new release does not restart running pods. Pure."""

import hashlib
import json
import re
from typing import Final

from gpuplatform.kube.fields import field
from gpuplatform.kube.kinds import GROUP, Manifest

TEMPLATE_VERSION: Final = 4
"""A release that changes the pods of an unchanged spec must increment the version. Running pods
keep their template until their spec changes."""

TEMPLATE_VERSION_ANNOTATION: Final = f"{GROUP}/template-version"
SPEC_HASH_ANNOTATION: Final = f"{GROUP}/spec-hash"


def template_hash(payload: Manifest) -> str:
    """Return the hash of the fields of a spec that affect the pod template."""
    canonical = json.dumps(payload, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def template_annotations(spec_hash: str) -> dict[str, str]:
    """Return the annotations of a Deployment with the template of this release."""
    return {
        SPEC_HASH_ANNOTATION: spec_hash,
        TEMPLATE_VERSION_ANNOTATION: str(TEMPLATE_VERSION),
    }


def keeps_its_template(live: Manifest, wanted: Manifest) -> bool:
    """Return whether the Deployment keeps the pod template of another release.

    It keeps an older template if the spec is unchanged, and it always keeps a newer template.
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
