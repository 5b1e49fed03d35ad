"""Decisions of the audit log. Pure."""
