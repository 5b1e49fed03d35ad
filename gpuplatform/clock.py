"""The one clock of the platform, so that tests can own time.

Everybody who needs a wall-clock time calls `now()`; nobody who decides (`plan`) does.
"""

from datetime import UTC, datetime


def now() -> datetime:
    """Return the present time, aware, in UTC."""
    return datetime.now(UTC)


def rfc3339(moment: datetime) -> str:
    """Return `moment` as Kubernetes writes times: UTC, whole seconds, `Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_rfc3339(text: str) -> datetime:
    """Read a time as Kubernetes writes it.

    Raises:
        ValueError: `text` is not such a time.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        msg = f"{text!r} has no time zone"
        raise ValueError(msg)
    return moment.astimezone(UTC)
