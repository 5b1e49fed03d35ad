"""Samples of the platform and runs of periodic tasks, for the admin."""
