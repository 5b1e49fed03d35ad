"""Settings of the sidecar, from environment variables that the manifest of the unit sets."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from serverless.queue.names import PROGRESS_SECONDS

DEFAULT_HEALTH_PORT: Final = 8091


class BadSettings(Exception):
    """A variable is missing or not valid. `str()` is a sentence that contains its name."""


class Address(NamedTuple):
    """The address of the health server. If the host is empty, it listens on all addresses."""

    host: str
    port: "Positive"


def _variable(name: str) -> str:
    return f"SERVERLESS_{name.upper()}"


def _host_and_port(text: str) -> tuple[str, str]:
    host, _, port = text.rpartition(":")
    return host, port


Positive = Annotated[int, Field(gt=0, lt=2**63)]


class Settings(BaseModel):
    """The settings of one worker.

    Each field is read from the variable `SERVERLESS_<FIELD>`. Users cannot set variables with this
    prefix.
    """

    model_config = ConfigDict(frozen=True, alias_generator=_variable)

    queue_url: str
    credentials_directory: Path
    tenant: str
    function_id: Positive
    worker_name: str
    socket_path: str = "/run/serverless/framework.sock"
    """Unix socket on which the function listens, unless `framework_port` is set."""
    framework_port: Annotated[int, Field(ge=0, le=65535)] = 0
    """TCP port on which the function listens, or 0."""
    invoke_method: str = "POST"
    invoke_path: str = "/invoke"
    health_path: str = "/healthz"
    health_address: Annotated[Address, BeforeValidator(_host_and_port)] = Address(
        "", DEFAULT_HEALTH_PORT
    )
    drain_token: str = ""
    """Token of the requests that can drain the worker. If it is empty, no request can."""
    max_deliver: Positive = 5
    """Maximum number of deliveries of an invocation."""
    backoff_seconds: Annotated[
        tuple[Positive, ...], BeforeValidator(lambda text: text.split(","))
    ] = (2, 10, 30)
    concurrency: Positive = 1
    drain_seconds: Positive = 35
    """Time in seconds, after a drain began, in which invocations in progress can finish."""
    progress_seconds: Annotated[float, Field(gt=0)] = PROGRESS_SECONDS
    """Interval in seconds at which the worker reports progress of an invocation."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Settings":
        """Return the settings in the variables of the environment. Empty variables are ignored.

        Raises:
            BadSettings: If a variable is missing or not valid.
        """
        try:
            return cls.model_validate({name: text for name, text in environment.items() if text})
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise BadSettings(f"{first['loc'][0]}: {first['msg']}.") from error

    def is_last(self, attempt: int) -> bool:
        """Return whether an attempt, counted from 1, is the last attempt."""
        return attempt >= self.max_deliver

    def delay(self, attempt: int) -> int:
        """Return the delay in seconds after an attempt. The last configured delay is repeated."""
        return self.backoff_seconds[min(attempt, len(self.backoff_seconds)) - 1]
