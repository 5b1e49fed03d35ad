"""The hash of a request, by which a replay is recognised. Pure.

A hash never changes for a given version. A release writes a new version only if the previous
release can read it.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

HASH_VERSION = 1


def _version_1(kind: str, name: str, payload: Mapping[str, Any]) -> str:
    """SHA-256 over kind, name and the canonical JSON of the normalised payload.

    The kind of operation represents method and route. The payload does not contain the
    operationID.
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
    """Return the hash of the normalised `payload` for the object called `name`, as 64 hex digits.

    Raises:
        KeyError: this release does not know the version.
    """
    return _VERSIONS[version](kind, name, payload)
