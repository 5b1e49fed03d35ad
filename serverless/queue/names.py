"""Names in the queue: streams, subjects, consumers, Secrets; and the times of a delivery. Pure.

Used by platform processes and by the sidecar, which has no Django.
"""

import re
from typing import Final

INVOCATIONS: Final = "GPUPLATFORM_INVOCATIONS"
"""The stream of invocations: it has a message until the invocation has ended."""

RESULTS: Final = "GPUPLATFORM_RESULTS"
"""The stream of workers' reports: it has a message until the report is stored."""

ADVISORIES: Final = "GPUPLATFORM_ADVISORIES"
"""The stream of the server's advisories about messages that are not delivered any more."""

RESULT_CONSUMER: Final = "results"
ADVISORY_CONSUMER: Final = "advisories"

INVOCATION_SUBJECTS: Final = "gpu.invoke.>"
RESULT_SUBJECTS: Final = "gpu.result.>"
ADVISORY_SUBJECTS: Final = tuple(
    f"$JS.EVENT.ADVISORY.CONSUMER.{event}.{INVOCATIONS}.>"
    for event in ("MAX_DELIVERIES", "MSG_TERMINATED")
)

ACK_WAIT_SECONDS: Final = 30.0
"""A message without progress for this time is delivered to another worker."""

PROGRESS_SECONDS: Final = ACK_WAIT_SECONDS / 3
"""Interval at which a worker reports progress."""

_INVOCATION_SUBJECT: Final = re.compile(r"gpu\.invoke\.([a-z0-9-]+)\.([1-9][0-9]{0,18})")

CREDENTIALS_KEY: Final = "queue.creds"
"""The key of the credentials in their Secret, and so the name of the file."""


def invocation_subject(tenant: str, function: int) -> str:
    """Return the subject of a function's invocations."""
    return f"gpu.invoke.{tenant}.{function}"


def function_of_subject(subject: str) -> tuple[str, int] | None:
    """Return tenant and function id of a subject of invocations; None for another subject."""
    found = _INVOCATION_SUBJECT.fullmatch(subject)
    return (found[1], int(found[2])) if found else None


def result_subject(tenant: str, function: int) -> str:
    """Return the only subject to which a function's workers may publish reports."""
    return f"gpu.result.{tenant}.{function}"


def consumer_name(function: int) -> str:
    """Return the name of the durable consumer that all workers of a function share."""
    return f"fn-{function}"


def inbox_prefix(function: int) -> str:
    """Return the prefix of the inboxes of a function's workers."""
    return f"_INBOX.fn-{function}"


def secret_name(function: int) -> str:
    """Return the name of the Secret with the credentials of a function's workers."""
    return f"fn-{function}-queue"


def unit_prefix(function: int) -> str:
    """Return the prefix of the names of a function's workers, which are GPU units."""
    return f"fn-{function}-"
