"""What the templates of the admin need beyond Django's filters."""

from django import template

register = template.Library()


@register.filter
def grouped(number: int) -> str:
    """Return a number with its thousands apart."""
    return f"{number:,}"


@register.filter
def heading(text: object) -> str:
    """Return a name as a heading; one with a capital of its own, as `operationID`, stays."""
    word = str(text)
    return word if any(map(str.isupper, word)) else word[:1].upper() + word[1:]
