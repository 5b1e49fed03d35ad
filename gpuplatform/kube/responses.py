"""Maps error responses of the API server to a `ClusterError`. Only `client` and `watch` use it.

The HTTP status is not sufficient, so that the reason and the message of the Status object are
considered too. For example, a 500 can be a permanent rejection, and a 404 can mean that the
resource definition of a kind is not installed.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from urllib3 import exceptions as http

from gpuplatform.kube.errors import (
    ClusterConflict,
    ClusterError,
    ClusterForbidden,
    ClusterGone,
    ClusterRejected,
    ClusterUnavailable,
)
from gpuplatform.kube.fields import items, text

MESSAGE_LIMIT = 300
"""Maximum length of an error message in characters."""

_KIND_MISSING = "the server could not find the requested resource"

_REJECTED_WITH_500 = (
    "duplicate entries for key",
    "field not declared in schema",
    "failed to create typed patch object",
    "etcdserver: request is too large",
    "trying to send message larger than max",
)
"""Parts of messages with status 500 that reject the object: of a server-side apply, and of etcd,
which limits the size of an object."""

_UID_FIELD = "metadata.uid"


@dataclass(frozen=True, slots=True)
class Failure:
    """An error response, with its HTTP status and the fields of the Status object."""

    status: int
    reason: str = ""
    message: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    retry_after: float | None = None

    @property
    def is_missing_object(self) -> bool:
        """Whether the API server reports that the object does not exist.

        A 404 without the name of an object does not show that the object is absent: the kind is
        not installed, or the response is from another server.
        """
        return (
            self.status == 404
            and bool(self.details.get("name"))
            and not self.message.startswith(_KIND_MISSING)
        )


def parse_failure(status: int, headers: Mapping[str, str], body: bytes) -> Failure:
    """Parse an error response, which may not be from an API server."""
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
    """Parse a Status object. `status` is the HTTP status, or `None` for an event of a watch."""
    details = document.get("details")
    details = details if isinstance(details, dict) else {}
    code = document.get("code")
    return Failure(
        status=status if status is not None else code if isinstance(code, int) else 500,
        reason=text(document, "reason"),
        message=text(document, "message"),
        details=details,
        retry_after=_seconds(header) or _seconds(details.get("retryAfterSeconds")),
    )


def error_for(failure: Failure) -> ClusterError:
    """Return the error for an error response."""
    status, reason = failure.status, failure.reason
    detail = _describe(failure)
    if _is_rejection(failure):
        message = f"The cluster rejects the object: {detail}"
        return ClusterRejected(trimmed(message), reason=reason, status=status, detail=detail)
    if status == 410 or reason in {"Expired", "Gone"}:
        message = f"The cluster no longer has this resource version: {detail}"
        return ClusterGone(trimmed(message), reason=reason or "Expired", status=status)
    if status == 409 or _is_other_incarnation(failure):
        return ClusterConflict(trimmed(detail), reason=reason or "Conflict", status=status)
    if status in {401, 403}:
        message = f"The cluster forbids the request: {detail}"
        return ClusterForbidden(trimmed(message), reason=reason, status=status)
    message = f"The cluster is temporarily unavailable: {detail}"
    if status == 404:
        message = (
            "The resource definition of this kind is not installed. Run 'manage.py"
            " install_cluster'."
        )
    return ClusterUnavailable(
        trimmed(message), reason=reason, status=status, retry_after=failure.retry_after
    )


def _is_rejection(failure: Failure) -> bool:
    """Return whether the server would reject the same request again."""
    if failure.status == 500:
        return any(part in failure.message for part in _REJECTED_WITH_500)
    if failure.status == 404:
        return failure.is_missing_object
    transient = {401, 403, 408, 409, 410, 425, 429}
    return (
        400 <= failure.status < 500
        and failure.status not in transient
        and failure.reason not in {"Expired", "Gone"}
        and not _is_other_incarnation(failure)
    )


def _is_other_incarnation(failure: Failure) -> bool:
    """Return whether the object has another UID than the patch, which must not change it."""
    return failure.status == 422 and any(
        text(cause, "field") == _UID_FIELD for cause in _causes(failure)
    )


def _describe(failure: Failure) -> str:
    causes = _causes(failure)
    # For a conflict the message is better than the causes, because it contains the managers.
    if failure.status in {400, 422} and causes:
        sentences = [_cause(cause) for cause in causes]
        # Several validations of a field can report the same cause.
        if joined := "; ".join(dict.fromkeys(filter(None, sentences))):
            return joined
    return failure.message or failure.reason or f"the HTTP status is {failure.status}"


def _causes(failure: Failure) -> list[Mapping[str, Any]]:
    """Return the causes in the details of the Status object."""
    return [cause for cause in items(failure.details, "causes") if isinstance(cause, dict)]


def _cause(cause: Mapping[str, Any]) -> str:
    where, what = text(cause, "field"), text(cause, "message")
    return f"{where}: {what}" if where and where != "<nil>" else what


def no_response(error: http.HTTPError | OSError | ValueError) -> ClusterUnavailable:
    """Return the error for a request without a complete response.

    The server may have executed the request.
    """
    message = (
        f"The cluster does not respond: {_reason(error)}. The platform retries automatically."
    )
    return ClusterUnavailable(message, context={"error": repr(error)})


def invalid_response(problem: str) -> ClusterUnavailable:
    """Return the error for a response that does not conform to the Kubernetes API."""
    return ClusterUnavailable(
        f"The cluster sent an invalid response: {problem}. The platform retries automatically.",
    )


def _reason(error: Exception) -> str:
    chain = [error]
    while isinstance(cause := chain[-1].__cause__ or chain[-1].__context__, Exception):
        chain.append(cause)
    for kinds, reason in _REASONS:
        if any(isinstance(link, kinds) for link in chain):
            return reason
    return "the connection was lost"


_REASONS: tuple[tuple[type[Exception] | tuple[type[Exception], ...], str], ...] = (
    # The first two precede ConnectTimeoutError, which urllib3 also raises in these cases.
    (http.NameResolutionError, "the host name cannot be resolved"),
    (ConnectionRefusedError, "connection refused"),
    (http.ConnectTimeoutError, "the connection timed out"),
    ((http.ReadTimeoutError, TimeoutError), "the response timed out"),
    (http.SSLError, "the certificate cannot be verified"),
    (http.ProxyError, "the proxy failed"),
    (http.LocationParseError, "the address is invalid"),
)


def trimmed(message: str) -> str:
    """Return the message on one line, truncated with an ellipsis at the limit."""
    line = " ".join(message.split())
    return line if len(line) <= MESSAGE_LIMIT else line[: MESSAGE_LIMIT - 1].rstrip() + "…"


def _seconds(value: object) -> float | None:
    """Return a number of seconds, or `None`. Dates are not supported; Kubernetes sends none."""
    if not isinstance(value, str | int | float):
        return None
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if 0 < seconds < float("inf") else None
