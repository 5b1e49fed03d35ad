"""What every test gets: no network beyond loopback, and golden files that one option rewrites."""

import ipaddress
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.db import connection
from pytest_django.plugin import blocking_manager_key

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="Rewrite the files in tests/golden."
    )


@pytest.fixture(scope="session")
def update_golden(pytestconfig: pytest.Config) -> bool:
    """Whether golden files are rewritten instead of compared."""
    return bool(pytestconfig.getoption("--update-golden"))


class GoldenFile:
    """One reviewed file of expected text."""

    def __init__(self, path: Path, *, is_update: bool) -> None:
        self.path = path
        self._is_update = is_update

    def check(self, text: str) -> None:
        """Compare the text with the file, or write it."""
        if self._is_update:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(text)
        assert self.path.exists(), f"{self.path} is missing: run 'make golden' and review it"
        assert text == self.path.read_text(), (
            f"{self.path.name} differs: 'make golden' rewrites it"
        )


class GoldenFiles:
    """Opens golden files by their path below tests/golden."""

    def __init__(self, *, is_update: bool) -> None:
        self._is_update = is_update

    def __call__(self, name: str) -> GoldenFile:
        return GoldenFile(GOLDEN / name, is_update=self._is_update)


@pytest.fixture(scope="session")
def golden(update_golden: bool) -> GoldenFiles:
    """`golden("inventory/pool.yaml").check(text)`."""
    return GoldenFiles(is_update=update_golden)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the group that waits most, so that the others run beside it."""
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """A test that commits ends with empty tables: put back what the migrations put there."""
    yield
    if nextitem is not None and _commits(item):
        with item.config.stash[blocking_manager_key].unblock():
            # A late request to a live server may have written into the empty tables.
            call_command(
                "flush",
                interactive=False,
                verbosity=0,
                inhibit_post_migrate=True,
                reset_sequences=False,
            )
            ContentType.objects.clear_cache()
            contents = getattr(connection, "_test_serialized_contents", "[]")
            connection.creation.deserialize_db_from_string(contents)


def _commits(item: pytest.Item) -> bool:
    marker = item.get_closest_marker("django_db")
    is_marked = marker is not None and bool(marker.kwargs.get("transaction"))
    fixtures = getattr(item, "fixturenames", ())
    return is_marked or "transactional_db" in fixtures or "live_server" in fixtures


def _is_loopback(address: Any) -> bool:
    if not isinstance(address, tuple):
        return True
    host = address[0]
    if host in {"", "localhost"}:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@pytest.fixture(scope="session", autouse=True)
def _loopback_only() -> Iterator[None]:
    """A test that would reach beyond this machine fails at the call."""
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def refuse(address: Any) -> None:
        if not _is_loopback(address):
            raise AssertionError(f"Tests may not connect to {address}.")

    def guarded_connect(self: socket.socket, address: Any) -> None:
        refuse(address)
        connect(self, address)

    def guarded_connect_ex(self: socket.socket, address: Any) -> int:
        refuse(address)
        return connect_ex(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded_connect)
        patch.setattr(socket.socket, "connect_ex", guarded_connect_ex)
        yield
