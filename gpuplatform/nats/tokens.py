"""The JSON Web Tokens of NATS accounts and users, with their permissions. Pure.

The operator signs accounts, and an account signs its users. Therefore, a server only needs the
token of the operator and the accounts. Source: "JWT" in the NATS documentation.
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
    """The token of a user, and the private key of the user."""

    token: str
    key: KeyPair

    def file(self) -> str:
        """Return the content of a `.creds` file."""
        return (
            f"-----BEGIN NATS USER JWT-----\n{self.token}\n------END NATS USER JWT------\n\n"
            "-----BEGIN USER NKEY SEED-----\n"
            f"{self.key.seed}\n------END USER NKEY SEED------\n"
        )

    @classmethod
    def from_file(cls, text: str) -> "Credentials":
        """Decode the content of a `.creds` file.

        Raises:
            BadKey: If the text is not the content of a `.creds` file.
        """
        blocks = _BLOCK.findall(text)
        if len(blocks) != 2:
            raise BadKey("is not a NATS credentials file")
        return cls(blocks[0], KeyPair.from_seed(blocks[1], KeyKind.USER))

    def callbacks(self) -> dict[str, Callable[..., bytes | bytearray]]:
        """Return the arguments of `nats.connect` for these credentials."""
        return {
            "user_jwt_cb": lambda: bytearray(self.token.encode()),
            "signature_cb": lambda nonce: base64.b64encode(self.key.sign(nonce.encode())),
        }


def user_credentials(
    account: KeyPair, name: str, *, publish: Sequence[str], subscribe: Sequence[str]
) -> Credentials:
    """Return the credentials of a new user who may use only these subjects."""
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
    """A subject of an account to which users of the other account may send requests."""

    subject: str
    has_many_responses: bool = False
    """Whether a request can have several responses."""


def server_accounts(account: KeyPair, guests: KeyPair, shared: Sequence[SharedSubject]) -> str:
    """Return the server configuration that contains these accounts.

    `account` has the streams. `guests` has no streams, and its users may use the shared subjects.
    A new operator key signs the accounts; the key is not stored.
    """
    operator, system = KeyPair.generate(KeyKind.OPERATOR), KeyPair.generate(KeyKind.ACCOUNT)
    exports = [
        {
            "name": one.subject,
            "subject": one.subject,
            "type": "service",
            "response_type": "Stream" if one.has_many_responses else "Singleton",
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
