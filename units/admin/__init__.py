"""GPU units, stock and the catalogue in the admin; Django's import registers the pages."""

from units.admin import dashboard, history, specs, units

__all__ = ["dashboard", "history", "specs", "units"]
