"""Example functions."""
