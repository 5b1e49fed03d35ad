"""The fingerprint of a request: the same request has the same one, in every release that knows it.

A release writes a new version only one release after it can read it. Pure.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

HASH_VERSION = 1


def _version_1(kind: str, name: str, payload: Mapping[str, Any]) -> str:
    """SHA-256 over kind, name and the canonical JSON of the normalised payload.

    The kind of operation stands for method and route. The payload has no operationID in it.
    """
    canonical = json.dumps(
        [kind, name, payload], sort_keys=True, separators=(",", ":"), ensure_ascii=True
    )
    return hashlib.sha256(canonical.encode()).hexdigest()


_VERSIONS: Mapping[int, Callable[[str, str, Mapping[str, Any]], str]] = MappingProxyType(
    {1: _version_1}
)


def request_hash(
    kind: str, name: str, payload: Mapping[str, Any], *, version: int = HASH_VERSION
) -> str:
    """Return the fingerprint of the normalised `payload` for the object called `name`.

    Raises:
        KeyError: no such version is known.
    """
    return _VERSIONS[version](kind, name, payload)
