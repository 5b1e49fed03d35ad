"""The probes of a container, and their results in a container that runs no program. Pure.

A simulated program listens on the ports that its container declares, and on every port if it
declares none. A command line that `scripts` interprets completely listens on no port. Requests
succeed with the status 200. Commands of probes are interpreted like the command of a container;
unknown commands succeed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from gpuplatform.dev.simulator.kubelet.expansion import expanded, expanded_environment
from gpuplatform.dev.simulator.kubelet.scripts import Run, run_of
from gpuplatform.kube.fields import field, items, number, text

Manifest: TypeAlias = dict[str, Any]

STARTUP, LIVENESS, READINESS = "startup", "liveness", "readiness"
_FIELDS: Final = {kind: f"{kind}Probe" for kind in (STARTUP, LIVENESS, READINESS)}
_DEFAULT_PERIOD, _DEFAULT_FAILURES = 10, 3


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """The HTTP request of a probe or hook."""

    path: str
    port: int
    headers: Mapping[str, str]
    scheme: str = "http"


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe with its timing. Exactly one of `http`, `port` and `command` is set."""

    kind: str
    http: HttpRequest | None = None
    port: int | None = None
    command: tuple[str, ...] = ()
    initial_delay_seconds: float = 0.0
    period_seconds: float = _DEFAULT_PERIOD
    timeout_seconds: float = 1.0
    successes: int = 1
    failures: int = _DEFAULT_FAILURES

    @property
    def title(self) -> str:
        """The beginning of the messages of the kubelet, such as `Readiness probe`."""
        return f"{self.kind.capitalize()} probe"


@dataclass(frozen=True, slots=True)
class ProbeFailure:
    """The failure of a probe: its kind, and the message of its Event."""

    kind: str
    message: str

    @property
    def restarts(self) -> bool:
        """Whether the kubelet restarts the container."""
        return self.kind != READINESS


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of all probes over the time since the start of a container."""

    started_after_seconds: float | None = 0.0
    """Time until the startup probe has succeeded. `None` means that it never succeeds."""
    ready_after_seconds: float | None = 0.0
    """Time until the container is ready. `None` means that it never becomes ready."""
    failed_after_seconds: float = 0.0
    failure: ProbeFailure | None = None
    """The failure that is reported after `failed_after_seconds`."""


SUCCESS: Final = Outcome()


def probes_of(container: Manifest) -> dict[str, Probe]:
    """Return the probes of a container, by kind. A probe without a known handler is absent."""
    found = {}
    for kind, name in _FIELDS.items():
        declared = field(container, name)
        if isinstance(declared, dict):
            probe = _probe(kind, declared, container)
            if probe is not None:
                found[kind] = probe
    return found


def stop_hook(container: Manifest) -> HttpRequest | None:
    """Return the HTTP request of the preStop hook, or `None` if the container has none."""
    return _http(field(container, "lifecycle", "preStop", "httpGet"), container)


def outcome_of(container: Manifest, run: Run, address: str, *, is_unready: bool) -> Outcome:
    """Return the results of the probes of a simulated program at the IP address `address`.

    `is_unready` makes the readiness probe fail.
    """
    probes = probes_of(container)
    failures = {kind: _failure(probe, container, run, address) for kind, probe in probes.items()}
    startup, liveness = probes.get(STARTUP), probes.get(LIVENESS)
    started = startup.initial_delay_seconds if startup else 0.0
    if startup and failures[STARTUP]:
        return _restarted(startup, started, failures[STARTUP], Outcome(None, None))
    readiness = probes.get(READINESS)
    outcome = Outcome(started, started)
    if readiness:
        begin = max(started, readiness.initial_delay_seconds)
        message = failures[READINESS]
        if is_unready:
            message = "HTTP probe failed with statuscode: 503"
        if message:
            failure = ProbeFailure(READINESS, f"{readiness.title} failed: {message}")
            outcome = Outcome(started, None, begin, failure)
        else:
            ready = begin + readiness.period_seconds * (readiness.successes - 1)
            outcome = Outcome(started, ready)
    elif is_unready:
        outcome = Outcome(started, None)
    if liveness and failures[LIVENESS]:
        begin = max(started, liveness.initial_delay_seconds)
        return _restarted(liveness, begin, failures[LIVENESS], outcome)
    return outcome


def _restarted(probe: Probe, begin: float, message: str, outcome: Outcome) -> Outcome:
    failure = ProbeFailure(probe.kind, f"{probe.title} failed: {message}")
    after = begin + probe.period_seconds * (probe.failures - 1)
    return Outcome(outcome.started_after_seconds, outcome.ready_after_seconds, after, failure)


def _failure(probe: Probe, container: Manifest, run: Run, address: str) -> str:
    """Return the reason why a probe of a simulated program fails, or an empty string."""
    if probe.command:
        command = run_of(list(probe.command))
        ended = command.exit is not None
        if command.is_known and not ended:
            return f"command timed out: {probe.command[0]} timed out"
        return (command.output or "\n") if command.exit and command.exit.code else ""
    port = probe.http.port if probe.http else probe.port
    if port is None or _listens(container, run, port):
        return ""
    refused = f"dial tcp {address}:{port}: connect: connection refused"
    if probe.http is None:
        return refused
    return f'Get "{probe.http.scheme}://{address}:{port}{probe.http.path}": {refused}'


def _listens(container: Manifest, run: Run, port: int) -> bool:
    ports = [number(one, "containerPort") for one in items(container, "ports")]
    return not run.is_known and (not ports or port in ports)


def _probe(kind: str, declared: Manifest, container: Manifest) -> Probe | None:
    http = _http(declared.get("httpGet"), container)
    port = field(declared, "tcpSocket", "port") or field(declared, "grpc", "port")
    number_of_port = _port(port, container) if port else None
    variables = expanded_environment(container)
    words = items(declared, "exec", "command")
    command = tuple(expanded(str(word), variables) for word in words)
    if http is None and number_of_port is None and not command:
        return None
    return Probe(
        kind=kind,
        http=http,
        port=number_of_port,
        command=command,
        initial_delay_seconds=number(declared, "initialDelaySeconds"),
        period_seconds=number(declared, "periodSeconds") or _DEFAULT_PERIOD,
        timeout_seconds=number(declared, "timeoutSeconds") or 1,
        successes=number(declared, "successThreshold") or 1,
        failures=number(declared, "failureThreshold") or _DEFAULT_FAILURES,
    )


def _http(request: Any, container: Manifest) -> HttpRequest | None:
    if not isinstance(request, dict):
        return None
    headers = {text(one, "name"): text(one, "value") for one in items(request, "httpHeaders")}
    scheme = (text(request, "scheme") or "HTTP").lower()
    port = _port(request.get("port"), container)
    return HttpRequest(text(request, "path") or "/", port, headers, scheme)


def _port(port: Any, container: Manifest) -> int:
    """Return the number of a port. The name of an unknown port is 0, which no program uses."""
    if isinstance(port, int):
        return port
    declared = (one for one in items(container, "ports") if text(one, "name") == port)
    return number(next(declared, {}), "containerPort")
