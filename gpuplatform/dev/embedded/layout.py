"""The parts of the platform in development mode: their commands, start order and readiness probes.

In production the same commands run in containers (see `compose.yaml`), with one worker process for
each queue.
"""

import http.client
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gpuplatform.dev.embedded.children import Command
from gpuplatform.dev.embedded.data_directory import PROJECT_ROOT
from gpuplatform.dev.embedded.nats import Nats
from gpuplatform.dev.embedded.options import Options
from gpuplatform.dev.embedded.ports import LOOPBACK, free_port
from gpuplatform.dev.embedded.postgres import Postgres
from gpuplatform.dev.embedded.supervisor import Part
from gpuplatform.dev.embedded.valkey import Valkey

WEB_THREADS = 8
"""Total number of threads of the web workers."""

DRAIN_SECONDS = 2
"""Time in seconds that running tasks and requests have to finish when the run stops."""

SERVERLESS = {"results": "run_result_store", "activator": "run_activator"}
"""Management command of each part that functions need. Functions require a cluster."""


@dataclass(frozen=True, slots=True)
class Worker:
    """A Celery worker: the queues that it consumes and the number of its child processes."""

    queues: tuple[str, ...]
    children: int


WORKERS: Mapping[str, Worker] = {
    "worker": Worker(("operations", "reconcile", "periodic"), children=3)
}
"""One worker for all queues; a worker for each queue would use 200 MB more memory."""


def http_get(port: int, path: str) -> tuple[int, bytes] | None:
    """Send a GET request to a loopback port and return (status, body).

    Returns `None` if the server does not respond.
    """
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=3)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def returns_ok(port: int, path: str) -> Callable[[], bool]:
    """Return a probe that checks whether a GET request for `path` returns 200."""

    def probe() -> bool:
        response = http_get(port, path)
        return response is not None and response[0] == 200

    return probe


def is_healthy(port: int, *, must_be_ready: bool) -> Callable[[], bool]:
    """Return a probe that checks whether `/api/v1/health` returns 200.

    With `must_be_ready` the response must also contain `ready: true`.
    """

    def probe() -> bool:
        response = http_get(port, "/api/v1/health")
        if response is None or response[0] != 200:
            return False
        return not must_be_ready or json.loads(response[1])["data"]["ready"] is True

    return probe


@dataclass(frozen=True, slots=True)
class Layout:
    """The parts of one run and the addresses that they use."""

    options: Options
    port: int
    cluster_port: int
    postgres: Postgres | None
    valkey: Valkey | None
    nats: Nats | None
    metrics_ports: Mapping[str, int] = field(default_factory=dict)
    """Metrics port of each process by name. It is empty if metrics are disabled."""
    web_workers: int = 1
    workers: Mapping[str, Worker] = field(default_factory=lambda: WORKERS)

    @classmethod
    def prepare(cls, options: Options, port: int) -> "Layout":
        """Prepare an embedded server for each server whose address is not set.

        Raises:
            StartError: If a server cannot be prepared.
        """
        data = options.data.path
        processes = ["web", *WORKERS, "beat"]
        if options.kube_mode != "off":
            processes += ["controller", *SERVERLESS]
        return cls(
            options=options,
            port=port,
            cluster_port=free_port(),
            postgres=None if options.database_url else Postgres.prepare(data, free_port()),
            valkey=None if options.redis_url else Valkey.prepare(data / "valkey", free_port()),
            nats=None if options.nats_url else Nats.prepare(data / "nats", free_port()),
            metrics_ports=options.metrics_ports(processes),
        )

    @property
    def has_simulator(self) -> bool:
        """Whether the run includes the simulated cluster."""
        return self.options.kube_mode == "simulated"

    def addresses(self) -> dict[str, str]:
        """Return the environment variables that contain the addresses of all servers."""
        kubeconfig = self.options.kubeconfig
        if self.has_simulator:
            kubeconfig = str(self.options.data.kubeconfig)
        return {
            "DATABASE_URL": self.postgres.url if self.postgres else self.options.database_url,
            "REDIS_URL": self.valkey.url if self.valkey else self.options.redis_url,
            "NATS_URL": self.nats.url if self.nats else self.options.nats_url,
            "KUBECONFIG": kubeconfig,
            "KUBE_MODE": self.options.kube_mode,
            "PORT": str(self.port),
        }

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """Return the environment for the processes of the platform, based on `base`."""
        return {
            **base,
            **self.addresses(),
            "GPUPLATFORM_DEV": "1",
            "GPUPLATFORM_DATA": str(self.options.data.path),
            "GPUPLATFORM_DRAIN_SECONDS": str(DRAIN_SECONDS),
            "GPUPLATFORM_WEB_THREADS": base.get(
                "GPUPLATFORM_WEB_THREADS", str(WEB_THREADS // self.web_workers)
            ),
            "DJANGO_SETTINGS_MODULE": "gpuplatform.settings",
            "PYTHONUNBUFFERED": "1",
            # With the default, each thread would keep an arena of freed memory.
            "MALLOC_ARENA_MAX": "2",
            # Suppress Celery's warning about root, because developers often use containers.
            "PYTHONWARNINGS": "ignore:You're running the worker with superuser privileges",
        }

    def parts(self) -> list[Part]:
        """Return all parts. Their order determines the colors in the log."""
        preparation = self._preparation(with_cluster=self.options.kube_mode != "off")
        return [*self._servers(), preparation, *self._processes(), *self._ending()]

    def recovery_parts(self) -> list[Part]:
        """Return the parts of `make recover`: the servers and the `recover` command."""
        after = ("prepare", "cluster") if self.has_simulator else ("prepare",)
        command = self._python("manage.py", "recover", "--stopped")
        recover = Part("recover", command, after=after, runs_once=True)
        return [*self._servers(), self._preparation(with_cluster=False), recover]

    def _python(self, *arguments: str, role: str = "command", part: str = "") -> Command:
        return Command(
            argv=(sys.executable, *arguments),
            env={
                **self.environment(os.environ),
                "GPUPLATFORM_ROLE": role,
                "GPUPLATFORM_METRICS_PORT": str(self.metrics_ports.get(part, 0)),
            },
            cwd=PROJECT_ROOT,
        )

    def _servers(self) -> list[Part]:
        embedded: dict[str, Postgres | Valkey | Nats | None] = {
            "postgres": self.postgres,
            "valkey": self.valkey,
            "nats": self.nats,
        }
        parts = [
            Part(name, server.command(), is_ready=server.is_ready, is_server=True)
            for name, server in embedded.items()
            if server
        ]
        if self.has_simulator:
            parts.append(self._apiserver())
        return parts

    def _apiserver(self) -> Part:
        data = self.options.data
        return Part(
            "cluster",
            self._python(
                *("-m", "gpuplatform.dev.simulator.apiserver", "--port", str(self.cluster_port)),
                *("--state-dir", str(data.path / "cluster"), "--kubeconfig", str(data.kubeconfig)),
            ),
            is_ready=returns_ok(self.cluster_port, "/readyz"),
            is_server=True,
        )

    def _preparation(self, *, with_cluster: bool) -> Part:
        servers = {"postgres": self.postgres, "cluster": with_cluster and self.has_simulator}
        arguments = ("--cluster",) if with_cluster else ()
        return Part(
            "prepare",
            self._python("manage.py", "prepare_development", *arguments),
            after=tuple(name for name, is_embedded in servers.items() if is_embedded),
            runs_once=True,
        )

    def _processes(self) -> list[Part]:
        with_broker = ("prepare", "valkey") if self.valkey else ("prepare",)
        parts = [self._web(("prepare",))]
        parts += [self._worker(name, one, with_broker) for name, one in self.workers.items()]
        beat = self._python(*_CELERY, "beat", part="beat")
        parts.append(Part("beat", beat, after=with_broker))
        if self.options.kube_mode != "off":
            controller = self._python("manage.py", "run_controller", part="controller")
            parts.append(Part("controller", controller, after=with_broker))
            with_queue = (*with_broker, "nats") if self.nats else with_broker
            for name, arguments in SERVERLESS.items():
                command = self._python("manage.py", arguments, part=name)
                parts.append(Part(name, command, after=with_queue))
        if self.has_simulator:
            parts.append(self._kubelet())
        return parts

    def _web(self, after: tuple[str, ...]) -> Part:
        command = self._python(
            *("-m", "gunicorn", "--config", "python:gpuplatform.processes.webserver"),
            *("--bind", f"{LOOPBACK}:{self.port}", "--workers", str(self.web_workers)),
            *("--log-level", "warning"),
            role="web",
            part="web",
        )
        return Part("web", command, after=after, is_ready=returns_ok(self.port, "/livez"))

    def _worker(self, name: str, worker: Worker, after: tuple[str, ...]) -> Part:
        command = self._python(
            *(*_CELERY, "worker", "--queues", ",".join(worker.queues), "--hostname", f"{name}@%h"),
            *("--concurrency", str(worker.children)),
            *("--without-gossip", "--without-mingle", "--without-heartbeat"),
            role="worker",
            part=name,
        )
        return Part(name, command, after=after)

    def _kubelet(self) -> Part:
        kubeconfig = str(self.options.data.kubeconfig)
        arguments = ("-m", "gpuplatform.dev.simulator.kubelet", "--kubeconfig", kubeconfig)
        return Part("kubelet", self._python(*arguments), after=("cluster",))

    def _ending(self) -> list[Part]:
        must_be_ready = self.options.kube_mode != "off"
        everything = tuple(part.name for part in self._processes())
        probe = is_healthy(self.port, must_be_ready=must_be_ready)
        parts = [Part("health", after=everything, is_ready=probe)]
        if self.options.wants_demo and not self.options.data.demo_sent.exists():
            url = f"http://{LOOPBACK}:{self.port}"
            marker = str(self.options.data.demo_sent)
            command = self._python("-m", "gpuplatform.dev.embedded.demo", url, "--marker", marker)
            demo = Part("demo", command, after=("health",), runs_once=True, may_fail=True)
            parts.append(demo)
        return parts


_CELERY = ("-m", "celery", "--quiet", "--app", "gpuplatform.celery")
