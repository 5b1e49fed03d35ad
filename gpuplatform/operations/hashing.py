"""Hashes of requests, which identify replays. Pure.

The algorithm of a version never changes. A release may write a new version only if the previous
release can read it.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

HASH_VERSION = 1


def _version_1(kind: str, name: str, payload: Mapping[str, Any]) -> str:
    """Return the SHA-256 digest of kind, name and payload as canonical JSON.

    The kind of operation represents the method and the route. The payload does not contain the
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
    """Return the hash of a request as 64 hexadecimal digits.

    `name` is the full name of the object, `payload` the normalized request.

    Raises:
        KeyError: If this release does not know `version`.
    """
    return _VERSIONS[version](kind, name, payload)
