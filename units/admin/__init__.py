"""GPU units, stock and the catalogue in the admin; the import registers the pages."""

from units.admin import history, specs, units

__all__ = ["history", "specs", "units"]
