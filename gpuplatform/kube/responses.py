"""Maps failures of the API server to a `ClusterError`; the only place that does.

The reason and the message of the Status object decide, not only the HTTP status: a 500 can be a
deterministic rejection, a 404 can mean that a kind is not installed, a 403 can mean that a quota
is exceeded. Called by `client` and `watch` only.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from urllib3 import exceptions as http

from gpuplatform.errors import (
    ClusterConflict,
    ClusterError,
    ClusterForbidden,
    ClusterGone,
    ClusterRejected,
    ClusterUnavailable,
)

MESSAGE_LIMIT = 300
"""Maximum length of a failure's message, in characters."""

_KIND_MISSING = "the server could not find the requested resource"

_REJECTED_WITH_500 = (
    "duplicate entries for key",
    "field not declared in schema",
    "failed to create typed patch object",
)
"""Faults of a manifest that server-side apply answers with status 500."""

_UID_FIELD = "metadata.uid"


@dataclass(frozen=True, slots=True)
class Failure:
    """An unsuccessful response: the HTTP status and the fields of the Status object."""

    status: int
    reason: str = ""
    message: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    retry_after: float | None = None

    @property
    def is_missing_object(self) -> bool:
        """Whether the API server reports that the object does not exist.

        A 404 without the name of an object means that the kind is not installed (yet), or that
        another server answered: nothing is known about the object then.
        """
        return (
            self.status == 404
            and bool(self.details.get("name"))
            and not self.message.startswith(_KIND_MISSING)
        )


def parse_failure(status: int, headers: Mapping[str, str], body: bytes) -> Failure:
    """Read an unsuccessful response of any content: the server may not be an API server."""
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    if not isinstance(document, dict) or document.get("kind") != "Status":
        return Failure(status, retry_after=_seconds(headers.get("Retry-After")))
    return failure_of_status(document, status=status, header=headers.get("Retry-After"))


def failure_of_status(
    document: Mapping[str, Any], *, status: int | None = None, header: str | None = None
) -> Failure:
    """Read a Status object; `status` is the HTTP status (None for an event of a watch)."""
    details = document.get("details")
    details = details if isinstance(details, dict) else {}
    code = document.get("code")
    return Failure(
        status=status if status is not None else code if isinstance(code, int) else 500,
        reason=_text(document.get("reason")),
        message=_text(document.get("message")),
        details=details,
        retry_after=_seconds(header) or _seconds(details.get("retryAfterSeconds")),
    )


def error_for(failure: Failure) -> ClusterError:
    """Return the error whose class determines what may be done about `failure`."""
    status, reason = failure.status, failure.reason
    text = _describe(failure)
    if _is_rejection(failure):
        message = f"The cluster rejects the object: {text}"
        return ClusterRejected(trimmed(message), reason=reason, status=status, detail=text)
    if status == 410 or reason in {"Expired", "Gone"}:
        message = f"The cluster no longer has this resource version: {text}"
        return ClusterGone(trimmed(message), reason=reason or "Expired", status=status)
    if status == 409 or _is_other_incarnation(failure):
        return ClusterConflict(trimmed(text), reason=reason or "Conflict", status=status)
    if status in {401, 403}:
        message = f"The cluster forbids the request: {text}"
        return ClusterForbidden(trimmed(message), reason=reason, status=status)
    message = f"The cluster is temporarily unavailable: {text}"
    if status == 404:
        message = "The cluster does not know this kind. Run 'manage.py install_cluster'."
    return ClusterUnavailable(
        trimmed(message), reason=reason, status=status, retry_after=failure.retry_after
    )


def _is_rejection(failure: Failure) -> bool:
    """Return whether the same request would be rejected again later."""
    if failure.status == 500:
        return any(text in failure.message for text in _REJECTED_WITH_500)
    if failure.status == 404:
        return failure.is_missing_object
    passing = {401, 403, 408, 409, 410, 425, 429}
    return (
        400 <= failure.status < 500
        and failure.status not in passing
        and failure.reason not in {"Expired", "Gone"}
        and not _is_other_incarnation(failure)
    )


def _is_other_incarnation(failure: Failure) -> bool:
    """Return whether a patch named another UID: an invalid change of an immutable field."""
    return failure.status == 422 and any(
        _text(cause.get("field")) == _UID_FIELD for cause in _causes(failure)
    )


def _describe(failure: Failure) -> str:
    causes = _causes(failure)
    # A rejected apply names the conflicting fields in its causes, the managers in its message.
    if failure.status in {400, 422} and causes:
        sentences = [_cause(cause) for cause in causes]
        # Two checks of one field can report the same cause.
        if joined := "; ".join(dict.fromkeys(filter(None, sentences))):
            return joined
    return failure.message or failure.reason or f"it responds with HTTP status {failure.status}"


def _causes(failure: Failure) -> list[Mapping[str, Any]]:
    """Return the causes in the details of a Status: field, reason and message of each."""
    causes = failure.details.get("causes")
    return (
        [cause for cause in causes if isinstance(cause, dict)] if isinstance(causes, list) else []
    )


def _cause(cause: Mapping[str, Any]) -> str:
    where, what = _text(cause.get("field")), _text(cause.get("message"))
    return f"{where}: {what}" if where and where != "<nil>" else what


def no_answer(fault: http.HTTPError | OSError | ValueError) -> ClusterUnavailable:
    """Return the error for a request without a complete response: it may have been executed."""
    message = f"The cluster does not answer: {_why(fault)}. The platform retries automatically."
    return ClusterUnavailable(message, context={"fault": repr(fault)})


def unreadable(what: str) -> ClusterUnavailable:
    """Return the error for a response that cannot come from an API server."""
    return ClusterUnavailable(
        f"The cluster sent an unreadable response: {what}. The platform retries automatically.",
    )


def _why(fault: Exception) -> str:
    chain: list[Exception] = [fault]
    while isinstance(cause := chain[-1].__cause__ or chain[-1].__context__, Exception):
        chain.append(cause)
    for kinds, text in _REASONS:
        if any(isinstance(link, kinds) for link in chain):
            return text
    return "the connection was lost"


_REASONS: tuple[tuple[type[Exception] | tuple[type[Exception], ...], str], ...] = (
    # The first two also count as timeouts of a connection for urllib3.
    (http.NameResolutionError, "its name cannot be resolved"),
    (ConnectionRefusedError, "connection refused"),
    (http.ConnectTimeoutError, "no connection in time"),
    ((http.ReadTimeoutError, TimeoutError), "no answer in time"),
    (http.SSLError, "its certificate cannot be verified"),
    (http.ProxyError, "the proxy fails"),
    (http.LocationParseError, "its address is not valid"),
)


def trimmed(text: str) -> str:
    """Return `text` on one line, cut with an ellipsis at the limit."""
    line = " ".join(text.split())
    return line if len(line) <= MESSAGE_LIMIT else line[: MESSAGE_LIMIT - 1].rstrip() + "…"


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _seconds(value: object) -> float | None:
    """Read a number of seconds; a date, which Kubernetes never sends, reads as absent."""
    if not isinstance(value, str | int | float):
        return None
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if 0 < seconds < float("inf") else None
