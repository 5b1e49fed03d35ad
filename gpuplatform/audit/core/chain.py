"""The chain of digests over the entries. Pure.

Each seal contains the digest of each of its entries, and one digest over the previous seal and
these digests. A changed entry has another digest, a removed or inserted one is not in its seal,
and a changed or removed seal breaks the digest of the next one.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

GENESIS: Final = bytes(32)
"""The digest before the first seal."""


class Fault(StrEnum):
    """What is wrong with a part of the chain."""

    CHANGED = "changed"
    """The entry has other values than when it was sealed."""
    MISSING = "missing"
    """The entry was sealed and does not exist."""
    INSERTED = "inserted"
    """The entry is older than a sealed one, and no seal contains it."""
    SEAL_CHANGED = "seal changed"
    """The digest of the seal does not belong to its content: entries were reordered, for
    example."""
    SEAL_MISSING = "seal missing"
    """The seal before this one does not exist or was replaced."""


@dataclass(frozen=True, slots=True)
class Break:
    """A place at which the chain is broken."""

    seal: int
    entry: int | None
    """The id of the entry, or `None` if the seal itself is concerned."""
    fault: Fault


@dataclass(frozen=True, slots=True)
class Seal:
    """The content of a stored seal."""

    number: int
    entries: Sequence[int]
    digests: Sequence[bytes]
    previous: bytes
    digest: bytes


def entry_digest(fields: Mapping[str, Any]) -> bytes:
    """Return the digest of an entry. `fields` has JSON values."""
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).digest()


def seal_digest(number: int, previous: bytes, digests: Iterable[bytes]) -> bytes:
    """Return the digest of a seal over the previous one and the digests of its entries."""
    found = hashlib.sha256(previous)
    found.update(number.to_bytes(8, "big"))
    for digest in digests:
        found.update(digest)
    return found.digest()


def seal_breaks(
    seal: Seal, number: int, previous: bytes, entries: Mapping[int, bytes]
) -> list[Break]:
    """Return the breaks of one seal.

    Args:
        seal: The stored seal.
        number: The number that the seal must have.
        previous: The digest that the seal must continue.
        entries: The digests of the stored entries by id.
    """
    found: list[Break] = []
    if seal.number != number or seal.previous != previous:
        found.append(Break(seal.number, None, Fault.SEAL_MISSING))
    computed = seal_digest(seal.number, seal.previous, seal.digests)
    if computed != seal.digest or len(seal.entries) != len(seal.digests):
        found.append(Break(seal.number, None, Fault.SEAL_CHANGED))
    for entry, digest in zip(seal.entries, seal.digests, strict=False):
        if entry not in entries:
            found.append(Break(seal.number, entry, Fault.MISSING))
        elif entries[entry] != digest:
            found.append(Break(seal.number, entry, Fault.CHANGED))
    return found
