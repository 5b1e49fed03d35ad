"""GPU units, stock and the catalogue in the admin; Django's import registers the pages."""

from units.admin import dashboard, specs, units

__all__ = ["dashboard", "specs", "units"]
