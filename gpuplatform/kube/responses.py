"""What an answer of the API server means to us: the one place that turns it into a `ClusterError`.

The reason and the message of the Status object decide, not the HTTP status alone: a 500 can be a
deterministic refusal, a 404 can mean that a whole kind is not installed, a 403 can be a full
quota. Called by `client` and `watch` only.
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
"""A failure shown to a person is one sentence of at most this many characters."""

_KIND_MISSING = "the server could not find the requested resource"

_REFUSED_WITH_500 = (
    "duplicate entries for key",
    "field not declared in schema",
    "failed to create typed patch object",
)
"""Faults of an applied manifest that server-side apply answers as if the server had failed."""

_UID_FIELD = "metadata.uid"


@dataclass(frozen=True, slots=True)
class Failure:
    """An answer that is no success: the HTTP status and what the Status object says."""

    status: int
    reason: str = ""
    message: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    retry_after: float | None = None

    @property
    def is_missing_object(self) -> bool:
        """Whether the API server looked for the object and it is not there.

        A 404 that names no object says that the kind is not installed (yet), or that something
        else than an API server answered: nothing is known about the object then.
        """
        return (
            self.status == 404
            and bool(self.details.get("name"))
            and not self.message.startswith(_KIND_MISSING)
        )


def parse_failure(status: int, headers: Mapping[str, str], body: bytes) -> Failure:
    """Read an answer that is no success; total: anything can be behind an address."""
    try:
        said = json.loads(body)
    except ValueError:
        said = None
    if not isinstance(said, dict) or said.get("kind") != "Status":
        return Failure(status, retry_after=_seconds(headers.get("Retry-After")))
    return failure_of_status(said, status=status, header=headers.get("Retry-After"))


def failure_of_status(
    said: Mapping[str, Any], *, status: int | None = None, header: str | None = None
) -> Failure:
    """Read a Status object; `status` is the HTTP status where there was one (not for events)."""
    details = said.get("details")
    details = details if isinstance(details, dict) else {}
    code = said.get("code")
    return Failure(
        status=status if status is not None else code if isinstance(code, int) else 500,
        reason=_text(said.get("reason")),
        message=_text(said.get("message")),
        details=details,
        retry_after=_seconds(header) or _seconds(details.get("retryAfterSeconds")),
    )


def error_for(failure: Failure) -> ClusterError:
    """Return the error that says what may be done about `failure`."""
    status, reason = failure.status, failure.reason
    words = _words(failure)
    if _is_refusal(failure):
        message = f"The cluster refuses the object: {words}"
        return ClusterRejected(trimmed(message), reason=reason, status=status)
    if status == 410 or reason in {"Expired", "Gone"}:
        message = f"The cluster no longer has that version; everything is listed again: {words}"
        return ClusterGone(trimmed(message), reason=reason or "Expired", status=status)
    if status == 409 or _is_other_incarnation(failure):
        return ClusterConflict(trimmed(words), reason=reason or "Conflict", status=status)
    if status in {401, 403}:
        message = f"The cluster forbids it: {words}"
        return ClusterForbidden(trimmed(message), reason=reason, status=status)
    message = f"The cluster cannot answer at present: {words}"
    if status == 404:
        message = "The cluster does not know this kind. Run 'manage.py install_cluster'."
    return ClusterUnavailable(
        trimmed(message), reason=reason, status=status, retry_after=failure.retry_after
    )


def _is_refusal(failure: Failure) -> bool:
    """Whether the same request would be refused tomorrow as well."""
    if failure.status == 500:
        return any(words in failure.message for words in _REFUSED_WITH_500)
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
    """A patch that names another UID is answered as an invalid change of an immutable field."""
    return failure.status == 422 and any(
        _text(cause.get("field")) == _UID_FIELD for cause in _causes(failure)
    )


def _words(failure: Failure) -> str:
    causes = _causes(failure)
    # A refused apply names the fields in conflict in its causes and the managers in its message.
    if failure.status in {400, 422} and causes:
        sentences = [_cause(cause) for cause in causes]
        # The same cause can come twice, from two checks of one field.
        if joined := "; ".join(dict.fromkeys(filter(None, sentences))):
            return joined
    return failure.message or failure.reason or f"it answers with HTTP status {failure.status}"


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
    """Return the error for a request without a whole answer: it may have been done anyhow."""
    message = f"The cluster does not answer: {_why(fault)}. The platform tries again by itself."
    return ClusterUnavailable(message, context={"fault": repr(fault)})


def unreadable(what: str) -> ClusterUnavailable:
    """Return the error for an answer that is not what an API server says."""
    return ClusterUnavailable(
        f"The cluster sent an answer that cannot be read: {what}. The platform tries again by"
        " itself.",
    )


def _why(fault: Exception) -> str:
    chain: list[Exception] = [fault]
    while isinstance(cause := chain[-1].__cause__ or chain[-1].__context__, Exception):
        chain.append(cause)
    for kinds, words in _REASONS:
        if any(isinstance(link, kinds) for link in chain):
            return words
    return "the connection was lost"


_REASONS: tuple[tuple[type[Exception] | tuple[type[Exception], ...], str], ...] = (
    # The first two also count as timeouts of a connection for urllib3.
    (http.NameResolutionError, "its name cannot be resolved"),
    (ConnectionRefusedError, "connection refused"),
    (http.ConnectTimeoutError, "no connection in time"),
    ((http.ReadTimeoutError, TimeoutError), "no answer in time"),
    (http.SSLError, "its certificate cannot be checked"),
    (http.ProxyError, "the proxy before it fails"),
    (http.LocationParseError, "its address is not valid"),
)


def trimmed(words: str) -> str:
    """Return `words` on one line, with an ellipsis where they pass the limit."""
    line = " ".join(words.split())
    return line if len(line) <= MESSAGE_LIMIT else line[: MESSAGE_LIMIT - 1].rstrip() + "…"


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _seconds(value: object) -> float | None:
    """Read a number of seconds; a date, which Kubernetes never sends, counts as absent."""
    if not isinstance(value, str | int | float):
        return None
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if 0 < seconds < float("inf") else None
