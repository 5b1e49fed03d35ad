"""Decisions about stock pools and GPU specs. Pure."""
