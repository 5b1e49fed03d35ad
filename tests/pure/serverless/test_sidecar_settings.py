"""Settings of the sidecar, and its delays."""

import pytest

from serverless.sidecar.settings import Address, BadSettings, Settings

GIVEN = {
    "SERVERLESS_QUEUE_URL": "nats://nats:4222",
    "SERVERLESS_CREDENTIALS_DIRECTORY": "/run/queue",
    "SERVERLESS_TENANT": "acme",
    "SERVERLESS_FUNCTION_ID": "7",
    "SERVERLESS_WORKER_NAME": "fn-7-a",
}


def test_omitted_variables_have_defaults() -> None:
    read = Settings.from_environment(GIVEN)

    assert read.health_address == Address("", 8091)
    assert (read.max_deliver, read.backoff_seconds) == (5, (2, 10, 30))
    assert read.concurrency == 1
    assert read.drain_token == ""


def test_variables_are_read() -> None:
    read = Settings.from_environment(
        {
            **GIVEN,
            "SERVERLESS_HEALTH_ADDRESS": "127.0.0.1:9",
            "SERVERLESS_PROGRESS_SECONDS": "1",
        }
    )

    assert read.health_address == Address("127.0.0.1", 9)
    assert (read.function_id, read.progress_seconds) == (7, 1.0)


@pytest.mark.parametrize("missing", sorted(GIVEN))
@pytest.mark.parametrize("value", [None, ""])
def test_missing_variable_is_named(missing: str, value: str | None) -> None:
    given = {name: text for name, text in GIVEN.items() if name != missing}

    with pytest.raises(BadSettings, match=missing):
        Settings.from_environment(given if value is None else {**given, missing: value})


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
    settings = Settings.from_environment({**GIVEN, "SERVERLESS_BACKOFF_SECONDS": "2, 10"})

    assert [settings.delay(attempt) for attempt in (1, 2, 3, 4)] == [2, 10, 10, 10]
    assert [settings.is_last(attempt) for attempt in (4, 5, 6)] == [False, True, True]
