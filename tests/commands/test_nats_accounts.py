"""`nats_accounts`: the configuration for an external NATS server."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from gpuplatform.nats.keys import KeyKind, KeyPair


def output(*arguments: str) -> str:
    """Return the output of the command."""
    out = StringIO()
    call_command("nats_accounts", *arguments, stdout=out)
    return out.getvalue()


def test_new_seed_is_account_seed() -> None:
    pair = KeyPair.from_seed(output("--new-seed").strip(), KeyKind.ACCOUNT)

    assert pair.public.startswith("A")


def test_configuration_has_both_accounts_and_no_secret(settings: Settings) -> None:
    account = KeyPair.generate(KeyKind.ACCOUNT)
    settings.NATS_SEED = account.seed

    text = output()

    for pair in (account, account.derived("workers")):
        assert pair.public in text
        assert pair.seed not in text


def test_missing_seed_is_reported(settings: Settings) -> None:
    settings.NATS_SEED = ""

    with pytest.raises(CommandError, match="--new-seed"):
        output()
