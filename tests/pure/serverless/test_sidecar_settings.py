"""The settings of the sidecar, and its delays."""

import pytest

from serverless.sidecar.settings import Address, BadSettings, Retries, Settings

GIVEN = {
    "SERVERLESS_QUEUE_URL": "nats://nats:4222",
    "SERVERLESS_CREDENTIALS_DIRECTORY": "/run/queue",
    "SERVERLESS_TENANT": "acme",
    "SERVERLESS_FUNCTION_ID": "7",
    "SERVERLESS_WORKER_NAME": "fn-7-a",
}


def test_omitted_variables_have_defaults() -> None:
    read = Settings.from_environment(GIVEN)

    assert read.health == Address("", 8091)
    assert read.retries == Retries(5, (2, 10, 30))
    assert read.concurrency == 1
    assert read.drain_token == ""


@pytest.mark.parametrize("missing", sorted(GIVEN))
def test_missing_variable_is_named(missing: str) -> None:
    with pytest.raises(BadSettings, match=missing):
        Settings.from_environment({k: v for k, v in GIVEN.items() if k != missing})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("FUNCTION_ID", "0"),
        ("FUNCTION_ID", "x"),
        ("CONCURRENCY", "-1"),
        ("CONCURRENCY", "1.5"),
        ("BACKOFF_SECONDS", "1,,2"),
        ("BACKOFF_SECONDS", "1 2"),
        ("HEALTH_ADDRESS", "127.0.0.1"),
        ("MAX_DELIVER", "9" * 30),
    ],
)
def test_invalid_variable_is_named(name: str, text: str) -> None:
    with pytest.raises(BadSettings, match=f"SERVERLESS_{name}"):
        Settings.from_environment({**GIVEN, f"SERVERLESS_{name}": text})


def test_last_delay_repeats() -> None:
    retries = Retries(5, (2, 10))

    assert [retries.delay(attempt) for attempt in (1, 2, 3, 4)] == [2, 10, 10, 10]
    assert [retries.is_last(attempt) for attempt in (4, 5, 6)] == [False, True, True]
