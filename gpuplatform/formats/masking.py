"""Masking of values that can be secret, such as environment variables, headers and webhooks.

The users who view a page are not always the authors of the template. The names of variables are
kept, because they help with debugging. This module is pure.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

MASK: Final = "(hidden)"
_VARIABLES: Final = frozenset({"env", "envs"})
_WEBHOOK: Final = "onDone"
_BOOKKEEPING: Final = frozenset(
    # The annotation contains a copy of the spec with all values.
    {"managedFields", "kubectl.kubernetes.io/last-applied-configuration"}
)

_SECRET_HEADER: Final = re.compile(
    "auth|bearer|cookie|credential|jwt|key|passw|pwd|secret|session|signature|token|(^|[-_])(otp|pin|sig)($|[-_])",
    re.IGNORECASE,
)
"""Matches names of headers that carry credentials."""


def masked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with masked credentials."""
    return {
        name: MASK if _SECRET_HEADER.search(name) else value for name, value in headers.items()
    }


def masked(document: Any) -> Any:
    """Return a copy of a JSON document with masked environment variables and webhooks."""
    if isinstance(document, list):
        return [masked(one) for one in document]
    if not isinstance(document, Mapping):
        return document
    return {
        key: _masked_field(key, value)
        for key, value in document.items()
        if key not in _BOOKKEEPING
    }


def _masked_field(key: str, value: Any) -> Any:
    if key in _VARIABLES:
        return _variables(value)
    # The URL of a webhook often contains a secret.
    return MASK if key == _WEBHOOK else masked(value)


def _variables(value: Any) -> Any:
    """Return variables with masked values: a list of `{name, value}`, or a dict."""
    if isinstance(value, list):
        return [_variable(one) for one in value]
    if isinstance(value, Mapping):
        return dict.fromkeys(value, MASK)
    return MASK


def _variable(one: Any) -> Any:
    if not isinstance(one, Mapping):
        return MASK
    return {key: MASK if key == "value" else masked(field) for key, field in one.items()}
