"""Rendering of single values: text, ages, badges, causes, charts, timelines."""
