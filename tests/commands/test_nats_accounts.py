"""What operators of a NATS server of their own are given."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from gpuplatform.nats.keys import KeyKind, KeyPair


def said(*arguments: str) -> str:
    """Return what the command prints."""
    out = StringIO()
    call_command("nats_accounts", *arguments, stdout=out)
    return out.getvalue()


def test_new_seed_is_one_of_an_account() -> None:
    pair = KeyPair.from_seed(said("--new-seed").strip(), KeyKind.ACCOUNT)

    assert pair.public.startswith("A")


def test_configuration_names_both_accounts_and_no_secret(settings: Settings) -> None:
    account = KeyPair.generate(KeyKind.ACCOUNT)
    settings.NATS_SEED = account.seed

    text = said()

    for pair in (account, account.derived("workers")):
        assert pair.public in text
        assert pair.seed not in text


def test_without_a_seed_it_says_how_to_make_one(settings: Settings) -> None:
    settings.NATS_SEED = ""

    with pytest.raises(CommandError, match="--new-seed"):
        said()
