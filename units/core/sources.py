"""The hand-over source of a unit: the stock unit whose GPUs the unit consumes. Pure."""

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
    """The absence of a source: the unit was created with kubectl or is a stock unit."""


@dataclass(frozen=True, slots=True)
class SourcePending:
    """A source that no unit has consumed yet."""


@dataclass(frozen=True, slots=True)
class SourceHeld:
    """A source that this unit consumed, and that may hold its GPUs or could not be read."""

    remains: str
    """What remains of the source, as a human-readable clause such as `its pods still run`."""


@dataclass(frozen=True, slots=True)
class SourceGone:
    """A source that this unit consumed: it is deleted, and its pods have ended."""

    may_preempt: bool
    """Whether the unit may preempt other pods to get the GPUs that the source held."""
    is_first_seen: bool = False
    """Whether this was observed for the first time and no other resource has the source's name."""


@dataclass(frozen=True, slots=True)
class SourceLost:
    """A source that is unknown or that another unit consumed. The unit starts without it."""


@dataclass(frozen=True, slots=True)
class SourceUnread:
    """A source that was not read, because the unit is already running."""


Source: TypeAlias = NoSource | SourcePending | SourceHeld | SourceGone | SourceLost | SourceUnread


@dataclass(frozen=True, slots=True)
class SourceReference:
    """The name and the UID of the stock unit that a unit names as its source."""

    name: str
    uid: str

    def annotations(self) -> dict[str, str]:
        """Return the annotations that name this source."""
        return {
            SOURCE_NAME_ANNOTATION: self.name,
            SOURCE_NAMESPACE_ANNOTATION: STOCK_NAMESPACE,
            SOURCE_UID_ANNOTATION: self.uid,
        }


def source_of(unit: Manifest) -> SourceReference | None:
    """Return the source that a unit names, or `None` if it names no valid source."""
    found = field(unit, "metadata", "annotations")
    return source_in(found if isinstance(found, dict) else {})


def source_in(annotations: Mapping[str, object]) -> SourceReference | None:
    """Return the source that annotations name, or `None` if they name no valid source.

    Any client can write annotations. A value that does not fit into the columns is not valid.
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
