"""Beat with a database that is unavailable for a while."""

from collections.abc import Iterator

import pytest
from celery import current_app
from django.db import connection
from django_celery_beat.models import PeriodicTask

from gpuplatform.processes.beat import NEVER, HeartbeatScheduler
from gpuplatform.reconciliation.heartbeats import Part
from gpuplatform.reconciliation.models import ProcessHeartbeat
from tests.fakes.installed import Broker

COMMITTING = pytest.mark.django_db(transaction=True, serialized_rollback=True)
NAME = "Sweep operations"


@pytest.fixture
def scheduler(broker: Broker) -> Iterator[HeartbeatScheduler]:
    """A scheduler without its final write to the database, which no test would roll back."""
    made = HeartbeatScheduler(app=current_app)
    yield made
    made._finalize.cancel()


@COMMITTING
def test_beat_survives_an_unavailable_database_while_it_reads_schedules(
    scheduler: HeartbeatScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler.tick()
    PeriodicTask.objects.filter(name=NAME).update(enabled=False)  # Only a full read detects it.
    scheduler._last_full_sync = NEVER  # A full read is due every five minutes.

    connection.close()
    with monkeypatch.context() as away:
        away.setitem(connection.settings_dict, "PORT", "1")
        pause = scheduler.tick()
    known = set(scheduler.old_schedulers)
    scheduler.tick()

    assert 0 < pause < 5
    assert NAME in known
    assert NAME not in scheduler.old_schedulers


@COMMITTING
def test_beat_sends_a_heartbeat_as_soon_as_the_database_is_back(
    scheduler: HeartbeatScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:

    connection.close()
    with monkeypatch.context() as away:
        away.setitem(connection.settings_dict, "PORT", "1")
        scheduler.tick()
    scheduler.tick()

    assert ProcessHeartbeat.objects.filter(part=Part.BEAT).exists()
