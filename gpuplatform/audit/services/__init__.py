"""Writes the audit log."""
