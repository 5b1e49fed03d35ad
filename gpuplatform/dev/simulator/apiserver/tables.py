"""The Table form that `kubectl get` asks for: cells from printer columns."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from gpuplatform.dev.simulator.apiserver.cells import CELLS, age
from gpuplatform.dev.simulator.apiserver.objects import Manifest, to_bytes
from gpuplatform.dev.simulator.apiserver.paths import values_at
from gpuplatform.dev.simulator.apiserver.resources import Resource
from gpuplatform.dev.simulator.apiserver.store import Entry

Shape: TypeAlias = Callable[[Manifest], Manifest | None]

_SHAPES: dict[str, Shape] = {
    "Object": lambda obj: obj,
    "None": lambda _obj: None,
    "Metadata": lambda obj: {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj["metadata"],
    },
}


def table(
    resource: Resource,
    entries: Sequence[Entry],
    metadata: Manifest,
    include: str,
) -> bytes:
    """Return a Table; `include` says how much of each object a row carries."""
    shape = _SHAPES.get(include, _SHAPES["Metadata"])
    return to_bytes(
        {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "columnDefinitions": [_definition(c) for c in resource.columns],
            "rows": [
                {"cells": [_cell(resource, column, entry.object) for column in resource.columns]}
                | ({"object": shape(entry.object)} if include != "None" else {})
                for entry in entries
            ],
        }
    )


def _definition(column: dict[str, Any]) -> dict[str, Any]:
    kept = {name: column.get(name, "") for name in ("name", "type", "format", "description")}
    if column["type"] == "date":
        kept["type"] = "string"
    return {**kept, "priority": column["priority"]}


def _cell(resource: Resource, column: dict[str, Any], obj: Manifest) -> object:
    source = column["source"]
    if source in CELLS:
        return CELLS[source](obj)
    values = values_at(obj, source)
    if not values:
        return None if resource.is_custom else "<none>"
    if column["type"] == "date":
        return age(str(values[0]))
    if column["type"] in {"integer", "number", "boolean"}:
        return values[0]
    return ",".join(_text(value) for value in values)


def _text(value: object) -> str:
    return value if isinstance(value, str) else to_bytes(value).decode()
