"""The hashes of passwords. A process computes one at a time, so that its memory is limited."""

import threading
from typing import Final

from django.contrib.auth.hashers import Argon2PasswordHasher
from typing_extensions import override

from gpuplatform.process_local import ProcessLocal

_TURN: Final = ProcessLocal(threading.Lock)


class PasswordHasher(Argon2PasswordHasher):
    """Argon2id with 19 MiB of memory, two iterations and one thread.

    Hashes with other parameters are verified, and replaced at the next login.

    Source: OWASP, "Password Storage Cheat Sheet", section Argon2id.
    """

    memory_cost = 19 * 1024
    time_cost = 2
    parallelism = 1

    @override
    def encode(self, password: str, salt: str) -> str:
        with _TURN.get():
            encoded: str = super().encode(password, salt)
        return encoded

    @override
    def verify(self, password: str, encoded: str) -> bool:
        with _TURN.get():
            is_same: bool = super().verify(password, encoded)
        return is_same
