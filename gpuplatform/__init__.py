"""The kernel of the platform: everything that belongs to no single app."""

__version__ = "0.1.0"
"""The version of the release: package, image, API document and health page."""
