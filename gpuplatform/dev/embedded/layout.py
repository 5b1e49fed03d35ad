"""The parts of the platform in development mode: how each is started, after what, and when ready.

Read by the runner. In production the same commands run in containers (see `compose.yaml`).
"""

import http.client
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gpuplatform.dev.embedded.children import Command
from gpuplatform.dev.embedded.data_directory import PROJECT_ROOT
from gpuplatform.dev.embedded.forking import load_libraries
from gpuplatform.dev.embedded.nats import Nats
from gpuplatform.dev.embedded.options import Options
from gpuplatform.dev.embedded.ports import LOOPBACK, free_port
from gpuplatform.dev.embedded.postgres import Postgres
from gpuplatform.dev.embedded.processes import IS_LINUX
from gpuplatform.dev.embedded.supervisor import Part
from gpuplatform.dev.embedded.valkey import Valkey

WEB_WORKERS = 2
QUEUES = {"operations": 2, "reconcile": 2, "periodic": 1}
"""Celery queues with the number of processes that work on each."""

DRAIN_SECONDS = 2
"""What our processes may take for their work when the run ends, within what it has promised."""

MEASURED = ("web", *QUEUES, "beat", "controller")
"""The parts that serve metrics."""

SERVERLESS = {"results": "run_result_store", "activator": "run_activator"}
"""The commands of the parts that functions need; without a cluster there are no functions."""


def http_get(port: int, path: str) -> tuple[int, bytes] | None:
    """Return status and body of a request to loopback, or None if there is no answer."""
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
    """Return a probe: the server on this port answers 200 there."""

    def probe() -> bool:
        answer = http_get(port, path)
        return answer is not None and answer[0] == 200

    return probe


def health_answers(port: int, *, must_be_ready: bool) -> Callable[[], bool]:
    """Return a probe of `/api/v1/health`: it answers, or it says `ready: true`."""

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
    metrics_ports: Mapping[str, int] = field(default_factory=dict)
    """Of each part that serves metrics; empty when nobody wants them."""
    nats: Nats | None = None

    @classmethod
    def prepare(cls, options: Options, port: int) -> "Layout":
        """Prepare the embedded servers, those for which no address is given.

        Raises:
            StartError: one of them cannot be prepared.
        """
        data = options.data.path
        measured = [
            name for name in MEASURED if name != "controller" or options.kube_mode != "off"
        ]
        return cls(
            options=options,
            port=port,
            cluster_port=free_port(),
            postgres=None if options.database_url else Postgres.prepare(data, free_port()),
            valkey=None if options.redis_url else Valkey.prepare(data / "valkey", free_port()),
            metrics_ports=options.metrics_ports(measured),
            nats=None if options.nats_url else Nats.prepare(data / "nats", free_port()),
        )

    @property
    def has_simulator(self) -> bool:
        """Whether the embedded cluster is used."""
        return self.options.kube_mode == "simulated"

    def addresses(self) -> dict[str, str]:
        """Return the environment variables that say where everything is."""
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
        """Return the environment of our own processes."""
        return {
            **base,
            **self.addresses(),
            "GPUPLATFORM_DEV": "1",
            "GPUPLATFORM_DATA": str(self.options.data.path),
            "GPUPLATFORM_DRAIN_SECONDS": str(DRAIN_SECONDS),
            "DJANGO_SETTINGS_MODULE": "gpuplatform.settings",
            "PYTHONUNBUFFERED": "1",
            # Threads would each keep an arena of freed memory.
            "MALLOC_ARENA_MAX": "2",
            # Celery says it of root, who here is a person in a container of their own.
            "PYTHONWARNINGS": "ignore:You're running the worker with superuser privileges",
        }

    def parts(self) -> list[Part]:
        """Return every part, in the order in which the log should name them."""
        return [*self._servers(), *self._preparations(), *self._processes(), *self._ending()]

    def recovery_parts(self) -> list[Part]:
        """Return what `manage.py recover` needs, and itself: the servers without the platform."""
        database, *_ = self._preparations()
        after = ("database", "cluster") if self.has_simulator else ("database",)
        command = self._python("manage.py", "recover", "--stopped")
        return [*self._servers(), database, Part("recover", command, after=after, runs_once=True)]

    def _python(
        self, *arguments: str, role: str = "command", part: str = "", may_fork: bool = True
    ) -> Command:
        return Command(
            argv=(sys.executable, *arguments),
            env={
                **self.environment(os.environ),
                "GPUPLATFORM_ROLE": role,
                "GPUPLATFORM_METRICS_PORT": str(self.metrics_ports.get(part, 0)),
            },
            cwd=PROJECT_ROOT,
            may_fork=may_fork,
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
        # Last: it holds everything else up, but not what has been started by then.
        parts.append(Part("libraries", is_ready=load_libraries if IS_LINUX else None))
        return parts

    def _apiserver(self) -> Part:
        data = self.options.data
        return Part(
            "cluster",
            self._python(
                *("-m", "gpuplatform.dev.simulator.apiserver", "--port", str(self.cluster_port)),
                *("--state-dir", str(data.path / "cluster"), "--kubeconfig", str(data.kubeconfig)),
                may_fork=False,
            ),
            is_ready=answers_ok(self.cluster_port, "/readyz"),
            is_server=True,
        )

    def _preparations(self) -> list[Part]:
        database = Part(
            "database",
            self._python("manage.py", "prepare_development"),
            after=("libraries", "postgres") if self.postgres else ("libraries",),
            runs_once=True,
        )
        if self.options.kube_mode == "off":
            return [database]
        install = Part(
            "install",
            self._python("manage.py", "install_cluster"),
            after=("libraries", "cluster") if self.has_simulator else ("libraries",),
            runs_once=True,
        )
        return [database, install]

    def _processes(self) -> list[Part]:
        prepared = ("database",) if self.options.kube_mode == "off" else ("database", "install")
        with_broker = (*prepared, "valkey") if self.valkey else prepared
        parts = [self._web(prepared)]
        parts += [self._worker(queue, number, with_broker) for queue, number in QUEUES.items()]
        beat = self._python(*_CELERY, "beat", part="beat")
        parts.append(Part("beat", beat, after=with_broker))
        if self.options.kube_mode != "off":
            controller = self._python("manage.py", "run_controller", part="controller")
            parts.append(Part("controller", controller, after=with_broker))
            with_queue = (*with_broker, "nats") if self.nats else with_broker
            for name, command in SERVERLESS.items():
                parts.append(Part(name, self._python("manage.py", command), after=with_queue))
        if self.has_simulator:
            parts.append(self._kubelet())
        return parts

    def _web(self, after: tuple[str, ...]) -> Part:
        command = self._python(
            *("-m", "gunicorn", "--config", "python:gpuplatform.processes.webserver"),
            *("--bind", f"{LOOPBACK}:{self.port}", "--workers", str(WEB_WORKERS)),
            *("--log-level", "warning"),
            role="web",
            part="web",
        )
        return Part("web", command, after=after, is_ready=answers_ok(self.port, "/livez"))

    def _worker(self, queue: str, number: int, after: tuple[str, ...]) -> Part:
        command = self._python(
            *(*_CELERY, "worker", "--queues", queue, "--hostname", f"{queue}@%h"),
            *("--concurrency", str(number)),
            *("--without-gossip", "--without-mingle", "--without-heartbeat"),
            role="worker",
            part=queue,
        )
        return Part(queue, command, after=after)

    def _kubelet(self) -> Part:
        kubeconfig = str(self.options.data.kubeconfig)
        arguments = ("-m", "gpuplatform.dev.simulator.kubelet", "--kubeconfig", kubeconfig)
        return Part("kubelet", self._python(*arguments, may_fork=False), after=("cluster",))

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
