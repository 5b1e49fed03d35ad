"""A user's `DATABASE_URL` and `REDIS_URL` are checked before any process starts."""

import socket

import pytest

from gpuplatform.dev.embedded.errors import StartError
from gpuplatform.dev.embedded.options import Options


@pytest.mark.parametrize(
    ("name", "address", "words"),
    [
        ("REDIS_URL", "foo", "not a valid address"),
        ("REDIS_URL", "http://127.0.0.1:1", "not a valid address"),
        ("REDIS_URL", "redis://127.0.0.1:1/0", "Cannot connect to"),
        ("DATABASE_URL", "hello", "not a valid address"),
        ("DATABASE_URL", "sqlite:///x.db", "not a valid address"),
        ("DATABASE_URL", "postgres://u:p@127.0.0.1:70000/x", "not a valid address"),
        ("DATABASE_URL", "postgres://u:p@127.0.0.1:1/x", "Cannot connect to"),
    ],
)
def test_an_unusable_address_is_an_error(name: str, address: str, words: str) -> None:
    with pytest.raises(StartError) as refused:
        Options.from_environment({name: address})

    assert name in str(refused.value)
    assert words in str(refused.value)


def test_a_listening_server_is_accepted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"redis://127.0.0.1:{server.getsockname()[1]}/3"

        options = Options.from_environment({"REDIS_URL": address})

    assert options.redis_url == address


def test_an_external_queue_requires_the_seed_of_its_account() -> None:
    with pytest.raises(StartError, match="GPUPLATFORM_NATS_SEED"):
        Options.from_environment({"NATS_URL": "nats://127.0.0.1:4222"})
