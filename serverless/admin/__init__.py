"""Functions and invocations in the admin; importing it registers the pages."""

from serverless.admin import dashboard, functions, invocations

__all__ = ["dashboard", "functions", "invocations"]
