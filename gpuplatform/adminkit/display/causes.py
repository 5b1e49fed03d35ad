"""Why a pod does not start, told apart by what the cluster said of it.

A reason is shown in words everywhere. The machine's word, which `kubectl` shows, stands beside
them on the page of one object, and in the tooltip where there is one line.

Two reasons of ours stand for everything that keeps a pod from running: `PodStartupFailed` of what
has pods, and `WorkerFailed` of a function, whose workers are GPU units. What a person does about
it depends on which of them it is. The messages are those that `startup_failure` writes. Lists and
overview name a cause as `PodStartupFailed:image`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from django.db.models import Case, F, Q, TextField, Value, When
from django.db.models.functions import Cast
from django.utils.html import format_html
from django.utils.safestring import SafeString

from gpuplatform.adminkit.display.text import humanize, message_html, visible

STARTUP_FAILED: Final = "PodStartupFailed"
WORKER_FAILED: Final = "WorkerFailed"
HELD_UP: Final = "FinalizersRemain"
SEPARATOR: Final = ":"
UNREADY: Final = "and is not ready"
"""What `startup_news` writes of a container that runs."""


@dataclass(frozen=True, slots=True)
class Cause:
    """What keeps a pod from running."""

    name: str
    title: str
    pattern: str
    """What its message has, as a regular expression that Python and PostgreSQL read alike."""
    next_step: str
    reason: str = STARTUP_FAILED

    @property
    def key(self) -> str:
        """Return how filters and addresses name it."""
        return f"{self.reason}{SEPARATOR}{self.name}"


CAUSES: Final = (
    Cause(
        "node",
        "No node fits",
        "(^No node for the pod|nodes are available)",
        "Free or add what the message says is missing, or ask for less; it starts by itself then.",
    ),
    Cause(
        "quota",
        "Quota is used up",
        "^No pod can be made.*quota",
        "Raise the namespace's quota, or delete what uses it; it starts by itself then.",
    ),
    Cause(
        "refused",
        "The cluster refuses the pod",
        "^No pod can be made",
        "Change what the message names: a policy of the cluster, or the spec.",
    ),
    Cause(
        "image",
        "The image cannot be pulled",
        "(ErrImagePull|ImagePullBackOff|InvalidImageName|ErrImageNeverPull|RegistryUnavailable"
        "|Back-off pulling image)",
        "Correct the image's name or tag, or push it, and see that the node may read the"
        " registry; it starts by itself when the image is there.",
    ),
    Cause(
        "memory",
        "Out of memory",
        "OOMKilled",
        "Ask for more memory, or have the program need less; its log is below.",
    ),
    Cause(
        "container",
        "The container cannot be made",
        "(CreateContainer(Config)?Error|RunContainerError|ContainerCannotRun|StartError)",
        "Correct the command, or what it mounts and reads its variables from.",
    ),
    Cause(
        "ends",
        "The program ends",
        "(exit code|signal) -?[0-9]+",
        "See its log below; correct the command, its arguments or the image.",
    ),
)
"""The first whose pattern fits is it."""

_UNPLACED: Final = frozenset({"node", "quota", "refused"})
_STEPS_OF_WORKERS: Final[Mapping[str, str]] = {
    "image": "Correct the image of the function, or push it, and see that the node may read the"
    " registry; a worker is tried again by itself.",
    "memory": "Have the program need less memory, or change the function to a GPU spec with more.",
    "container": "Correct the command of the function, or make the Secret that it names.",
    "ends": "Correct the command of the function, its arguments or the image.",
}
"""Where it is another thing to do: a function's failed workers are replaced, with their logs."""

_CAUSES_OF: Final[Mapping[str, Sequence[Cause]]] = {
    STARTUP_FAILED: CAUSES,
    WORKER_FAILED: [
        replace(
            cause,
            reason=WORKER_FAILED,
            next_step=_STEPS_OF_WORKERS.get(cause.name, cause.next_step),
        )
        for cause in CAUSES
    ],
}
_BY_KEY: Final[Mapping[str, Cause]] = {
    cause.key: cause for causes in _CAUSES_OF.values() for cause in causes
}


def causes_of(reason: str) -> Sequence[Cause]:
    """Return the causes that a reason stands for; most stand for themselves."""
    return _CAUSES_OF.get(reason, ())


WELL_REASONS: Final = frozenset({"UnitReady", "StockReady", "DeploymentReady", "Consumed"})
"""Reasons that nobody looks for among those of what is not well."""

_TITLES: Final[Mapping[str, str]] = {
    "UnitProgressing": "Starting",
    "StockNotReady": "Starting",
    "DeploymentProgressing": "Starting",
    "UnitReady": "Ready",
    "StockReady": "Ready",
    "DeploymentReady": "Ready",
}
"""What people say where the machine's word names the kind of thing as well."""


def cause_of(reason: str, message: str) -> Cause | None:
    """Return the cause that reason and message tell of, if it is a known one."""
    causes = causes_of(reason)
    return next((cause for cause in causes if re.search(cause.pattern, message)), None)


def is_unplaced(reason: str, message: str) -> bool:
    """Say whether what failed has no pod on a node, and so holds nothing there."""
    cause = cause_of(reason, message)
    return cause is not None and cause.name in _UNPLACED


def hint_of(message: str) -> str:
    """Return what a person can do already about something that has not failed yet, if anything."""
    if UNREADY in message:
        return "See its log below, and what its readiness probe asks for."
    cause = next((one for one in CAUSES if re.search(one.pattern, message)), None)
    return cause.next_step if cause else ""


def reason_title(key: str) -> str:
    """Return a reason for people, or the title of the cause that `key` names."""
    cause = _BY_KEY.get(key)
    return cause.title if cause else _TITLES.get(key) or humanize(key)


def title_of(reason: str, message: str) -> str:
    """Return a reason in words: the title of the cause that the message tells of, if of one."""
    cause = cause_of(reason, message)
    return cause.title if cause else _TITLES.get(reason) or humanize(reason)


def reason_html(reason: str, message: str = "") -> SafeString:
    """Return a reason in words with the machine's word beside them, for the page of one object."""
    title, word = title_of(reason, message), visible(reason)
    if title == word:
        return format_html("{}", title)
    return format_html('{} <code class="off">{}</code>', title, word)


def reason_word(reason: str, message: str) -> SafeString:
    """Return a reason in words, with the machine's word as the tooltip."""
    return format_html('<span title="{}">{}</span>', visible(reason), title_of(reason, message))


def is_explained(row: Any) -> bool:
    """Say whether reason and message are about a row's phase.

    One that is being deleted keeps what was last said of it, until something holds that up.
    """
    return bool(row.phase != "Terminating" or row.reason == HELD_UP)


def why_of(row: Any) -> SafeString:
    """Return why a row is what it is as one line of a list: the cluster's own words."""
    if not is_explained(row):
        return SafeString("")
    return message_html(row.reason, row.message, title_of(row.reason, row.message))


def with_cause(reason: str, message: str) -> Case | Cast:
    """Return the key of each row's cause, or its reason; both are names of fields."""
    key = Cast(F(reason), TextField())
    if reason != "reason":
        return key
    known = [
        When(_is(cause, reason, message), then=Value(cause.key, output_field=TextField()))
        for cause in _BY_KEY.values()
    ]
    return Case(*known, default=key)


def of_reason(key: str) -> Q:
    """Return what finds the rows of a reason, or of the cause that `key` names."""
    cause = _BY_KEY.get(key)
    if cause is None:
        return Q(reason=key)
    causes = causes_of(cause.reason)
    found = _is(cause, "reason", "message")
    for earlier in causes[: causes.index(cause)]:
        found &= ~Q(message__regex=earlier.pattern)
    return found


def _is(cause: Cause, reason: str, message: str) -> Q:
    values: dict[str, Any] = {reason: cause.reason, f"{message}__regex": cause.pattern}
    return Q(**values)
