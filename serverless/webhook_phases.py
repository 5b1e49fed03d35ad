"""States of the webhook of an invocation, and the reasons why it is not delivered."""

from enum import StrEnum
from types import MappingProxyType

from django.db.models import TextChoices

from gpuplatform.lifecycle.explanations import Explanation


class WebhookState(TextChoices):
    """The states of the webhook of an invocation.

    ::

        Pending ──> Delivered | Failed ──another end of the invocation──> Pending

    A webhook is Pending from the acceptance of the invocation. It is sent when the invocation has
    ended. A replay, or a result that replaces another one, makes it Pending again.
    """

    PENDING = "Pending", "Pending"
    DELIVERED = "Delivered", "Delivered"
    FAILED = "Failed", "Failed"


WEBHOOK_STATES: MappingProxyType[WebhookState, str] = MappingProxyType(
    {
        WebhookState.PENDING: "The webhook is sent when the invocation has ended, and retried"
        " after a failure.",
        WebhookState.DELIVERED: "The receiver responded with a status from 200 to 299.",
        WebhookState.FAILED: "All attempts failed. The webhook is not sent again.",
    }
)
"""Meanings of the states of webhooks."""


class WebhookFailure(StrEnum):
    """Codes that explain why an attempt to send a webhook failed."""

    BAD_STATUS = "BadStatus"
    REDIRECTED = "Redirected"
    ADDRESS_FORBIDDEN = "AddressForbidden"
    NAME_NOT_RESOLVED = "NameNotResolved"
    CONNECTION_FAILED = "ConnectionFailed"
    TLS_FAILED = "TLSFailed"
    TIMED_OUT = "TimedOut"
    INVALID_RESPONSE = "InvalidResponse"
    INTERNAL_ERROR = "InternalError"


WEBHOOK_FAILURES: MappingProxyType[WebhookFailure, Explanation] = MappingProxyType(
    {
        WebhookFailure.BAD_STATUS: Explanation(
            "The receiver responded with a status other than 200 to 299.",
            "Correct the receiver. Each attempt contains the status.",
        ),
        WebhookFailure.REDIRECTED: Explanation(
            "The receiver responded with a redirection, which is not followed.",
            "Use the URL to which the receiver redirects.",
        ),
        WebhookFailure.ADDRESS_FORBIDDEN: Explanation(
            "The host has an address that is not public.",
            "Use a host with public addresses only, or ask an operator to add the network to"
            " `GPUPLATFORM_WEBHOOK_NETWORKS`.",
        ),
        WebhookFailure.NAME_NOT_RESOLVED: Explanation(
            "The name of the host has no address.", "Correct the host in the URL, or its DNS."
        ),
        WebhookFailure.CONNECTION_FAILED: Explanation(
            "The receiver did not accept the connection, or closed it.",
            "Check that the receiver is running and accepts connections from the platform.",
        ),
        WebhookFailure.TLS_FAILED: Explanation(
            "The certificate of the receiver is not valid, or TLS failed.",
            "Install a certificate of a public certificate authority for the host.",
        ),
        WebhookFailure.TIMED_OUT: Explanation(
            "The receiver did not respond within ten seconds.",
            "Respond before you process the webhook.",
        ),
        WebhookFailure.INVALID_RESPONSE: Explanation(
            "The response of the receiver is not valid HTTP.", "Correct the receiver."
        ),
        WebhookFailure.INTERNAL_ERROR: Explanation(
            "The platform could not send the webhook because of a bug.",
            "Report the bug with the log of the process `results`.",
        ),
    }
)
"""Meanings and next steps of failed attempts."""
