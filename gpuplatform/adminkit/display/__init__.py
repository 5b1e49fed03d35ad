"""Rendering of single values: text, ages, badges, causes, charts and timelines."""
