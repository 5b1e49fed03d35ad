"""The settings of the sidecar, from environment variables that the unit's manifest sets."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from serverless.queue.names import PROGRESS_SECONDS

DEFAULT_HEALTH_PORT: Final = 8091


class BadSettings(Exception):
    """A variable is missing or not valid; `str()` names it."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where the health server listens; an empty host is every address of the pod."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class FunctionAddress:
    """Where the function listens: a unix socket, or a port on loopback."""

    socket_path: str = ""
    port: int = 0
    invoke_path: str = "/invoke"
    health_path: str = "/healthz"


@dataclass(frozen=True, slots=True)
class Retries:
    """Maximum number of deliveries of an invocation, and the delays between them."""

    max_deliver: int = 5
    backoff_seconds: tuple[int, ...] = (2, 10, 30)

    def is_last(self, attempt: int) -> bool:
        """Return whether this attempt, counted from 1, is the last one."""
        return attempt >= self.max_deliver

    def delay(self, attempt: int) -> int:
        """Return the delay in seconds after this attempt; the last one repeats."""
        return self.backoff_seconds[min(attempt, len(self.backoff_seconds)) - 1]


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one worker."""

    queue_url: str
    credentials_directory: Path
    tenant: str
    function: int
    worker: str
    address: FunctionAddress
    health: Address
    drain_token: str
    """A request with it may drain the worker; empty: no request may."""
    retries: Retries = Retries()
    concurrency: int = 1
    drain_seconds: int = 35
    """Time in which invocations in progress may finish after a drain began."""
    progress_seconds: float = PROGRESS_SECONDS

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Settings":
        """Read the variables.

        Raises:
            BadSettings: one of them is missing or not valid.
        """
        read = _Reader(environment)
        backoff = read.text("BACKOFF_SECONDS", "2,10,30").split(",")
        return cls(
            queue_url=read.text("QUEUE_URL"),
            credentials_directory=Path(read.text("CREDENTIALS_DIRECTORY")),
            tenant=read.text("TENANT"),
            function=read.number("FUNCTION_ID"),
            worker=read.text("WORKER_NAME"),
            address=FunctionAddress(
                socket_path=read.text("SOCKET_PATH", ""),
                port=read.number("FRAMEWORK_PORT", 0),
                invoke_path=read.text("INVOKE_PATH", "/invoke"),
                health_path=read.text("HEALTH_PATH", "/healthz"),
            ),
            health=read.address("HEALTH_ADDRESS"),
            drain_token=read.text("DRAIN_TOKEN", ""),
            retries=Retries(
                max_deliver=read.number("MAX_DELIVER", 5),
                backoff_seconds=tuple(
                    read.parsed("BACKOFF_SECONDS", delay.strip()) for delay in backoff
                ),
            ),
            concurrency=read.number("CONCURRENCY", 1),
            drain_seconds=read.number("DRAIN_SECONDS", 35),
            progress_seconds=read.number("PROGRESS_SECONDS", int(PROGRESS_SECONDS)),
        )


class _Reader:
    """Reads variables with the prefix that users cannot set."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def text(self, name: str, default: str | None = None) -> str:
        value = self._environment.get(f"SERVERLESS_{name}", "") or default
        if value is None:
            raise BadSettings(f"SERVERLESS_{name} is not set.")
        return value

    def number(self, name: str, default: int | None = None) -> int:
        text = self.text(name, None if default is None else str(default))
        return default if default is not None and text == str(default) else self.parsed(name, text)

    def parsed(self, name: str, text: str) -> int:
        if not (text.isascii() and text.isdigit() and 0 < int(text) < 2**63):
            raise BadSettings(f"SERVERLESS_{name} is not a positive number: {text!r}.")
        return int(text)

    def address(self, name: str) -> Address:
        host, _, port = self.text(name, f":{DEFAULT_HEALTH_PORT}").rpartition(":")
        return Address(host, self.parsed(name, port))
