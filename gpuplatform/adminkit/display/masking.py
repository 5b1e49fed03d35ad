"""Masks values that may be secret: environment variables, headers, and Kubernetes' bookkeeping.

A viewer of a page is not always the author of the template. Names of variables stay: they help to
find a fault. Pure.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

MASK: Final = "(hidden)"
_VARIABLES: Final = frozenset({"env", "envs"})
_BOOKKEEPING: Final = frozenset(
    # The annotation repeats the whole spec, with its values.
    {"managedFields", "kubectl.kubernetes.io/last-applied-configuration"}
)

_SECRET_HEADER: Final = re.compile(
    "auth|bearer|cookie|credential|jwt|key|passw|pwd|secret|session|signature|token|(^|[-_])(otp|pin|sig)($|[-_])",
    re.IGNORECASE,
)
"""Matches names of headers that carry credentials."""


def masked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers with the values of credentials masked."""
    return {
        name: MASK if _SECRET_HEADER.search(name) else value for name, value in headers.items()
    }


def masked(document: Any) -> Any:
    """Return a copy of a JSON document with the values of all environment variables masked."""
    if isinstance(document, list):
        return [masked(one) for one in document]
    if not isinstance(document, Mapping):
        return document
    return {
        key: _variables(value) if key in _VARIABLES else masked(value)
        for key, value in document.items()
        if key not in _BOOKKEEPING
    }


def _variables(value: Any) -> Any:
    """Return variables without their values: a list of `{name, value}`, or a mapping."""
    if isinstance(value, list):
        return [_variable(one) for one in value]
    if isinstance(value, Mapping):
        return dict.fromkeys(value, MASK)
    return MASK


def _variable(one: Any) -> Any:
    if not isinstance(one, Mapping):
        return MASK
    return {key: MASK if key == "value" else masked(held) for key, held in one.items()}
