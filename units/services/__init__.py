"""Writes to the rows of units: accepted requests, outcomes of operations, periodic maintenance."""
