"""Writes the mirror of the nodes. Rows that are unchanged are not written."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from django.db import transaction
from django.db.models.functions import Now

from gpuplatform.reconciliation.mirror import storable
from gpuplatform.workloads.holders import NodeRecord
from gpuplatform.workloads.nodes import NodeState
from inventory.models import Node
from inventory.selectors import node_record

_BATCH = 200
_VERSION = ("resource_version", "changed_at")


def nodes_update(
    records: Mapping[str, NodeRecord | None], *, version: int, is_complete: bool
) -> dict[str, tuple[NodeRecord | None, NodeRecord | None]]:
    """Write the records of nodes that differ from their rows.

    A row that describes a newer state of the cluster is not changed.

    Args:
        records: The records by name. A node without a record or with `None` is deleted.
        version: The resource version of the cluster that the records describe.
        is_complete: Whether `records` contains all nodes, so that all other rows are deleted.

    Returns:
        The previous and the new record of each changed node, or `None` for a missing one.
    """
    rows = Node.objects.order_by("name")
    known = {row.name: row for row in (rows if is_complete else rows.filter(name__in=records))}
    different = _different(records, known, version)
    if not different:
        return {}
    with transaction.atomic():
        locked = rows.filter(name__in=different).select_for_update()
        known = {row.name: row for row in locked}
        wanted = {name: records.get(name) for name in different}
        changed = _different(wanted, known, version)
        _write({name: wanted[name] for name in changed}, version)
    return {
        name: (node_record(known[name]) if name in known else None, wanted[name])
        for name in changed
    }


def _different(
    records: Mapping[str, NodeRecord | None], known: Mapping[str, Node], version: int
) -> list[str]:
    """Return the names of the nodes whose rows differ from the records and are not newer."""

    def differs(name: str) -> bool:
        row, record = known.get(name), records.get(name)
        if row is None:
            return record is not None
        if record is None:
            return row.resource_version <= version
        is_same = record_columns(record) == {key: getattr(row, key) for key in _COLUMNS}
        return not is_same and row.resource_version <= version

    return [name for name in sorted({*records, *known}) if differs(name)]


def _write(records: Mapping[str, NodeRecord | None], version: int) -> None:
    gone = [name for name, record in records.items() if record is None]
    if gone:
        Node.objects.filter(name__in=gone).delete()
    Node.objects.bulk_create(
        [
            Node(name=name, resource_version=version, changed_at=Now(), **record_columns(record))
            for name, record in records.items()
            if record is not None
        ],
        batch_size=_BATCH,
        update_conflicts=True,
        unique_fields=["name"],
        update_fields=[*_COLUMNS, *_VERSION],
    )


def record_columns(record: NodeRecord) -> dict[str, Any]:
    """Return the values of the columns of a record, except for the name and the version."""
    state = record.state
    columns = {
        "product": state.product[:63],
        "labels": dict(state.labels),
        "capacity": dict(state.capacity),
        "allocatable": dict(state.allocatable),
        "is_present": state.is_present,
        "is_ready": state.is_ready,
        "is_schedulable": state.is_schedulable,
        "taints": [asdict(taint) for taint in state.taints],
        "pressures": list(state.pressures),
        "holders": [asdict(holder) for holder in record.holders],
        "is_short": any(number < 0 for number in record.room.values()),
    }
    return {key: storable(value) for key, value in columns.items()}


_COLUMNS: Final = tuple(record_columns(NodeRecord(NodeState(""))))
"""The names of the columns of a record, except for the name and the version."""
