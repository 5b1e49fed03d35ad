"""Functions and invocations in the admin; importing it registers the pages."""

from serverless.admin import functions, invocations

__all__ = ["functions", "invocations"]
