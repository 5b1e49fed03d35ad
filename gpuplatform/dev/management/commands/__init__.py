"""Management commands that are available only in development mode."""
