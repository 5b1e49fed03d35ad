"""NKeys: the Ed25519 keys of NATS in their text encoding. Pure.

The encoding is base32 of a prefix (the kind), 32 bytes and a CRC-16. Source: "NKeys" in the NATS
documentation, and github.com/nats-io/nkeys.
"""

import base64
import binascii
import hashlib
import struct
from enum import IntEnum
from typing import Final

from nacl.signing import SigningKey

_SEED: Final = 18 << 3


class KeyKind(IntEnum):
    """The kind of the key owner, which determines the first letter of the encoded public key."""

    OPERATOR = 14 << 3
    ACCOUNT = 0
    USER = 20 << 3


class BadKey(ValueError):
    """The text is not a seed of the expected kind."""


class KeyPair:
    """A private key and the kind of its owner."""

    def __init__(self, kind: KeyKind, key: SigningKey) -> None:
        """Use `generate` or `from_seed` instead."""
        self.kind = kind
        self._key = key

    @classmethod
    def generate(cls, kind: KeyKind) -> "KeyPair":
        """Return a new random key."""
        return cls(kind, SigningKey.generate())

    @classmethod
    def from_seed(cls, seed: str, kind: KeyKind) -> "KeyPair":
        """Decode a seed.

        Raises:
            BadKey: If the text is not a seed, or if the seed is of another kind. The message
                does not contain the text.
        """
        try:
            raw = base64.b32decode(seed + "=" * (-len(seed) % 8))
        except (binascii.Error, ValueError) as error:
            raise BadKey("is not a NATS seed") from error
        if len(raw) != 36 or _checksum(raw[:-2]) != raw[-2:] or raw[0] & 0xF8 != _SEED:
            raise BadKey("is not a NATS seed")
        found = (raw[0] & 7) << 5 | (raw[1] & 0xF8) >> 3
        if found != kind:
            raise BadKey(f"is not a seed of a NATS {kind.name.lower()}")
        return cls(kind, SigningKey(raw[2:34]))

    def derived(self, purpose: str) -> "KeyPair":
        """Return a key of the same kind that is derived with a one-way function."""
        secret = hashlib.sha256(bytes(self._key) + purpose.encode()).digest()
        return KeyPair(self.kind, SigningKey(secret))

    @property
    def seed(self) -> str:
        """The encoded private key."""
        head = bytes([_SEED | self.kind >> 5, (self.kind & 31) << 3])
        return _text(head + bytes(self._key))

    @property
    def public(self) -> str:
        """The encoded public key."""
        return _text(bytes([self.kind]) + bytes(self._key.verify_key))

    def sign(self, message: bytes) -> bytes:
        """Return the signature of the message."""
        return self._key.sign(message).signature


def _text(raw: bytes) -> str:
    return base64.b32encode(raw + _checksum(raw)).decode().rstrip("=")


def _checksum(raw: bytes) -> bytes:
    return struct.pack("<H", binascii.crc_hqx(raw, 0))
