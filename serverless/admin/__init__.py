"""Functions and invocations in the admin; the import registers the pages."""

from serverless.admin import functions, invocations

__all__ = ["functions", "invocations"]
