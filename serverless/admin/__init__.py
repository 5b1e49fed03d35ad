"""Functions and invocations in the admin; Django's import registers the pages."""

from serverless.admin import functions, invocations

__all__ = ["functions", "invocations"]
