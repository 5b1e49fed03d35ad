"""A supervisor that starts parts in dependency order and stops all parts when one of them exits.

It runs in one thread and waits in `select` for output, exited children and signals, so it uses no
CPU while it is idle. It is independent of the platform; `layout.py` declares the parts.
"""

import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from types import FrameType

from gpuplatform.dev.embedded.children import Child, ChildRecord, Command, launch
from gpuplatform.dev.embedded.console import Console, LineBuffer
from gpuplatform.dev.embedded.errors import StartError

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PROBE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Part:
    """A process, or a condition to wait for if `command` is not set.

    A part is ready when `is_ready` returns true. A part with `runs_once` is ready when its process
    has exited with code 0.
    """

    name: str
    command: Command | None = None
    after: tuple[str, ...] = ()
    is_ready: Callable[[], bool] | None = None
    runs_once: bool = False
    may_fail: bool = False
    """Whether the failure of a `runs_once` part is only logged."""
    is_server: bool = False
    """Whether the part stops after all other parts, because they need it to stop cleanly."""
    start_seconds: float = 180.0
    """Maximum time in seconds until the part is ready, sufficient for a busy machine."""


class State(Enum):
    """The lifecycle state of a part."""

    WAITING = auto()
    STARTING = auto()
    READY = auto()
    ENDED = auto()


class _Running:
    """A part with its process and state."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.state = State.WAITING
        self.child: Child | None = None
        self.started_at = 0.0
        self.buffer = LineBuffer()

    @property
    def is_alive(self) -> bool:
        return self.child is not None and self.child.exit_code() is None


@dataclass(slots=True)
class StopTimes:
    """Time in seconds that servers and other parts have to exit before they are killed."""

    others_seconds: float = 4.5
    servers_seconds: float = 2.5


class Supervisor:
    """A supervisor that runs parts until a stop signal arrives or a part exits."""

    def __init__(
        self,
        parts: Sequence[Part],
        console: Console,
        record: ChildRecord,
        stop_times: StopTimes | None = None,
    ) -> None:
        """Supervise `parts`. Names must be unique, and `after` must contain names of parts."""
        self._running = {part.name: _Running(part) for part in parts}
        self._console = console
        self._record = record
        self._stop_times = stop_times or StopTimes()
        self._selector = selectors.DefaultSelector()
        self._received: signal.Signals | None = None

    def run(
        self,
        on_ready: Callable[[], bool] = lambda: True,
        on_stop: Callable[[], None] = lambda: None,
    ) -> int:
        """Start all parts, wait, stop all parts, and return the exit code.

        `on_ready` is called when all parts are ready, and returns whether the parts keep running.
        `on_stop` is called when stopping begins. The exit code is 0 after a stop signal, or if
        `on_ready` returned false. If a part failed, the exit code is the exit code of the part, or
        128 plus the signal number if a signal killed the part. The exit code is 1 if the part
        exited with 0 but should keep running, or if the part was not ready in time.
        """
        exit_code = 0
        with self._signals():
            try:
                self._keep_running(on_ready)
            except StartError as error:
                self._console.note(str(error))
                exit_code = error.exit_code
            finally:
                on_stop()
                self._stop_everything()
        return exit_code

    @contextmanager
    def _signals(self) -> Iterator[None]:
        reader, writer = socket.socketpair()
        for end in (reader, writer):
            os.set_blocking(end.fileno(), False)
        self._selector.register(reader, selectors.EVENT_READ, None)
        wakeup = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        before = {
            number: signal.signal(number, self._receive)
            for number in (*STOP_SIGNALS, signal.SIGCHLD)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(wakeup)
            self._selector.close()
            reader.close()
            writer.close()

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGCHLD:
            return
        if self._received is not None:
            # On the second signal, stop without waiting.
            self._stop_times = StopTimes(0.0, 0.0)
        self._received = signal.Signals(number)

    def _keep_running(self, on_ready: Callable[[], bool]) -> None:
        was_ready = False
        while self._received is None:
            for running in self._running.values():
                self._update(running)
            self._start_possible()
            is_settled = all(
                running.state in {State.READY, State.ENDED} for running in self._running.values()
            )
            if is_settled and not was_ready:
                was_ready = True
                if not on_ready():
                    return
            self._read_output(None if is_settled else PROBE_SECONDS)
        self._console.note(f"Stopping after {self._received.name}.")

    def _start_possible(self) -> None:
        for running in self._running.values():
            if running.state is State.WAITING and all(
                self._running[name].state in {State.READY, State.ENDED}
                for name in running.part.after
            ):
                self._start(running)

    def _start(self, running: _Running) -> None:
        running.state = State.STARTING
        running.started_at = time.monotonic()
        if running.part.command is None:
            return
        name = running.part.name
        try:
            running.child = launch(running.part.command, name, self._record)
        except OSError as error:
            raise StartError(f"{name} cannot be started: {error.strerror}.") from error
        self._selector.register(running.child.output, selectors.EVENT_READ, running)

    def _update(self, running: _Running) -> None:
        code = running.child.exit_code() if running.child else None
        if running.state in {State.STARTING, State.READY} and code is not None:
            self._handle_end(running, code)
        if running.state is State.STARTING:
            self._check_readiness(running)

    def _check_readiness(self, running: _Running) -> None:
        part = running.part
        if not part.runs_once and (part.is_ready is None or part.is_ready()):
            running.state = State.READY
        elif time.monotonic() - running.started_at > part.start_seconds:
            raise StartError(f"{part.name} was not ready within {part.start_seconds:.0f} seconds.")

    def _handle_end(self, running: _Running, code: int) -> None:
        self._drain(running)
        part, running.state = running.part, State.ENDED
        if part.runs_once and (code == 0 or part.may_fail):
            self._clean_up(running)
        if part.runs_once and code == 0:
            return
        if code < 0:
            reason, exit_code = f"was killed by {signal.Signals(-code).name}", 128 - code
        else:
            reason, exit_code = f"exited with code {code}", code or 1
        if part.may_fail:
            self._console.note(f"{part.name} {reason}; the platform continues without it.")
            return
        raise StartError(f"{part.name} {reason}, so everything stops.", exit_code=exit_code)

    def _clean_up(self, running: _Running) -> None:
        """Kill the remaining processes of a part that has finished, and reap the part."""
        if child := running.child:
            child.kill_group()
            child.wait()
            self._drain(running)
            self._close(running)
            running.child = None

    def _close(self, running: _Running) -> None:
        if running.child and not running.child.is_silent:
            self._selector.unregister(running.child.output)
            running.child.close_output()

    def _read_output(self, seconds: float | None) -> None:
        for key, _events in self._selector.select(seconds):
            if key.data is None:
                os.read(key.fd, 4096)
            else:
                self._read(key.data)

    def _read(self, running: _Running) -> bool:
        """Log the available output of a process; return `False` at the end of the output."""
        if running.child is None or running.child.is_silent:
            return False
        try:
            data = os.read(running.child.output, 65536)
        except BlockingIOError:
            return False
        lines = running.buffer.feed(data) if data else running.buffer.flush()
        for line in lines:
            self._console.line(running.part.name, line)
        if not data:
            self._close(running)
        return bool(data)

    def _drain(self, running: _Running) -> None:
        while self._read(running):
            pass

    def _stop_everything(self) -> None:
        others = [r for r in self._running.values() if not r.part.is_server]
        servers = [r for r in self._running.values() if r.part.is_server]
        self._stop(others, lambda: self._stop_times.others_seconds)
        self._stop(servers, lambda: self._stop_times.servers_seconds)

    def _stop(self, group: list[_Running], seconds: Callable[[], float]) -> None:
        started = [(running, running.child) for running in group if running.child]
        for running, child in started:
            if running.part.command:
                child.send_stop_signal(running.part.command.stop_signal)
        began = time.monotonic()
        while any(r.is_alive for r in group) and time.monotonic() - began < seconds():
            self._read_output(0.05)
        for running, child in started:
            if running.is_alive:
                self._console.note(f"{running.part.name} did not stop in time and is killed.")
            child.kill_group()
        for running, child in started:
            child.wait()
            self._drain(running)
