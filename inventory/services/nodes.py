"""Writes the mirror of the nodes. Rows that are unchanged are not written."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, Final, TypeAlias

from django.db import transaction
from django.db.models.functions import Now

from gpuplatform.reconciliation.mirror import storable
from gpuplatform.workloads.holders import Holder, NodeRecord
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
    wanted: _Columns = {
        name: record_columns(one) if one else None for name, one in records.items()
    }
    if is_complete:  # Most rows are unchanged and need no lock.
        wanted = _different(wanted, {row.name: row for row in rows}, version)
    if not wanted:
        return {}
    with transaction.atomic():
        locked = rows.filter(name__in=wanted).select_for_update()
        known = {row.name: row for row in locked}
        changed = _different(wanted, known, version)
        _write(changed, version)
    return {
        name: (node_record(known[name]) if name in known else None, records.get(name))
        for name in changed
    }


_Columns: TypeAlias = Mapping[str, dict[str, Any] | None]
"""The columns of nodes by name, or `None` for a node that is deleted."""


def _different(wanted: _Columns, known: Mapping[str, Node], version: int) -> _Columns:
    """Return the columns of the nodes whose rows differ and are not newer, sorted by name."""

    def differs(name: str) -> bool:
        row, columns = known.get(name), wanted.get(name)
        if row is None:
            return columns is not None
        is_same = columns == {key: getattr(row, key) for key in _COLUMNS}
        return not is_same and row.resource_version <= version

    return {name: wanted.get(name) for name in sorted({*wanted, *known}) if differs(name)}


def _write(wanted: _Columns, version: int) -> None:
    gone = [name for name, columns in wanted.items() if columns is None]
    if gone:
        Node.objects.filter(name__in=gone).delete()
    Node.objects.bulk_create(
        [
            Node(name=name, resource_version=version, changed_at=Now(), **columns)
            for name, columns in wanted.items()
            if columns is not None
        ],
        batch_size=_BATCH,
        update_conflicts=True,
        unique_fields=["name"],
        update_fields=[*_COLUMNS, *_VERSION],
    )


_HOLDER: Final = tuple(one.name for one in fields(Holder))


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
        "holders": [
            {name: getattr(holder, name) for name in _HOLDER} for holder in record.holders
        ],
        "is_short": any(number < 0 for number in record.room.values()),
    }
    return {key: storable(value) for key, value in columns.items()}


_COLUMNS: Final = tuple(record_columns(NodeRecord(NodeState(""))))
"""The names of the columns of a record, except for the name and the version."""
