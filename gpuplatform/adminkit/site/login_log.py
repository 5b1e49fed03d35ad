"""The record of logins to the admin."""

import logging
from enum import StrEnum
from typing import Final

from gpuplatform.adminkit.lists.journal import login_observed

logger = logging.getLogger("gpuplatform.logins")

MAX_NAME: Final = 150


class LogIn(StrEnum):
    """The outcome of an attempt to log in."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REJECTED = "rejected"
    """Too many attempts have failed, so the password was not checked."""


def record_login(outcome: LogIn, name: str, address: str) -> None:
    """Record an attempt to log in, with the name as it was typed and the client's address."""
    level = logging.INFO if outcome is LogIn.SUCCEEDED else logging.WARNING
    logger.log(
        level,
        "login to the admin",
        extra={"outcome": outcome.value, "user": name[:MAX_NAME], "address": address},
    )
    login_observed(outcome.value, name[:MAX_NAME], address)
