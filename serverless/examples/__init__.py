"""Functions to begin with."""
