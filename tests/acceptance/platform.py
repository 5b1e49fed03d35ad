"""A complete platform; each part is a process that a test can kill."""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

from gpuplatform.dev.embedded.children import ChildRecord, Command, start_child
from gpuplatform.dev.embedded.data_directory import PROJECT_ROOT, DataDirectory
from gpuplatform.dev.embedded.layout import Layout, Worker
from gpuplatform.dev.embedded.options import Options
from gpuplatform.dev.embedded.ports import LOOPBACK, free_port
from gpuplatform.dev.embedded.processes import (
    all_processes,
    read_process,
    send_signal,
    wait_until,
)
from gpuplatform.dev.embedded.supervisor import Part
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.modes import KubeMode, open_cluster
from serverless.queue.gateway import Queue

POOLS = "/api/v1/operator/stockpools"
SPECS = "/api/v1/operator/gpu-specs"
JOBS = "/api/v1/operator/jobs"
START_SECONDS = 180.0
SERVERS = ("postgres", "valkey", "nats", "cluster")
REPORTING = (
    "operations",
    "reconcile",
    "periodic",
    "beat",
    "controller",
    "results",
    "activator",
)
PROCESSES = ("web", *REPORTING, "kubelet")
WORKERS = {
    "operations": Worker(("operations",), children=2),
    "reconcile": Worker(("reconcile",), children=2),
    "periodic": Worker(("periodic",), children=1),
}
"""One worker process per queue as in production, so that a test can kill one of them."""
QUICK = {"GPUPLATFORM_LEASE_SECONDS": "5", "GPUPLATFORM_FRESH_SECONDS": "10"}
UNLIMITED = {
    f"GPUPLATFORM_RATE_{name}": "0"
    for name in (
        *("TOKEN_READS", "TOKEN_WRITES", "TOKEN_INVOCATIONS"),
        *("TENANT_READS", "TENANT_WRITES", "TENANT_INVOCATIONS", "ADDRESS"),
    )
}
"""Tests and measurements send more requests than a caller in production."""
SWEEP_SECONDS = 2


@dataclass(frozen=True, slots=True)
class Answer:
    """A response of the API."""

    status: int
    body: Any
    headers: dict[str, str]

    @property
    def data(self) -> Any:
        return self.body["data"]


class RunningPlatform:
    """The processes of one platform, with their data in one folder."""

    def __init__(
        self, folder: Path, *, is_like_production: bool = False, kubeconfig: Path | None = None
    ) -> None:
        """Leases and sweeps are short, so that tests are fast, unless it is like production.

        It has an embedded cluster unless there is a `kubeconfig`.
        """
        self._is_quick = not is_like_production
        data = DataDirectory(folder / "data")
        data.create()
        options = Options(
            data=data,
            requested_port="",
            database_url="",
            redis_url="",
            kube_mode="required" if kubeconfig else "simulated",
            kubeconfig=str(kubeconfig or ""),
            wants_demo=False,
        )
        self._layout = replace(
            Layout.prepare(options, free_port()), workers=WORKERS, web_workers=2
        )
        data.write_addresses(self._layout.addresses())
        with pytest.MonkeyPatch.context() as patch:
            for name, value in ({**UNLIMITED, **(QUICK if self._is_quick else {})}).items():
                patch.setenv(name, value)
            self._parts: dict[str, Part] = {part.name: part for part in self._layout.parts()}
        record = ChildRecord(data.children)
        record.begin()
        self._record = record
        self._log = folder / "log"
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self.data = data.path
        self.port = self._layout.port
        self.kubeconfig = kubeconfig or data.kubeconfig

    def start_all(self) -> None:
        """Start all parts in order and wait until the platform is ready."""
        for name in self._known(SERVERS):
            self.start(name)
        self.run_once("prepare")
        if self._is_quick:
            self._sweep_often()
        for name in self._known(PROCESSES):
            self.start(name)
        self.wait(self.is_ready, "the platform to be ready", START_SECONDS)

    def stop_all(self) -> None:
        """Stop all parts."""
        for name in tuple(self._children):
            self.kill(name)

    def start(
        self, name: str, *, role: str = "", further: Mapping[str, str] | None = None
    ) -> None:
        """Start a part, or another process of it with the name `role`, and wait for it.

        `further` is added to its environment.
        """
        part = self._parts[name]
        assert part.command is not None
        command = replace(part.command, env={**part.command.env, **(further or {})})
        if role and role != name:  # The first process uses the port of /metrics.
            command = replace(command, env={**command.env, "GPUPLATFORM_METRICS_PORT": "0"})
        self._children[role or name] = self._begin(command, role or name)
        if part.is_ready is not None:
            self.wait(part.is_ready, f"{name} to be ready", START_SECONDS)

    def run_once(self, name: str, further: Mapping[str, str] | None = None) -> None:
        """Run a part that ends automatically; `further` is added to its environment."""
        command = self._parts[name].command
        assert command is not None
        command = replace(command, env={**command.env, **(further or {})})
        assert self._begin(command, name).wait(START_SECONDS) == 0, f"{name} failed"

    def kill(self, name: str) -> None:
        """Kill a part with its children, and wait for their end."""
        if child := self._children.pop(name, None):
            send_signal(child.pid, signal.SIGKILL, to_group=True)
            child.wait(START_SECONDS)
        if (server := self._layout.postgres) and name == "postgres":
            # Its processes lead separate groups, and no second one may be started.
            assert wait_until(lambda: not server.workers(), START_SECONDS)

    def kill_at_once(self, names: Iterable[str]) -> None:
        """Kill parts with their children at the same time, and wait for their end."""
        for name in names:
            send_signal(self._children[name].pid, signal.SIGKILL, to_group=True)
        for name in names:
            self.kill(name)

    @contextmanager
    def paused_children(self, name: str) -> Iterator[None]:
        """Suspend the child processes of a part during the block."""
        leader = self._children[name].pid
        children = [p.pid for p in all_processes() if p.group == leader and p.pid != leader]
        for child in children:
            os.kill(child, signal.SIGSTOP)
        try:
            yield
        finally:
            for child in children:
                os.kill(child, signal.SIGCONT)

    def is_claimed(self, task: str) -> bool:
        """Return whether a worker has an unacknowledged message of this task."""
        with redis.Redis.from_url(self._layout.addresses()["REDIS_URL"]) as client:
            return any(task.encode() in message for message in client.hvals("unacked"))

    def request(self, method: str, path: str, body: Any = None, *, seconds: float = 20) -> Answer:
        """Send a request to the API. The content of an answer that is not JSON is its text."""
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=seconds)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            is_json = answer.getheader("Content-Type", "").startswith("application/json")
            content = answer.read().decode()
            parsed = json.loads(content) if is_json else content
            return Answer(answer.status, parsed, dict(answer.getheaders()))
        finally:
            connection.close()

    def health(self) -> Any:
        """Return the health document."""
        return self.request("GET", "/api/v1/health").data

    def ended(self) -> list[str]:
        """Return the parts that ended without being killed."""
        children = list(self._children.items())  # other threads kill processes
        return [name for name, one in children if read_process(one.pid) is None]

    def add_spec(self, name: str = "g1.1", **fields: Any) -> None:
        """Add a GPU spec to the catalogue. A repeated call must have the same fields."""
        body = {"operationID": f"spec-{name}", "name": name, "gpu": 1, **fields}
        answer = self.request("POST", SPECS, body)
        assert answer.status in {200, 202}, answer.body

    def wait_for_life(self) -> None:
        """Wait for a heartbeat of every part that is newer than this call, and for readiness.

        A heartbeat from before an outage remains valid for a while after it.
        """
        [(now,)] = self.sql("SELECT now()")

        def all_live() -> bool:
            query = "SELECT count(*) FROM reconciliation_processheartbeat WHERE seen_at > %s"
            return self.sql(query, now) == [(len(REPORTING),)]

        self.wait(all_live, "every part to show its life")
        self.wait(self.is_ready, "the platform to be ready")

    def is_ready(self) -> bool:
        """Return whether all parts are ready."""
        try:
            return self.health()["ready"] is True
        except (OSError, http.client.HTTPException):
            return False

    def wait(self, met: Callable[[], bool], what: str, seconds: float = 60) -> None:
        """Wait until `met` returns true; fail after `seconds`."""
        pause = threading.Event()
        end = time.monotonic() + seconds
        while not met():
            assert not self.ended(), f"ended by themselves: {self.ended()}"
            assert time.monotonic() < end, f"waited {seconds} s for {what}"
            pause.wait(0.05)

    def wait_for_job(
        self, operation_id: str, phase: str = "Succeeded", seconds: float = 60
    ) -> Any:
        """Wait until the operation has the phase; return it."""

        def reached() -> bool:
            return bool(self.request("GET", f"{JOBS}/{operation_id}").data["phase"] == phase)

        self.wait(reached, f"{operation_id} to be {phase}", seconds)
        return self.request("GET", f"{JOBS}/{operation_id}").data

    def pool(self, name: str) -> Any:
        """Return a pool as the API returns it, or None."""
        answer = self.request("GET", f"{POOLS}/{name}")
        return None if answer.status == 404 else answer.data

    def wait_for_pool(self, name: str, phase: str, seconds: float = 60) -> Any:
        """Wait until the pool has the phase; return it."""
        self.wait(
            lambda: (self.pool(name) or {}).get("phase") == phase, f"{name} to be {phase}", seconds
        )
        return self.pool(name)

    def environment(self) -> dict[str, str]:
        """Return the environment of a program that runs with the platform."""
        command = self._parts["prepare"].command
        assert command is not None
        return dict(command.env)

    def begin(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start a command of `manage.py` with the environment of the platform."""
        return subprocess.Popen(
            [sys.executable, "manage.py", *arguments],
            cwd=PROJECT_ROOT,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def manage(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a command of `manage.py` with the environment of the platform."""
        with self.begin(*arguments) as command:
            words, complaints = command.communicate()
        return subprocess.CompletedProcess(arguments, command.returncode, words, complaints)

    def token(self, tenant: str, *scopes: str) -> str:
        """Return a new token of a tenant, with these scopes or with all scopes."""
        name = f"token-{uuid.uuid4().hex[:8]}"
        given = [word for scope in scopes or ("operator", "user") for word in ("--scope", scope)]
        done = self.manage("token_create", name, "--tenant", tenant, *given)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def processes(self) -> list[int]:
        """Return the process ids of all processes of the platform."""
        leaders = {child.pid for child in self._children.values()}
        return [one.pid for one in all_processes() if one.group in leaders]

    def pid_of(self, name: str) -> int:
        """Return the process id of a part's first process, which leads the group of the others."""
        return self._children[name].pid

    def sql(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Read rows from the database."""
        with psycopg.connect(self._layout.addresses()["DATABASE_URL"], autocommit=True) as session:
            cursor = session.execute(query, values)
            return cursor.fetchall() if cursor.description else []

    def cluster(self) -> Cluster:
        """Return a client of the embedded cluster."""
        cluster = open_cluster(KubeMode.REQUIRED, str(self.kubeconfig))
        assert cluster is not None
        return cluster

    def queue(self) -> Queue:
        """Return a client of the platform's queue; the caller closes it."""
        server = self._layout.nats
        assert server is not None
        return Queue(server.url, server.account)

    def forget_messages(self) -> None:
        """Delete all messages of the broker."""

        client = redis.Redis.from_url(self._layout.addresses()["REDIS_URL"])
        client.flushall()
        client.close()

    def _begin(self, command: Command, role: str) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return start_child(command, role, self._record, log)

    def _known(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name in self._parts]

    def _sweep_often(self) -> None:
        """Make the sweeps of beat more frequent than in production, for short waits in tests."""
        self.sql(
            "UPDATE django_celery_beat_intervalschedule SET every = %s WHERE every = 15",
            SWEEP_SECONDS,
        )
