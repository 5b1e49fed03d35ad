"""The types of planners, and pure functions for them. Every `core` package may import it."""
