"""Decisions about functions, workers and invocations. Pure."""
