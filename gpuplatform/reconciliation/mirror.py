"""The mirror, which copies custom resources to their rows. An app declares a `Mirror` of its kind.

A newer copy is never replaced by an older one. The mirror does not delete: if a resource is absent
from a list, its row is marked due, and the reconciler reads the resource again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Generic, TypeVar

from django.db import transaction
from django.db.models import Case, F, Manager, QuerySet, Value, When
from django.db.models.functions import Coalesce, Now

from gpuplatform.kube.client import Listing
from gpuplatform.kube.fields import condition, field, items, number
from gpuplatform.kube.kinds import Manifest
from gpuplatform.planning.plan import StatusSummary
from gpuplatform.reconciliation.leases import mark_changed
from gpuplatform.reconciliation.models import MirrorRow
from gpuplatform.workloads.startup import known_cause

RowT = TypeVar("RowT", bound=MirrorRow)

TERMINATING: Final = "Terminating"
"""The phase of a resource of any kind that is being deleted."""
PENDING: Final = "Pending"
"""The phase of a resource of any kind whose status has no phase yet."""
FAILED: Final = "Failed"
"""The phase that requires a reason in the database."""

_HIGHEST_COUNT: Final = 2**31 - 1
"""The maximum value of an integer column."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the phase or the reason of a row."""

    row_id: int
    phase_before: str
    """The previous phase, or an empty string if the row is new."""
    observed_before: int
    """The observed generation of the previous status."""
    resource: Manifest
    """The copied resource."""
    summary: StatusSummary


@dataclass(frozen=True, slots=True)
class Mirror(Generic[RowT]):
    """The mirror of one kind of resource."""

    model: type[RowT]
    phases: Sequence[str]
    """The phases of the kind. A status with another phase counts as `Pending`."""
    columns: Callable[[Manifest], dict[str, Any]]
    """Returns the values of the columns that only this kind has, from storable JSON."""
    discovered: Callable[[Manifest], Mapping[str, Any] | None]
    """Returns the other columns of a new row, or `None` if an operation creates the row itself."""
    changed: Callable[[Change], None] | None = None
    """Called in the transaction of the copy if the phase or the reason of a row changes."""

    def observed(self, resource: Manifest, *, mark_due: bool = True) -> int | None:
        """Copy a resource, and mark its row due.

        Pass `mark_due=False` if only the status that the planner wrote has changed. A new row is
        due in any case.

        Returns:
            The id of the row if it needs a message, otherwise `None`.
        """
        rows = self._rows().filter(uid=resource["metadata"]["uid"])
        known = rows.values_list("deleted_at", "resource_version").first()
        if known is None:
            further = self.discovered(resource)
            return None if further is None else self.adopted(resource, further)
        deleted_at, version = known
        is_newer = deleted_at is None and version < _version(resource)
        if is_newer and self.recorded(rows, resource) and mark_due:
            return next(iter(mark_changed(rows)), None)
        return None

    def listed(self, listing: Listing) -> list[int]:
        """Copy a complete list. Return the ids of the rows that need a message.

        A row whose resource is absent from the list is marked due, unless the list is older than
        the row.
        """
        seen = [resource["metadata"]["uid"] for resource in listing.items]
        versions = dict(self._rows().filter(uid__in=seen).values_list("uid", "resource_version"))
        due = [
            self.observed(resource)
            for resource in listing.items
            if versions.get(resource["metadata"]["uid"], -1) < _version(resource)
        ]
        missing = (
            self._rows()
            .filter(
                deleted_at__isnull=True,
                resource_version__lte=version_number(listing.resource_version),
            )
            .exclude(uid="")
            .exclude(uid__in=seen)
        )
        return [row for row in due if row is not None] + mark_changed(missing)

    def marked(self, namespace: str, name: str) -> list[int]:
        """Mark the row due because an object that the resource owns has changed.

        Return the id of the row if it needs a message.
        """
        rows = self._rows().filter(namespace=namespace, name=name, deleted_at__isnull=True)
        return mark_changed(rows.exclude(uid=""))

    def recorded(self, rows: QuerySet[RowT], resource: Manifest) -> int:
        """Update the rows that have an older copy. Return the number of updated rows."""
        older = rows.filter(deleted_at__isnull=True, resource_version__lt=_version(resource))
        if self.changed is None:
            return self._write(older, resource, self._shown_by_row(resource))
        with transaction.atomic(savepoint=False):
            before = (
                older.select_for_update(of=("self",))
                .values("id", "phase", "reason", "observed_generation", "deletion_requested_at")
                .first()
            )
            if before is None:
                return 0
            is_ending = before["deletion_requested_at"] is not None
            summary = self._summary(resource, is_ending=is_ending)
            is_changed = (before["phase"], before["reason"]) != (summary.phase, summary.reason)
            shown = asdict(summary) | ({"phase_since": Now()} if is_changed else {})
            written = self._write(self._rows().filter(id=before["id"]), resource, shown)
            if is_changed:
                earlier = (before["phase"], before["observed_generation"])
                self.changed(Change(before["id"], *earlier, resource, summary))
            return written

    def gone(self, rows: QuerySet[RowT], successor: Manifest | None) -> None:
        """Close a guarded row whose resource is deleted.

        `successor` is the resource that has the same name now, or `None`.
        """
        closed = rows.filter(deleted_at__isnull=True).update(
            deleted_at=Now(),
            deletion_requested_at=Coalesce("deletion_requested_at", Now()),
            phase=TERMINATING,
            phase_since=Now(),
            due_at=None,
        )
        if closed and successor is not None:
            self.observed(successor)

    def reopened(
        self, resource: Manifest, gone: Callable[[QuerySet[RowT], Manifest | None], None]
    ) -> bool:
        """Reopen the closed row of a resource that exists again in a restored cluster.

        Because names are unique, this method first closes a later row of the same name. Return
        `False` if that row belongs to a resource that is being created. Copy the resource after
        this call. Only `manage.py recover` calls this method, because a stale read must not reopen
        a row.
        """
        metadata = resource["metadata"]
        since = self._rows().filter(
            namespace=metadata["namespace"], name=metadata["name"], deleted_at__isnull=True
        )
        gone(since.exclude(uid=""), None)
        closed = self._rows().filter(uid=metadata["uid"], deleted_at__isnull=False)
        reset = {"deleted_at": None, "deletion_requested_at": None, "resource_version": 0}
        return not since.exists() and bool(closed.update(**reset, due_at=Now()))

    def resource_columns(self, resource: Manifest) -> dict[str, Any]:
        """Return the values of the columns, except for the fields of `StatusSummary`.

        Each value that the API server accepts must fit into its column; otherwise one resource
        would stop the copying of all resources.
        """
        resource = storable(resource)
        return {
            **self.columns(resource),
            "uid": resource["metadata"]["uid"],
            "generation": number(resource, "metadata", "generation"),
            "observed_generation": number(resource, "status", "observedGeneration"),
            "resource_version": _version(resource),
            "conditions": items(resource, "status", "conditions"),
            "last_sync_at": Now(),
        }

    def _summary(self, resource: Manifest, *, is_ending: bool) -> StatusSummary:
        """Return the phase, reason, message and cause of the row.

        If the deletion was requested (`is_ending`), the reason of the earlier phase is dropped.
        """
        phase = TERMINATING if is_ending else self.phase(resource)
        if phase == TERMINATING != field(resource, "status", "phase"):
            return StatusSummary(TERMINATING)
        ready = condition(resource, "Ready")
        unexplained = "Unknown" if phase == FAILED else ""
        return StatusSummary(
            phase=phase,
            reason=str(storable(ready.get("reason")) or unexplained)[:64],
            message=str(storable(ready.get("message")) or ""),
            cause=known_cause(resource.get("status")) or "",
        )

    def phase(self, resource: Manifest) -> str:
        """Return the phase of the row of a resource."""
        if field(resource, "metadata", "deletionTimestamp"):
            return TERMINATING
        phase = field(resource, "status", "phase")
        return str(phase) if phase in self.phases else PENDING

    def _rows(self) -> Manager[RowT]:
        return self.model._default_manager  # noqa: SLF001 - Django's documented name

    def _write(self, rows: QuerySet[RowT], resource: Manifest, shown: Mapping[str, Any]) -> int:
        columns = self.resource_columns(resource)
        if self.phase(resource) == TERMINATING:
            columns["deletion_requested_at"] = Coalesce("deletion_requested_at", Now())
        return rows.update(**shown, **columns)

    def _shown_by_row(self, resource: Manifest) -> Mapping[str, Any]:
        """Return the columns of the phase for rows that are not locked: each row decides."""
        alive, ending = (
            asdict(self._summary(resource, is_ending=is_ending)) for is_ending in (False, True)
        )
        shown = {
            key: Case(
                When(deletion_requested_at__isnull=False, then=Value(ending[key])),
                default=Value(alive[key]),
            )
            for key in alive
        }
        unchanged = When(phase=shown["phase"], reason=shown["reason"], then=F("phase_since"))
        return {"phase_since": Case(unchanged, default=Now()), **shown}

    def adopted(self, resource: Manifest, further: Mapping[str, Any]) -> int | None:
        """Create the row of a resource. Return its id, or `None` if another row has the name."""
        metadata, summary = resource["metadata"], self._summary(resource, is_ending=False)
        with transaction.atomic():
            row = self.model(
                namespace=metadata["namespace"],
                name=metadata["name"],
                due_at=Now(),
                **asdict(summary),
                **{**self.resource_columns(resource), **further},
            )
            self._rows().bulk_create([row], ignore_conflicts=True)
            created = self._rows().filter(uid=metadata["uid"], deleted_at__isnull=True)
            row_id = created.values_list("id", flat=True).first()
            if row_id is not None and self.changed is not None:
                self.changed(Change(row_id, "", 0, resource, summary))
        return row_id


def count(value: Any, *path: str) -> int:
    """Return the number at `path`, limited to the range of an integer column."""
    return min(max(number(value, *path), 0), _HIGHEST_COUNT)


def storable(value: Any) -> Any:
    """Return JSON with U+FFFD instead of NUL, which PostgreSQL cannot store."""
    match value:
        case str():
            return value.replace("\x00", "\ufffd")
        case dict():
            return {storable(key): storable(one) for key, one in value.items()}
        case list():
            return [storable(one) for one in value]
        case _:
            return value


def version_number(resource_version: str) -> int:
    """Return a resource version as an integer, or 0 if it is not an integer.

    Resource versions are comparable as integers; see "Resource versions" in the Kubernetes API
    concepts. The value 0 is never newer than another version.
    """
    return int(resource_version) if resource_version.isdecimal() else 0


def _version(resource: Manifest) -> int:
    return version_number(resource["metadata"]["resourceVersion"])


def request_deletion(rows: QuerySet[RowT], **columns: Any) -> int:
    """Record that the deletion of rows was accepted. Return the number of rows.

    Their phase is then `Terminating`, regardless of the phase in the status of the resource, and
    the reason of the earlier phase is cleared.
    """
    summary = asdict(StatusSummary(TERMINATING))
    return rows.update(deletion_requested_at=Now(), phase_since=Now(), **summary, **columns)


def withdraw_deletion(rows: QuerySet[RowT], **columns: Any) -> int:
    """Undo `request_deletion`. Return the number of rows. The next copy sets their phase."""
    return rows.update(
        deletion_requested_at=None, phase=PENDING, phase_since=Now(), resource_version=0, **columns
    )
