"""Tokens and `.creds` files."""

import base64
import json
from typing import Any

import pytest

from gpuplatform.nats.keys import BadKey, KeyKind, KeyPair
from gpuplatform.nats.tokens import Credentials, SharedSubject, server_accounts, user_credentials

ACCOUNT = KeyPair.generate(KeyKind.ACCOUNT)


def claims(token: str) -> dict[str, Any]:
    """Return the claims of the token."""
    part = token.split(".")[1]
    read: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return read


def test_user_has_only_listed_permissions() -> None:
    made = user_credentials(ACCOUNT, "fn-1", publish=["a"], subscribe=["b.>"])

    decoded = claims(made.token)
    assert (decoded["iss"], decoded["sub"], decoded["name"]) == (
        ACCOUNT.public,
        made.key.public,
        "fn-1",
    )
    assert decoded["nats"]["pub"] == {"allow": ["a"]}
    assert decoded["nats"]["sub"] == {"allow": ["b.>"]}


def test_credentials_file_round_trip() -> None:
    made = user_credentials(ACCOUNT, "fn-1", publish=["a"], subscribe=["b"])

    read = Credentials.from_file(made.file())

    assert (read.token, read.key.seed) == (made.token, made.key.seed)


@pytest.mark.parametrize("text", ["", "nothing", "-----BEGIN X-----\nabc\n------END X------\n"])
def test_invalid_credentials_file_is_refused(text: str) -> None:
    with pytest.raises(BadKey):
        Credentials.from_file(text)


def test_server_configuration_has_no_secret() -> None:
    guests = ACCOUNT.derived("guests")

    text = server_accounts(ACCOUNT, guests, [SharedSubject("a.*")])

    for pair in (ACCOUNT, guests):
        assert pair.public in text
        assert pair.seed not in text


def test_derived_account_is_stable() -> None:
    assert ACCOUNT.derived("a").seed == ACCOUNT.derived("a").seed
    assert len({pair.seed for pair in (ACCOUNT, ACCOUNT.derived("a"), ACCOUNT.derived("b"))}) == 3
