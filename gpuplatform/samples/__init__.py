"""Samples and runs that are kept for the pages of the admin."""
