"""Management commands of the platform, and their shared code."""
