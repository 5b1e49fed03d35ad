"""The login: limits on failed attempts, the record of attempts, and the cost of a hash."""

import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.hashers import Argon2PasswordHasher, check_password, make_password
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from gpuplatform.adminkit.site import throttle
from gpuplatform.dev.embedded.ports import free_port
from tests.admin.conftest import PASSWORD

pytestmark = pytest.mark.django_db
PAGE = "/admin/login/"
ALLOWED = throttle.FAILURES_OF_PAIR.amount


@pytest.fixture(autouse=True, params=["broker", "process"])
def counters(request: pytest.FixtureRequest) -> Iterator[str]:
    """The place of the counters, which are empty: the broker, or this process without a broker."""
    throttle._PROCESS.reset()
    limiters = throttle._PROCESS.get()
    limiters.shared.storage.reset()
    if request.param == "process":
        limiters.shared_again_at = float("inf")
    yield request.param
    throttle._PROCESS.reset()


def test_the_broker_counts_for_all_processes(counters: str) -> None:
    fail(ALLOWED)
    throttle._PROCESS.reset()  # As in another process.

    expected = 429 if counters == "broker" else 200
    assert attempt("ada", "wrong").status_code == expected


def test_a_process_counts_alone_while_the_broker_does_not_respond(settings: Settings) -> None:
    settings.CELERY_BROKER_URL = f"redis://127.0.0.1:{free_port()}/0"
    throttle._PROCESS.reset()

    fail(ALLOWED)

    assert attempt("ada", "wrong").status_code == 429


@pytest.fixture
def person(db: None) -> User:
    return User.objects.create_superuser("ada", password=PASSWORD)


def attempt(
    name: str, password: str, address: str = "198.51.100.7", forwarded_for: str = ""
) -> Any:
    form = {"username": name, "password": password}
    headers = {"X-Forwarded-For": forwarded_for} if forwarded_for else None
    return Client().post(PAGE, form, headers=headers, REMOTE_ADDR=address)


def fail(times: int, name: str = "ada", address: str = "198.51.100.7") -> None:
    for _ in range(times):
        assert attempt(name, "wrong", address).status_code == 200


@pytest.mark.usefixtures("person")
def test_after_some_failures_the_correct_password_must_wait() -> None:
    fail(ALLOWED)

    refused = attempt("ADA", PASSWORD)

    assert refused.status_code == 429
    assert 0 < int(refused.headers["Retry-After"]) <= 600
    assert attempt("ada", PASSWORD, "203.0.113.1").status_code == 302


@pytest.mark.usefixtures("person")
def test_a_login_forgets_the_failures_before_it() -> None:
    fail(ALLOWED - 1)
    assert attempt("ada", PASSWORD).status_code == 302

    fail(ALLOWED - 1)

    assert attempt("ada", PASSWORD).status_code == 302


def test_an_address_that_tries_many_names_must_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle.FAILURES_OF_ADDRESS, "amount", 3)
    for number in range(3):
        fail(1, f"name-{number}")

    assert attempt("another", "wrong").status_code == 429
    assert attempt("another", "wrong", "203.0.113.1").status_code == 200


def test_a_name_that_many_addresses_try_must_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle.FAILURES_OF_NAME, "amount", 3)
    for number in range(3):
        fail(1, address=f"203.0.113.{number}")

    assert attempt("ada", "wrong").status_code == 429
    assert attempt("grace", "wrong").status_code == 200


def test_a_proxy_forwards_the_address_only_if_it_is_trusted() -> None:
    for number in range(ALLOWED):
        attempt("ada", "wrong", forwarded_for=f"203.0.113.{number}")

    assert attempt("ada", "wrong", forwarded_for="203.0.113.99").status_code == 429
    through = attempt("ada", "wrong", "127.0.0.1", forwarded_for="203.0.113.99")
    assert through.status_code == 200


@pytest.mark.usefixtures("person")
def test_every_attempt_is_logged_with_name_and_address(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="gpuplatform.logins")
    fail(ALLOWED)
    attempt("ada", PASSWORD)
    attempt("ada", PASSWORD, "203.0.113.1")

    found = [vars(record) for record in caplog.records if record.name == "gpuplatform.logins"]
    assert [one["outcome"] for one in found] == [*["failed"] * ALLOWED, "rejected", "succeeded"]
    assert {one["user"] for one in found} == {"ada"}
    assert [one["address"] for one in found[-2:]] == ["198.51.100.7", "203.0.113.1"]
    assert "wrong" not in caplog.text


def test_a_hash_needs_19_mib() -> None:
    assert "$argon2id$v=19$m=19456,t=2,p=1$" in make_password(PASSWORD)


def test_a_process_computes_one_hash_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = threading.Semaphore(1)
    overlaps: list[bool] = []
    encoded = make_password(PASSWORD)
    original = Argon2PasswordHasher.verify

    def verify(self: Argon2PasswordHasher, password: str, stored: str) -> bool:
        is_alone = busy.acquire(blocking=False)
        overlaps.append(not is_alone)
        try:
            return bool(original(self, password, stored))
        finally:
            if is_alone:
                busy.release()

    monkeypatch.setattr(Argon2PasswordHasher, "verify", verify)
    barrier = threading.Barrier(4)

    def check() -> None:
        barrier.wait()
        check_password(PASSWORD, encoded)

    threads = [threading.Thread(target=check) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert overlaps == [False] * 4
