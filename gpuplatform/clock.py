"""The wall clock of the platform, which tests can replace.

Code that needs the current time calls `now()`. Planners receive the time as an argument.
"""

from datetime import UTC, datetime


def now() -> datetime:
    """Return the current time as an aware datetime in UTC."""
    return datetime.now(UTC)


def rfc3339(moment: datetime) -> str:
    """Return `moment` in the format of Kubernetes: UTC with whole seconds and the suffix `Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_rfc3339(text: str) -> datetime:
    """Return the time in `text`, which has the format of Kubernetes.

    Raises:
        ValueError: If `text` does not have this format.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        msg = f"{text!r} has no time zone"
        raise ValueError(msg)
    return moment.astimezone(UTC)
