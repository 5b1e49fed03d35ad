"""JSON web tokens of NATS: accounts, users and their permissions. Pure.

An operator signs accounts and an account signs its users, so that a server that knows the operator
needs no list of users. Source: nats.io, "JWT".
"""

import base64
import hashlib
import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpuplatform.nats.keys import BadKey, KeyKind, KeyPair

_NO_LIMITS: Final = {"subs": -1, "data": -1, "payload": -1}
_BLOCK: Final = re.compile(r"-+BEGIN [^-]+-+\s+(\S+)\s+-+END [^-]+-+")


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user's token, and the key that proves its possession."""

    token: str
    key: KeyPair

    def file(self) -> str:
        """Return the text of a `.creds` file."""
        return (
            f"-----BEGIN NATS USER JWT-----\n{self.token}\n------END NATS USER JWT------\n\n"
            "-----BEGIN USER NKEY SEED-----\n"
            f"{self.key.seed}\n------END USER NKEY SEED------\n"
        )

    @classmethod
    def from_file(cls, text: str) -> "Credentials":
        """Decode a `.creds` file.

        Raises:
            BadKey: it is not a `.creds` file.
        """
        blocks = _BLOCK.findall(text)
        if len(blocks) != 2:
            raise BadKey("is not a file of NATS credentials")
        return cls(blocks[0], KeyPair.from_seed(blocks[1], KeyKind.USER))

    def callbacks(self) -> dict[str, Callable[..., bytes | bytearray]]:
        """Return the arguments of `nats.connect` for logging in with these credentials."""
        return {
            "user_jwt_cb": lambda: bytearray(self.token.encode()),
            "signature_cb": lambda nonce: base64.b64encode(self.key.sign(nonce.encode())),
        }


def user_credentials(
    account: KeyPair, name: str, *, publish: Sequence[str], subscribe: Sequence[str]
) -> Credentials:
    """Return credentials of a new user that may use these subjects and no others."""
    user = KeyPair.generate(KeyKind.USER)
    claims = {
        "pub": {"allow": list(publish)},
        "sub": {"allow": list(subscribe)},
        **_NO_LIMITS,
        "type": "user",
        "version": 2,
    }
    return Credentials(_token(account, user, name, claims), user)


@dataclass(frozen=True, slots=True)
class SharedSubject:
    """A subject of one account to which users of another may send requests."""

    subject: str
    has_many_answers: bool = False
    """Whether one request can have several replies."""


def server_accounts(account: KeyPair, guests: KeyPair, shared: Sequence[SharedSubject]) -> str:
    """Return the part of a server's configuration that admits exactly these accounts.

    `account` has the streams; `guests` has none and may use the shared subjects. The operator's
    key signs the accounts once and is not stored.
    """
    operator, system = KeyPair.generate(KeyKind.OPERATOR), KeyPair.generate(KeyKind.ACCOUNT)
    exports = [
        {
            "name": one.subject,
            "subject": one.subject,
            "type": "service",
            "response_type": "Stream" if one.has_many_answers else "Singleton",
        }
        for one in shared
    ]
    imports = [
        {"name": one.subject, "subject": one.subject, "account": account.public, "type": "service"}
        for one in shared
    ]
    tokens = {
        account.public: _account_token(operator, account, {"exports": exports}, streams=-1),
        guests.public: _account_token(operator, guests, {"imports": imports}, streams=0),
        system.public: _account_token(operator, system, {}, streams=0),
    }
    self_signed = _token(operator, operator, "operator", {"type": "operator", "version": 2})
    preload = "".join(f"  {key}: {token}\n" for key, token in tokens.items())
    return (
        f"operator: {self_signed}\nsystem_account: {system.public}\n"
        f"resolver: MEMORY\nresolver_preload {{\n{preload}}}\n"
    )


def _account_token(
    operator: KeyPair, account: KeyPair, sharing: dict[str, Any], *, streams: int
) -> str:
    limits = {
        **_NO_LIMITS,
        **dict.fromkeys(("mem_storage", "disk_storage", "streams", "consumer"), streams),
        **dict.fromkeys(("imports", "exports", "conn", "leaf"), -1),
        "wildcards": True,
    }
    claims = {**sharing, "limits": limits, "type": "account", "version": 2}
    return _token(operator, account, account.public[:8], claims)


def _token(issuer: KeyPair, subject: KeyPair, name: str, claims: dict[str, Any]) -> str:
    body = {
        "iat": int(time.time()),
        "iss": issuer.public,
        "name": name,
        "sub": subject.public,
        "nats": claims,
    }
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).digest()
    body["jti"] = base64.b32encode(digest).decode().rstrip("=")
    signed = f"{_encoded({'typ': 'JWT', 'alg': 'ed25519-nkey'})}.{_encoded(body)}"
    return f"{signed}.{_base64url(issuer.sign(signed.encode()))}"


def _encoded(value: dict[str, Any]) -> str:
    return _base64url(json.dumps(value, separators=(",", ":")).encode())


def _base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
