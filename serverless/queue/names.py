"""Names of streams, subjects, consumers and Secrets, and the times of a delivery. Pure.

Used by platform processes and by the sidecar, whose image does not contain Django.
"""

import re
from typing import Final

INVOCATIONS: Final = "GPUPLATFORM_INVOCATIONS"
"""Stream of invocations. It stores a message until the invocation has ended."""

RESULTS: Final = "GPUPLATFORM_RESULTS"
"""Stream of the reports of workers. It stores a message until the report is in the database."""

ADVISORIES: Final = "GPUPLATFORM_ADVISORIES"
"""Stream of the server's advisories about messages that it no longer delivers."""

RESULT_CONSUMER: Final = "results"
ADVISORY_CONSUMER: Final = "advisories"

INVOCATION_SUBJECTS: Final = "gpu.invoke.>"
RESULT_SUBJECTS: Final = "gpu.result.>"
ADVISORY_SUBJECTS: Final = tuple(
    f"$JS.EVENT.ADVISORY.CONSUMER.{event}.{INVOCATIONS}.>"
    for event in ("MAX_DELIVERIES", "MSG_TERMINATED")
)

ACK_WAIT_SECONDS: Final = 30.0
"""Time in seconds after which a message without a progress report is delivered again."""

PROGRESS_SECONDS: Final = ACK_WAIT_SECONDS / 3
"""Interval in seconds at which a worker reports progress."""

_INVOCATION_SUBJECT: Final = re.compile(r"gpu\.invoke\.([a-z0-9-]+)\.([1-9][0-9]{0,18})")

CREDENTIALS_KEY: Final = "queue.creds"
"""Key of the credentials in their Secret, and name of the file in the volume of the Secret."""


def invocation_subject(tenant: str, function: int) -> str:
    """Return the subject of a function's invocations."""
    return f"gpu.invoke.{tenant}.{function}"


def function_of_subject(subject: str) -> tuple[str, int] | None:
    """Return the tenant and the function id of a subject of invocations.

    Returns `None` if the subject is not a subject of invocations.
    """
    found = _INVOCATION_SUBJECT.fullmatch(subject)
    return (found[1], int(found[2])) if found else None


def result_subject(tenant: str, function: int) -> str:
    """Return the only subject to which a function's workers can publish reports."""
    return f"gpu.result.{tenant}.{function}"


def consumer_name(function: int) -> str:
    """Return the name of the durable consumer that all workers of a function share."""
    return f"fn-{function}"


def inbox_prefix(function: int) -> str:
    """Return the prefix of the inboxes of a function's workers."""
    return f"_INBOX.fn-{function}"


def secret_name(function: int) -> str:
    """Return the name of the Secret that contains the credentials of a function's workers."""
    return f"fn-{function}-queue"


def unit_prefix(function: int) -> str:
    """Return the prefix of the names of the GPU units that are workers of a function."""
    return f"fn-{function}-"
