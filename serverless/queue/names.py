"""What everything in the queue is called: streams, subjects, consumers and secrets. Pure.

Read by the platform's processes and by the sidecar, which has no Django.
"""

import re
from typing import Final

INVOCATIONS: Final = "GPUPLATFORM_INVOCATIONS"
"""The stream of work: a message is there until its invocation has ended."""

RESULTS: Final = "GPUPLATFORM_RESULTS"
"""The stream of what workers say; a message is there until it is stored."""

ADVISORIES: Final = "GPUPLATFORM_ADVISORIES"
"""The stream of what the server says of messages that nobody will get any more."""

RESULT_CONSUMER: Final = "results"
ADVISORY_CONSUMER: Final = "advisories"

INVOCATION_SUBJECTS: Final = "gpu.invoke.>"
RESULT_SUBJECTS: Final = "gpu.result.>"
ADVISORY_SUBJECTS: Final = tuple(
    f"$JS.EVENT.ADVISORY.CONSUMER.{what}.{INVOCATIONS}.>"
    for what in ("MAX_DELIVERIES", "MSG_TERMINATED")
)

ACK_WAIT_SECONDS: Final = 30.0
"""A worker that is silent for so long has lost its message."""

PROGRESS_SECONDS: Final = ACK_WAIT_SECONDS / 3
"""How often a worker says that it still works."""

_INVOCATION_SUBJECT: Final = re.compile(r"gpu\.invoke\.([a-z0-9-]+)\.([1-9][0-9]{0,18})")

CREDENTIALS_KEY: Final = "queue.creds"
"""The key of the credentials in their Secret, and so the name of the file."""


def invocation_subject(tenant: str, function: int) -> str:
    """Return the subject of a function's invocations."""
    return f"gpu.invoke.{tenant}.{function}"


def function_of_subject(subject: str) -> tuple[str, int] | None:
    """Return tenant and number of the function whose invocations have it; None for another."""
    found = _INVOCATION_SUBJECT.fullmatch(subject)
    return (found[1], int(found[2])) if found else None


def result_subject(tenant: str, function: int) -> str:
    """Return the only subject on which a function's workers may say something."""
    return f"gpu.result.{tenant}.{function}"


def consumer_name(function: int) -> str:
    """Return the durable consumer that all workers of a function share."""
    return f"fn-{function}"


def inbox_prefix(function: int) -> str:
    """Return what every inbox of the function's workers begins with."""
    return f"_INBOX.fn-{function}"


def secret_name(function: int) -> str:
    """Return the Secret with the credentials of the function's workers."""
    return f"fn-{function}-queue"


def unit_prefix(function: int) -> str:
    """Return what the name of each GPU unit begins with that is a worker of the function."""
    return f"fn-{function}-"
