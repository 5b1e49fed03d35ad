"""When a schedule is sent next, as beat would find it by the row."""

from datetime import datetime, timedelta

from django_celery_beat.models import PeriodicTask


def next_run(row: PeriodicTask, at: datetime) -> datetime | None:
    """Return the next time after `at`; None for what is not sent, or is of an unused kind.

    Beat writes down only every few minutes what it has sent, and keeps to the interval meanwhile:
    an interval is counted on from what is written.
    """
    if not row.enabled:
        return None
    begins: datetime | None = row.start_time
    if begins is not None and begins > at:
        return begins
    if row.interval is not None:
        step = timedelta(**{row.interval.period: row.interval.every})
        begun: datetime = row.last_run_at or row.date_changed
        return begun + step * max((at - begun) // step + 1, 1)
    if row.crontab is not None:
        start, wait, _ = row.crontab.schedule.remaining_delta(at)
        due: datetime = start + wait
        return due
    return None
