"""Decisions about GPU units. Pure."""
