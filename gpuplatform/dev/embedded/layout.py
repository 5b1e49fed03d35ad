"""The parts of the platform in development mode: how each starts, after which others, when ready.

Read by the runner. In production the same commands run in containers (see `compose.yaml`), with a
worker process for each queue.
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
"""Threads of all web workers together."""

DRAIN_SECONDS = 2
"""Seconds that running tasks and requests have when the run stops (it promises 10 in all)."""

SERVERLESS = {"results": "run_result_store", "activator": "run_activator"}
"""The commands of the parts that functions need; functions require a cluster."""


@dataclass(frozen=True, slots=True)
class Worker:
    """A Celery worker: the queues that it consumes, and the number of its child processes."""

    queues: tuple[str, ...]
    children: int


WORKERS: Mapping[str, Worker] = {
    "worker": Worker(("operations", "reconcile", "periodic"), children=3)
}
"""One for all queues: three interpreters would cost 200 MB more."""


def http_get(port: int, path: str) -> tuple[int, bytes] | None:
    """Return status and body of a request to loopback, or None without a response."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=3)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def answers_ok(port: int, path: str) -> Callable[[], bool]:
    """Return a probe: the server on this port answers 200 to this path."""

    def probe() -> bool:
        answer = http_get(port, path)
        return answer is not None and answer[0] == 200

    return probe


def health_answers(port: int, *, must_be_ready: bool) -> Callable[[], bool]:
    """Return a probe of `/api/v1/health`; with `must_be_ready` it has to report `ready: true`."""

    def probe() -> bool:
        answer = http_get(port, "/api/v1/health")
        if answer is None or answer[0] != 200:
            return False
        return not must_be_ready or json.loads(answer[1])["data"]["ready"] is True

    return probe


@dataclass(frozen=True, slots=True)
class Layout:
    """The parts of one run and the addresses they use."""

    options: Options
    port: int
    cluster_port: int
    postgres: Postgres | None
    valkey: Valkey | None
    nats: Nats | None
    metrics_ports: Mapping[str, int] = field(default_factory=dict)
    """The port of each process of the platform; empty when metrics are off."""
    web_workers: int = 1
    workers: Mapping[str, Worker] = field(default_factory=lambda: WORKERS)

    @classmethod
    def prepare(cls, options: Options, port: int) -> "Layout":
        """Prepare the embedded servers for which no address is given.

        Raises:
            StartError: One of them cannot be prepared.
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
        """Whether the embedded cluster is used."""
        return self.options.kube_mode == "simulated"

    def addresses(self) -> dict[str, str]:
        """Return the environment variables with the addresses of all servers."""
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
        """Return the environment of the platform's processes."""
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
            # Each thread would keep an arena of freed memory.
            "MALLOC_ARENA_MAX": "2",
            # Celery warns of root, who here is a developer in a container.
            "PYTHONWARNINGS": "ignore:You're running the worker with superuser privileges",
        }

    def parts(self) -> list[Part]:
        """Return every part, in the order of the colours of the log."""
        preparation = self._preparation(with_cluster=self.options.kube_mode != "off")
        return [*self._servers(), preparation, *self._processes(), *self._ending()]

    def recovery_parts(self) -> list[Part]:
        """Return the parts of `make recover`: the servers and the command, not the platform."""
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
        parts = []
        if postgres := self.postgres:
            command = postgres.command()
            parts.append(Part("postgres", command, is_ready=postgres.is_ready, is_server=True))
        if valkey := self.valkey:
            command = valkey.command()
            parts.append(Part("valkey", command, is_ready=valkey.is_ready, is_server=True))
        if nats := self.nats:
            command = nats.command()
            parts.append(Part("nats", command, is_ready=nats.is_ready, is_server=True))
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
            is_ready=answers_ok(self.cluster_port, "/readyz"),
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
        return Part("web", command, after=after, is_ready=answers_ok(self.port, "/livez"))

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
        probe = health_answers(self.port, must_be_ready=must_be_ready)
        parts = [Part("health", after=everything, is_ready=probe)]
        if self.options.wants_demo and not self.options.data.demo_sent.exists():
            url = f"http://{LOOPBACK}:{self.port}"
            marker = str(self.options.data.demo_sent)
            command = self._python("-m", "gpuplatform.dev.embedded.demo", url, "--marker", marker)
            demo = Part("demo", command, after=("health",), runs_once=True, may_fail=True)
            parts.append(demo)
        return parts


_CELERY = ("-m", "celery", "--quiet", "--app", "gpuplatform.celery")
