"""Compares the database with the cluster, for `manage.py check_consistency`. Read-only.

The cluster is read before the rows, so a change in progress can be reported once. Only an
inconsistency that two consecutive comparisons find is real.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from django.db.models import QuerySet
from typing_extensions import override

from gpuplatform.kube.kinds import Manifest
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES
from gpuplatform.operations.provenance import has_marks, was_written_by_platform
from gpuplatform.operations.selectors import makers_among, marks_of, operations_about
from gpuplatform.reconciliation.models import MirrorRow


@dataclass(frozen=True, slots=True, order=True)
class Inconsistency:
    """An inconsistency between the database and the cluster."""

    kind: str
    """Kind of the inconsistency, such as `leaked`, `lost`, `doubled` or `orphaned`."""
    name: str
    message: str

    @override
    def __str__(self) -> str:
        return f"{self.kind}: {self.name}: {self.message}"


def full_name(resource: Manifest) -> str:
    """Return `namespace/name` of a resource."""
    return f"{resource['metadata']['namespace']}/{resource['metadata']['name']}"


def row_inconsistencies(
    resources: Sequence[Manifest], rows: QuerySet[MirrorRow]
) -> Iterator[Inconsistency]:
    """Yield the differences of resources and rows. The resources must be read first."""
    creators = makers_among(operations_about(resources), resources)
    live = list(rows.filter(deleted_at__isnull=True))
    known, seen = {row.uid for row in live}, {one["metadata"]["uid"] for one in resources}
    for resource in resources:
        creator = creators.get(resource["metadata"]["uid"])
        is_open = creator is not None and creator.phase in OPEN_PHASES
        if resource["metadata"]["uid"] not in known and not is_open:
            yield Inconsistency("leaked", full_name(resource), "the resource has no row")
    for row in live:
        if row.uid and row.uid not in seen and row.deletion_requested_at is None:
            yield Inconsistency("lost", str(row), "the row exists but its resource does not")
    yield from _never_created([row for row in live if not row.uid])


def _never_created(rows: Sequence[MirrorRow]) -> Iterator[Inconsistency]:
    creators = {row.pk: int(getattr(row, "operation_id", None) or 0) for row in rows}
    still_open = Operation.objects.filter(id__in=set(creators.values()), phase__in=OPEN_PHASES)
    waiting = set(still_open.values_list("id", flat=True))
    for row in rows:
        if creators[row.pk] not in waiting:
            yield Inconsistency(
                "lost",
                str(row),
                "the resource was never created and no open operation creates it",
            )


def duplicates(
    resources: Sequence[Manifest], *, per: Callable[[Manifest], str] = lambda _: ""
) -> Iterator[Inconsistency]:
    """Yield resources that one operation created more than once for the same value of `per`."""

    def key(resource: Manifest) -> tuple[str, ...]:
        return (*marks_of(resource), per(resource))

    created = [one for one in resources if has_marks(one) and was_written_by_platform(one)]
    counts = Counter(key(resource) for resource in created)
    for resource in created:
        if counts[key(resource)] > 1:
            yield Inconsistency(
                "doubled", full_name(resource), "its operation created more than one resource"
            )
