"""Writes to the rows of the inventory: accepted requests and outcomes of operations."""
