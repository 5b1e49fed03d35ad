"""Numbers that callers can return but not read: row ids, which count the rows of all tenants."""

import base64
from functools import cache
from hashlib import blake2b

from django.conf import settings
from nacl.exceptions import CryptoError
from nacl.secret import SecretBox


def opaque(number: int, purpose: str) -> str:
    """Return a text without padding for a number below 2**63, always the same for a purpose."""
    text = number.to_bytes(8, "big")
    key = _key(settings.SECRET_KEY, purpose)
    nonce = blake2b(text, key=key, digest_size=SecretBox.NONCE_SIZE).digest()
    return base64.urlsafe_b64encode(SecretBox(key).encrypt(text, nonce)).decode().rstrip("=")


def opened(text: str, purpose: str) -> int:
    """Return the number in a text of `opaque`.

    Raises:
        ValueError: If the text was not created for this purpose with the key of the platform.
    """
    encrypted = base64.b64decode(
        (text + "=" * (-len(text) % 4)).encode("ascii"), altchars=b"-_", validate=True
    )
    try:
        return int.from_bytes(SecretBox(_key(settings.SECRET_KEY, purpose)).decrypt(encrypted))
    except CryptoError as error:
        msg = "the text was not created by this platform"
        raise ValueError(msg) from error


@cache
def _key(secret: str, purpose: str) -> bytes:
    context = f"opaque/{purpose}".encode()
    return blake2b(context, key=blake2b(secret.encode()).digest(), digest_size=32).digest()
