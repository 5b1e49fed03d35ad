"""Fixtures and hooks of all tests: connections only on loopback, and updatable golden files."""

import ipaddress
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.nodeid import NodeId
from django.core.management import call_command
from django.db import connection
from django.db.backends.base.creation import BaseDatabaseCreation
from django.db.backends.postgresql.operations import DatabaseOperations
from pytest_django.plugin import DjangoDbBlocker, blocking_manager_key

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="Rewrite the files in tests/golden."
    )


@pytest.fixture(scope="session")
def update_golden(pytestconfig: pytest.Config) -> bool:
    """Whether golden files are written instead of compared."""
    return bool(pytestconfig.getoption("--update-golden"))


class GoldenFile:
    """One reviewed file of expected text."""

    def __init__(self, path: Path, *, is_update: bool) -> None:
        self.path = path
        self._is_update = is_update

    def check(self, text: str) -> None:
        """Compare the text with the file, or write the file."""
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
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Start with the tests of groups, then the longest ones; the others run in parallel."""
    items.sort(key=lambda item: (item.get_closest_marker("xdist_group") is None, -_lasts(item)))
    if config.getoption("loadgroup", default=False):
        for item in items:
            _name_group(item)


def _lasts(item: pytest.Item) -> float:
    marker = item.get_closest_marker("lasts")
    return float(marker.kwargs["seconds"]) if marker is not None else 0


def _name_group(item: pytest.Item) -> None:
    """Append the group of a test to its id, from which the controller of xdist reads it.

    xdist 3.8 stores it where pytest 9.2 does not read it, so groups would have no effect.
    """
    marker = item.get_closest_marker("xdist_group")
    if marker is not None and "@" not in item.nodeid.rpartition("]")[2]:
        named = NodeId.parse(f"{item.nodeid}@{marker.args[0]}")
        item._id = named


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Also delete rows that a late request to a live server wrote after the end of a test."""
    yield
    if nextitem is not None and _commits(item):
        with item.config.stash[blocking_manager_key].unblock():
            call_command("flush", interactive=False, verbosity=0, inhibit_post_migrate=True)


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """The database with the schedules; a flush restores the rows of `prepare_database`.

    Django truncates the tables and reads rows from JSON, which is slower.
    """
    from gpuplatform.schedules.sync import sync_schedules  # noqa: PLC0415 - needs the models

    with django_db_blocker.unblock(), pytest.MonkeyPatch.context() as patch:
        sync_schedules()
        flush = _restoring_flush()
        patch.setattr(DatabaseOperations, "sql_flush", lambda *_, **__: flush)
        patch.setattr(BaseDatabaseCreation, "deserialize_db_from_string", lambda *_, **__: None)
        with django_db_blocker.block():
            yield


def _restoring_flush() -> list[str]:
    """Copy the rows of all tables; return the statements that restore them."""
    with connection.cursor() as cursor:
        tables = connection.introspection.django_table_names(only_existing=True)
        names = [connection.ops.quote_name(table) for table in sorted(tables)]
        cursor.execute("CREATE SCHEMA migrated")
        for name in names:
            cursor.execute(f"CREATE TABLE migrated.{name} AS TABLE {name}")
        steps = (
            f"IF EXISTS (SELECT FROM {name}) THEN DELETE FROM {name}; END IF;"
            f" INSERT INTO {name} SELECT * FROM migrated.{name};"
            for name in names
        )
        return [
            f"LOCK TABLE {', '.join(names)} IN EXCLUSIVE MODE",  # Waits for open writes.
            "SET LOCAL session_replication_role = replica",  # Foreign keys are not checked.
            f"DO $$ BEGIN {' '.join(steps)} END $$",
        ]


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
def _no_renewals() -> Iterator[None]:
    """Leases are not renewed: a renewing thread could continue after the end of its test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpuplatform.reconciliation.leases.RENEWALS_PER_LEASE", 0.01)
        yield


@pytest.fixture(scope="session", autouse=True)
def _unlimited_rates() -> Iterator[None]:
    """Rates of requests are unlimited, except in their own tests."""
    from django.conf import settings  # noqa: PLC0415 - the plugin prepares the environment

    from gpuplatform.settings.rates import Rates  # noqa: PLC0415 - as above

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settings, "RATES", Rates())
        yield


@pytest.fixture(scope="session", autouse=True)
def _loopback_only() -> Iterator[None]:
    """A connection to an address other than loopback fails the test."""
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
