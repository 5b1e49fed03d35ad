"""The version of a pod template, so that no new release and no setting restarts pods. Pure."""

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
SETTINGS_HASH_ANNOTATION: Final = f"{GROUP}/settings-hash"


def template_hash(payload: Manifest) -> str:
    """Return the hash of the fields of a spec that affect the pod template."""
    canonical = json.dumps(payload, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def template_annotations(spec_hash: str, settings_hash: str) -> dict[str, str]:
    """Return the annotations of a Deployment with the template of this release."""
    return {
        SPEC_HASH_ANNOTATION: spec_hash,
        SETTINGS_HASH_ANNOTATION: settings_hash,
        TEMPLATE_VERSION_ANNOTATION: str(TEMPLATE_VERSION),
    }


def keeps_its_template(live: Manifest, wanted: Manifest) -> bool:
    """Return whether the Deployment keeps the pod template of another release or other settings.

    It keeps such a template if the spec is unchanged, and it always keeps a newer template.
    """
    annotations = ("metadata", "annotations")
    version = str(field(live, *annotations, TEMPLATE_VERSION_ANNOTATION))
    if not re.fullmatch("[0-9]{1,9}", version):
        return False

    def is_same(annotation: str) -> bool:
        known: object = field(live, *annotations, annotation)
        return bool(known == wanted["metadata"]["annotations"][annotation])

    if int(version) == TEMPLATE_VERSION and is_same(SETTINGS_HASH_ANNOTATION):
        return False
    return is_same(SPEC_HASH_ANNOTATION) or int(version) > TEMPLATE_VERSION
