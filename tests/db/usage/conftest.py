"""The platform of GPU units on an in-memory cluster."""

from tests.db.units.conftest import world

__all__ = ["world"]
