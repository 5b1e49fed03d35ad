"""Functions and invocations in the admin; Django's import registers the pages."""

from serverless.admin import dashboard, functions, invocations

__all__ = ["dashboard", "functions", "invocations"]
