"""A date and time field that the browser draws without scripts."""

from typing import Any

from django import forms


def datetime_field(help_text: str, **options: Any) -> forms.DateTimeField:
    """Return a field for a time in UTC, to the minute; it may stay empty.

    The browser asks for it, in the order and the clock of the one who sits before it.
    """
    widget = forms.DateTimeInput({"type": "datetime-local", "step": 60}, format="%Y-%m-%dT%H:%M")
    words = f"{help_text} In UTC."
    return forms.DateTimeField(widget=widget, required=False, help_text=words, **options)
