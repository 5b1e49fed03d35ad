"""The operationIDs of operations that the platform requests itself."""

from typing import Final

from django.utils.crypto import salted_hmac

TOKEN_DIGITS: Final = 16
"""Number of digits of the part of an operationID that cannot be guessed: 64 bits."""


def automatic_id(purpose: str, *parts: object) -> str:
    """Return the operationID of an operation that the platform requests.

    It depends only on the arguments and the secret key of the installation. A repeated request is
    therefore a replay, and no caller can use the operationID for another request beforehand, even
    if the caller knows the arguments.

    Args:
        purpose: The kind of request, with which the operationID begins.
        parts: The values that identify the request.
    """
    name = "-".join((purpose, *map(str, parts)))
    digest = salted_hmac("operations.automatic", name, algorithm="sha256").hexdigest()
    return f"{name}-{digest[:TOKEN_DIGITS]}"
