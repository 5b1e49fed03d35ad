"""The core of the platform: the code that belongs to no single app."""

__version__ = "0.1.0"
"""The version of the release, in the package, the image, the API document and the health API."""
