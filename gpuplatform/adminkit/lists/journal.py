"""The observers of logins to the admin and of its forms. Apps of higher layers register them."""

from typing import Any, Final, Protocol

from gpuplatform.adminkit.lists.form_values import Changed


class Observer(Protocol):
    """Records what users do in the admin."""

    def login(self, outcome: str, name: str, address: str) -> None:
        """Record an attempt to log in."""

    def form_saved(self, row: Any, verb: str, message: Any, changed: Changed | None) -> None:
        """Record that a form added, changed or deleted a row, in the transaction of the change.

        `message` is the message of the admin log: a text, or the names of the changed fields.
        `changed` are their values, if they are known.
        """

    def log_shown(self, row: Any) -> None:
        """Record that a page shows the log of a container of a row."""

    def action_rejected(self, row: Any, label: str, code: str) -> None:
        """Record that an action on a row was rejected with an error code."""


_OBSERVERS: Final[list[Observer]] = []


def register_observer(observer: Observer) -> None:
    """Add an observer. Called once by each app when it is loaded."""
    _OBSERVERS.append(observer)


def login_observed(outcome: str, name: str, address: str) -> None:
    """Tell all observers about an attempt to log in."""
    for observer in _OBSERVERS:
        observer.login(outcome, name, address)


def form_observed(row: Any, verb: str, message: Any, changed: Changed | None = None) -> None:
    """Tell all observers about a form."""
    for observer in _OBSERVERS:
        observer.form_saved(row, verb, message, changed)


def log_observed(row: Any) -> None:
    """Tell all observers about a page with the log of a row."""
    for observer in _OBSERVERS:
        observer.log_shown(row)


def rejection_observed(row: Any, label: str, code: str) -> None:
    """Tell all observers about an action that was rejected."""
    for observer in _OBSERVERS:
        observer.action_rejected(row, label, code)
