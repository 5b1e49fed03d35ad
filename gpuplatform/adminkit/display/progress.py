"""How far something has come that makes several things, such as a seeding."""

from django.utils.html import format_html
from django.utils.safestring import SafeString


def progress_bar(done: int, total: int) -> SafeString:
    """Return a bar with the numbers beside it; nothing where there is but one thing to make."""
    if total <= 1:
        return SafeString("")
    return format_html(
        '<span class="so-far"><progress max="{}" value="{}" aria-hidden="true"></progress>'
        "{} of {}</span>",
        total,
        min(done, total),
        done,
        total,
    )
