"""Tokens and `.creds` files."""

import base64
import json
from typing import Any

import pytest

from gpuplatform.nats.keys import BadKey, KeyKind, KeyPair
from gpuplatform.nats.tokens import Credentials, Shared, server_accounts, user_credentials

ACCOUNT = KeyPair.generate(KeyKind.ACCOUNT)


def claims(token: str) -> dict[str, Any]:
    """Return what the token says."""
    part = token.split(".")[1]
    read: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return read


def test_user_may_what_is_listed_and_nothing_else() -> None:
    made = user_credentials(ACCOUNT, "fn-1", publish=["a"], subscribe=["b.>"])

    said = claims(made.token)
    assert (said["iss"], said["sub"], said["name"]) == (ACCOUNT.public, made.key.public, "fn-1")
    assert said["nats"]["pub"] == {"allow": ["a"]}
    assert said["nats"]["sub"] == {"allow": ["b.>"]}


def test_credentials_survive_their_file() -> None:
    made = user_credentials(ACCOUNT, "fn-1", publish=["a"], subscribe=["b"])

    read = Credentials.from_file(made.file())

    assert (read.token, read.key.seed) == (made.token, made.key.seed)


@pytest.mark.parametrize("text", ["", "nothing", "-----BEGIN X-----\nabc\n------END X------\n"])
def test_what_is_no_credentials_file_is_refused(text: str) -> None:
    with pytest.raises(BadKey):
        Credentials.from_file(text)


def test_server_learns_of_the_account_and_no_secret() -> None:
    guests = ACCOUNT.derived("guests")

    text = server_accounts(ACCOUNT, guests, [Shared("a.*")])

    for pair in (ACCOUNT, guests):
        assert pair.public in text
        assert pair.seed not in text


def test_derived_account_is_another_one_and_always_the_same() -> None:
    assert ACCOUNT.derived("a").seed == ACCOUNT.derived("a").seed
    assert len({pair.seed for pair in (ACCOUNT, ACCOUNT.derived("a"), ACCOUNT.derived("b"))}) == 3
