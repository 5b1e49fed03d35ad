"""Where the GPU of a unit comes from: the stock unit that it names as its source. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from gpuplatform.kube.fields import field
from gpuplatform.kube.kinds import Manifest
from units.core.names import (
    SOURCE_NAME_ANNOTATION,
    SOURCE_NAMESPACE_ANNOTATION,
    SOURCE_UID_ANNOTATION,
)
from units.phases import STOCK_NAMESPACE

_NAME_MAX = 253
_UID_MAX = 36


@dataclass(frozen=True, slots=True)
class NoSource:
    """The unit names no stock unit: it was created with kubectl, or is stock itself."""


@dataclass(frozen=True, slots=True)
class SourcePending:
    """The row of the source has no consumer yet, neither this unit nor another."""


@dataclass(frozen=True, slots=True)
class SourceHeld:
    """The row says consumed by this unit's UID; objects of the stock exist or are unread."""

    why: str
    """What, as a clause for a person: `its pods still exist`."""


@dataclass(frozen=True, slots=True)
class SourceGone:
    """Consumed by this unit's UID; resource, Deployment, ReplicaSets and pods observed absent."""

    may_preempt: bool
    """Whether the unit may evict others for the GPU that its stock held."""
    is_first_seen: bool = False
    """Whether this was observed for the first time, and nothing else has the stock unit's name."""


@dataclass(frozen=True, slots=True)
class SourceLost:
    """The row is consumed by another unit, or missing: the unit starts as without a source."""


@dataclass(frozen=True, slots=True)
class SourceUnread:
    """The unit runs already, with the priority of its start: the source changes nothing."""


Source: TypeAlias = NoSource | SourcePending | SourceHeld | SourceGone | SourceLost | SourceUnread


@dataclass(frozen=True, slots=True)
class SourceReference:
    """The stock unit that a unit names as its source."""

    name: str
    uid: str

    def annotations(self) -> dict[str, str]:
        """Return the annotations of a unit with this source."""
        return {
            SOURCE_NAME_ANNOTATION: self.name,
            SOURCE_NAMESPACE_ANNOTATION: STOCK_NAMESPACE,
            SOURCE_UID_ANNOTATION: self.uid,
        }


def source_of(unit: Manifest) -> SourceReference | None:
    """Return the source that the resource of a unit names; None where it names no possible one."""
    found = field(unit, "metadata", "annotations")
    return source_in(found if isinstance(found, dict) else {})


def source_in(annotations: Mapping[str, object]) -> SourceReference | None:
    """Return the source that annotations name; None where they name no possible one.

    Every client may write annotations; a value that no row can hold counts as no source.
    """
    name, uid = annotations.get(SOURCE_NAME_ANNOTATION), annotations.get(SOURCE_UID_ANNOTATION)
    is_valid = (
        isinstance(name, str)
        and isinstance(uid, str)
        and 0 < len(name) <= _NAME_MAX
        and 0 < len(uid) <= _UID_MAX
        and (name + uid).isprintable()
        and annotations.get(SOURCE_NAMESPACE_ANNOTATION) == STOCK_NAMESPACE
    )
    return SourceReference(str(name), str(uid)) if is_valid else None
