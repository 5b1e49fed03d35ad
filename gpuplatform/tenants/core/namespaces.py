"""Plans the Namespace of a tenant, and reads a tenant from its Namespace. Pure.

A namespace belongs to a tenant if it has the label of the tenant and the UID that the row of the
tenant records. The annotations have the settings of the tenant, so that `recover` can restore it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from gpuplatform.deployment.installation import pod_security_labels
from gpuplatform.formats.names import DNS_LABEL, LABEL_MAX
from gpuplatform.kube.fields import field
from gpuplatform.kube.kinds import GROUP, NAMESPACE, Manifest
from gpuplatform.planning.ownership import MANAGED_BY_LABEL, MANAGER
from gpuplatform.tenancy.phases import (
    MAX_DISPLAY_NAME,
    MAX_WEIGHT,
    NamespaceOrigin,
    TenantPhase,
)
from gpuplatform.workloads.labels import TENANT_LABEL

DISPLAY_NAME: Final = f"{GROUP}/display-name"
WEIGHT: Final = f"{GROUP}/weight"
MAX_PRIORITY: Final = f"{GROUP}/max-priority"
SUSPENDED: Final = f"{GROUP}/suspended"
ORIGIN: Final = f"{GROUP}/namespace-origin"
ANNOTATIONS: Final = (DISPLAY_NAME, WEIGHT, MAX_PRIORITY, SUSPENDED, ORIGIN)
"""The annotations of the namespace of a tenant."""

_LARGEST_PRIORITY: Final = 100


@dataclass(frozen=True, slots=True)
class TenantView:
    """The settings of a tenant that its namespace has."""

    name: str
    namespace: str
    origin: NamespaceOrigin
    uid: str = ""
    """The recorded UID of the namespace, or an empty string before the first success."""
    display_name: str = ""
    weight: int = 1
    max_priority: int = 0
    is_suspended: bool = False

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the namespace. An adopted namespace is not managed by the platform."""
        managed = {MANAGED_BY_LABEL: MANAGER} if self.origin == NamespaceOrigin.CREATED else {}
        return {**managed, TENANT_LABEL: self.name}

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations of the namespace."""
        return {
            DISPLAY_NAME: self.display_name,
            WEIGHT: str(self.weight),
            MAX_PRIORITY: str(self.max_priority),
            SUSPENDED: str(self.is_suspended).lower(),
            ORIGIN: self.origin.value,
        }


@dataclass(frozen=True, slots=True)
class Create:
    """The namespace has to be created."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Change:
    """The namespace has to be patched; `patch` names its UID and resource version."""

    patch: Manifest


@dataclass(frozen=True, slots=True)
class Keep:
    """The namespace has the settings of the tenant, or the platform does not manage it."""


@dataclass(frozen=True, slots=True)
class Wait:
    """The namespace is being deleted."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """The namespace cannot be the namespace of the tenant."""

    code: str
    message: str


Step: TypeAlias = Create | Change | Keep | Wait | Conflict


def plan_namespace(tenant: TenantView, found: Manifest | None) -> Step:
    """Return the next step for the namespace of a tenant; `found` is the namespace, if it exists.

    A namespace that the platform did not create is only used if an operator adopted it.
    """
    if tenant.origin == NamespaceOrigin.EXTERNAL:
        return Keep()
    if found is None:
        return _missing(tenant)
    metadata = found["metadata"]
    if metadata.get("deletionTimestamp"):
        return Wait()
    if tenant.uid and metadata["uid"] != tenant.uid:
        return Conflict("name_conflict", _REPLACED.format(tenant.namespace))
    if not tenant.uid and (conflict := _not_usable(tenant, found)):
        return conflict
    return _change(tenant, found)


def is_of(tenant: TenantView, found: Manifest) -> bool:
    """Return whether `found` is the namespace of the tenant, by its label and UID."""
    return found["metadata"]["uid"] == tenant.uid and _label(found) == tenant.name


def released(found: Manifest) -> Manifest:
    """Return the patch that removes the label and the annotations from an adopted namespace."""
    metadata = found["metadata"]
    return {
        "metadata": {
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
            "labels": {TENANT_LABEL: None},
            "annotations": dict.fromkeys(ANNOTATIONS),
        }
    }


def tenant_in(namespace: Manifest) -> TenantView | None:
    """Return the tenant of a namespace, or `None` if it is not the namespace of a tenant.

    Values that another client wrote and that are not valid are replaced by the defaults.
    """
    metadata = namespace["metadata"]
    marks = _texts(field(namespace, "metadata", "annotations"))
    name, origin = _label(namespace), marks.get(ORIGIN, "")
    is_valid = len(name) <= LABEL_MAX and re.fullmatch(DNS_LABEL, name)
    if not is_valid or origin not in {NamespaceOrigin.CREATED, NamespaceOrigin.ADOPTED}:
        return None
    return TenantView(
        name=name,
        namespace=metadata["name"],
        origin=NamespaceOrigin(origin),
        uid=metadata["uid"],
        display_name=marks.get(DISPLAY_NAME, "")[:MAX_DISPLAY_NAME],
        weight=_between(marks.get(WEIGHT, ""), 1, MAX_WEIGHT),
        max_priority=_between(marks.get(MAX_PRIORITY, ""), 0, _LARGEST_PRIORITY),
        is_suspended=marks.get(SUSPENDED) == "true",
    )


def phase_of(tenant: TenantView) -> TenantPhase:
    """Return the phase of a tenant that was read from its namespace."""
    return TenantPhase.SUSPENDED if tenant.is_suspended else TenantPhase.ACTIVE


_REPLACED: Final = (
    "The namespace '{}' was deleted and created again outside of the platform. Restore the"
    " namespace, or create another tenant."
)


def _missing(tenant: TenantView) -> Step:
    if tenant.uid:
        msg = (
            f"The namespace '{tenant.namespace}' was deleted outside of the platform. Delete the"
            " tenant, or run the recovery."
        )
        return Conflict("not_found", msg)
    if tenant.origin == NamespaceOrigin.ADOPTED:
        msg = (
            f"The namespace '{tenant.namespace}' does not exist. Create it first, or omit"
            " `adoptNamespace`."
        )
        return Conflict("not_found", msg)
    metadata = {
        "name": tenant.namespace,
        "labels": {**tenant.labels, **pod_security_labels()},
        "annotations": tenant.annotations,
    }
    kind = {"apiVersion": NAMESPACE.api_version, "kind": NAMESPACE.kind}
    return Create({**kind, "metadata": metadata})


def _not_usable(tenant: TenantView, found: Manifest) -> Conflict | None:
    """Return the conflict if a namespace without a recorded UID cannot be used."""
    owner = _label(found)
    if owner and owner != tenant.name:
        msg = f"The namespace '{tenant.namespace}' belongs to the tenant '{owner}'."
        return Conflict("name_conflict", msg)
    if tenant.origin == NamespaceOrigin.ADOPTED:
        return None
    labels = _texts(field(found, "metadata", "labels"))
    marks = _texts(field(found, "metadata", "annotations"))
    # An earlier attempt to create this tenant created the namespace.
    if owner and labels.get(MANAGED_BY_LABEL) == MANAGER and marks.get(ORIGIN) == tenant.origin:
        return None
    msg = (
        f"The namespace '{tenant.namespace}' exists, and the platform did not create it. Choose"
        " another namespace, or confirm with `adoptNamespace` that the tenant gets this one."
    )
    return Conflict("name_conflict", msg)


def _change(tenant: TenantView, found: Manifest) -> Step:
    metadata = found["metadata"]
    labels = _texts(field(found, "metadata", "labels"))
    security = pod_security_labels()
    if tenant.origin == NamespaceOrigin.ADOPTED:
        # The operator may enforce a stricter level.
        security = {key: value for key, value in security.items() if key not in labels}
    changes = {
        "labels": _differing({**tenant.labels, **security}, labels),
        "annotations": _differing(
            tenant.annotations, _texts(field(found, "metadata", "annotations"))
        ),
    }
    if not any(changes.values()):
        return Keep()
    guards = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    return Change({"metadata": {**guards, **changes}})


def _differing(wanted: Mapping[str, str], present: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in wanted.items() if present.get(key) != value}


def _label(namespace: Manifest) -> str:
    return _texts(field(namespace, "metadata", "labels")).get(TENANT_LABEL, "")


def _texts(value: Any) -> dict[str, str]:
    return {str(key): str(text) for key, text in value.items()} if isinstance(value, dict) else {}


def _between(text: str, least: int, most: int) -> int:
    is_number = text.isdecimal() and text.isascii() and len(text) < 4
    return min(max(int(text), least), most) if is_number else least
