"""GPU units, stock and the catalogue in the admin; the import registers the pages."""

from units.admin import groups, history, nodes, queue, specs, units

__all__ = ["groups", "history", "nodes", "queue", "specs", "units"]
