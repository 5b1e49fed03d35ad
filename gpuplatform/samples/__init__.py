"""Samples of the platform and runs of periodic tasks, which the admin displays."""
