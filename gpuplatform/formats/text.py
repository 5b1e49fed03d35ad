"""Validates text for a container (command, arguments, environment values) and for pages. Pure.

A value must reach the process unchanged. This module rejects text that PostgreSQL and the kernel
(NUL), UTF-8 (surrogates) or the kernel (strings above 128 KiB) would reject or change. The text of
a page has no control characters.
"""

import re

_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff]"  # tab, LF and CR are fine
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_EXPANDED = re.compile(r"\$(?=[$(])")
_SHOWN = 40


def quoted(text: str) -> str:
    """Return `text` quoted, escaped and shortened, for a message."""
    shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
    return ascii(shown) if _SURROGATE.search(shown) or not shown.isprintable() else f"'{shown}'"


def no_surrogates(text: str) -> str:
    """Return `text` if it is valid Unicode.

    Raises:
        ValueError: If it contains a lone surrogate, which UTF-8 cannot encode.
    """
    if found := _SURROGATE.search(text):
        msg = f"Contains the lone surrogate U+{ord(found[0]):04X}, which is not valid Unicode."
        raise ValueError(msg)
    return text


def container_text(text: str, *, max_bytes: int = 32 * 1024) -> str:
    """Return `text` if it reaches a container unchanged.

    Raises:
        ValueError: If it contains NUL or invalid Unicode, or is longer than `max_bytes` in UTF-8.
    """
    no_surrogates(text)
    if (position := text.find("\0")) >= 0:
        msg = (
            f"Contains the character U+0000 at position {position}. Remove it: a command, an"
            " argument or a variable cannot contain it."
        )
        raise ValueError(msg)
    if len(text.encode()) > max_bytes:
        msg = f"Must have at most {max_bytes} bytes."
        raise ValueError(msg)
    return text


def page_text(text: str) -> str:
    """Return `text` if pages can show it.

    Raises:
        ValueError: If it contains invalid Unicode, or control characters other than tabs and line
            breaks.
    """
    no_surrogates(text)
    if found := _UNPRINTABLE.search(text):
        msg = (
            f"Contains the character U+{ord(found[0]):04X} at position {found.start()}."
            " Remove it: pages cannot show it."
        )
        raise ValueError(msg)
    return text


def escaped(text: str) -> str:
    """Return `text` so that the kubelet, which expands `$$` and `$(NAME)`, passes it unchanged."""
    return _EXPANDED.sub("$$", text)
