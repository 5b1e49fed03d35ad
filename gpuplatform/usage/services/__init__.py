"""Writes the usage ledger."""
