"""Writes to the rows of this app: accepts requests and records the outcomes of operations."""
