"""HTTP routes of the units."""
