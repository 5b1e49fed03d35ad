"""The platform, installed on the nodes by kubectl from `deploy/`, with its servers.

PostgreSQL and Valkey are the servers of the test run, at an address that the policies of `deploy/`
allow. NATS runs in a namespace of the cluster with the label of docs/deploy.md.
"""

import base64
import contextlib
import json
import os
import secrets
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import yaml

from gpuplatform.dev.embedded.nats import MAX_PAYLOAD
from gpuplatform.nats.keys import KeyKind, KeyPair
from serverless.queue.credentials import server_configuration
from tests.node import network
from tests.node.cluster import NodeCluster
from tests.node.images import BUSYBOX
from tests.node.relay import relaying
from tests.node.shipped import NATS, PLATFORM

REPOSITORY = Path(__file__).resolve().parents[2]
SYSTEM, SERVERS, CALLERS = "gpu-platform", "servers", "callers"
POSTGRES_PORT, VALKEY_PORT, NATS_PORT, NATS_MONITOR = 5432, 6379, 4222, 8222
NATS_ADDRESS = "10.96.42.22"
"""The address of the Service of NATS, since the cluster has no DNS."""
DATABASE = "shipped"
ROLLOUT_SECONDS = 480
ONE_REPLICA = ("web", "operations", "reconcile", "controller", "activator", "results")


@dataclass(frozen=True, slots=True)
class Installation:
    """A running installation."""

    kubeconfig: Path
    overlay: Path
    token: str

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """Run kubectl, and return its output."""
        return kubectl(self.kubeconfig, *arguments, stdin=stdin)

    def python(self, namespace: str, pod: str, program: str, *arguments: str) -> str:
        """Run a Python program in a pod, and return its output."""
        execute = ("-n", namespace, "exec", pod, "-c", "process", "--", "python", "-c")
        return self.kubectl(*execute, program, *arguments)

    def address(self, namespace: str, label: str) -> str:
        """Return the address of a running pod with the label."""
        listed = self.kubectl("-n", namespace, "get", "pods", "-l", label, "-o", "json")
        return str(json.loads(listed)["items"][0]["status"]["podIP"])

    @property
    def service(self) -> str:
        """The address of the Service of the API."""
        get = ("-n", SYSTEM, "get", "service", "gpu-platform-web")
        return self.kubectl(*get, "-o", "jsonpath={.spec.clusterIP}")


def kubectl(kubeconfig: Path, *arguments: str, stdin: str = "") -> str:
    """Run kubectl, and return its output.

    Raises:
        AssertionError: kubectl failed; with its output.
    """
    done = subprocess.run(
        ["kubectl", "--kubeconfig", str(kubeconfig), *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"kubectl {' '.join(arguments[:6])}: {done.stderr}{done.stdout}"
    return done.stdout


@contextlib.contextmanager
def installed(nodes: NodeCluster, folder: Path) -> Iterator[Installation]:
    """Install the platform as docs/deploy.md describes; remove its namespaces afterwards."""
    account = KeyPair.generate(KeyKind.ACCOUNT)
    overlay = _write_overlay(folder)
    made = Installation(nodes.kubeconfig, overlay, token="")
    with contextlib.ExitStack() as stack:
        database, broker = _servers(stack)
        stack.callback(_remove, made)
        made.kubectl(
            "apply", "--server-side", "-f", str(REPOSITORY / "deploy/base/namespaces.yaml")
        )
        made.kubectl("apply", "--server-side", "-f", "-", stdin=_manifests(account))
        made.kubectl(
            *("-n", SYSTEM, "create", "secret", "generic", "gpu-platform-secrets"),
            f"--from-literal=DATABASE_URL={database}",
            f"--from-literal=REDIS_URL={broker}",
            f"--from-literal=NATS_URL=nats://{NATS_ADDRESS}:{NATS_PORT}",
            f"--from-literal=GPUPLATFORM_NATS_SEED={account.seed}",
            f"--from-literal=GPUPLATFORM_SECRET_KEY={secrets.token_hex(32)}",
        )
        made.kubectl("apply", "--server-side", "-k", str(overlay))
        timeout = f"--timeout={ROLLOUT_SECONDS}s"
        job = "job/gpu-platform-migrate"
        made.kubectl("-n", SYSTEM, "wait", "--for=condition=complete", timeout, job)
        made.kubectl("-n", SYSTEM, "rollout", "status", timeout, "deployment")
        made.kubectl("-n", CALLERS, "wait", "--for=condition=Ready", timeout, "pod/caller")
        create = ("manage.py", "token_create", "ci", "--scope", "user", "--scope", "operator")
        web = ("-n", SYSTEM, "exec", "deployment/gpu-platform-web", "-c", "process", "--")
        token = made.kubectl(*web, "python", *create).strip()
        yield Installation(nodes.kubeconfig, overlay, token)


def _servers(stack: contextlib.ExitStack) -> tuple[str, str]:
    """Serve the database and the broker in the network of the nodes; return their URLs."""
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {DATABASE}")
    urls = []
    for variable, port, path in (
        ("DATABASE_URL", POSTGRES_PORT, DATABASE),
        ("REDIS_URL", VALKEY_PORT, "14"),
    ):
        parts = urlsplit(os.environ[variable])
        listener = socket.create_server((network.ADDRESS, port)).detach()
        stack.enter_context(relaying(listener, parts.hostname or "", parts.port or 0))
        user = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
        netloc = f"{user}{network.ADDRESS}:{port}"
        urls.append(urlunsplit((parts.scheme, netloc, f"/{path}", "", "")))
    return urls[0], urls[1]


def _remove(made: Installation) -> None:
    """Delete the platform, before other tests use the cluster."""
    made.kubectl("delete", "namespace", SYSTEM, SERVERS, CALLERS, "--wait=true")
    made.kubectl("delete", "gpuunits", "--all", "--all-namespaces", "--wait=true")


def _write_overlay(folder: Path) -> Path:
    """Write the overlay as docs/deploy.md describes: image, settings, one pod each."""
    folder.mkdir(parents=True)
    deploy = os.path.relpath(REPOSITORY / "deploy", folder)
    name, _, tag = PLATFORM.rpartition(":")
    settings = [
        f"GPUPLATFORM_RESERVATION_IMAGE={BUSYBOX}",
        f"GPUPLATFORM_SIDECAR_IMAGE={PLATFORM}",
    ]
    text = yaml.safe_dump(
        {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [f"{deploy}/base"],
            "components": [f"{deploy}/components/serverless"],
            "configMapGenerator": [
                {
                    "name": "gpu-platform-settings",
                    "namespace": SYSTEM,
                    "behavior": "merge",
                    "literals": settings,
                }
            ],
            "images": [{"name": "gpu-platform", "newName": name, "newTag": tag}],
            "replicas": [{"name": f"gpu-platform-{one}", "count": 1} for one in ONE_REPLICA],
        }
    )
    (folder / "kustomization.yaml").write_text(text)
    return folder


def _manifests(account: KeyPair) -> str:
    """Return NATS in its labelled namespace, and a caller in another one."""
    configuration = (
        f"port: {NATS_PORT}\nhttp_port: {NATS_MONITOR}\nmax_payload: {MAX_PAYLOAD}\n"
        "jetstream { store_dir: /tmp, max_mem: 64MB, max_file: 8GB }\n"
        f"{server_configuration(account)}"
    )
    nats = {
        "command": ["/nats-server", "-c", "/etc/nats/nats.conf"],
        "volumeMounts": [{"name": "configuration", "mountPath": "/etc/nats"}],
        "readinessProbe": {"tcpSocket": {"port": NATS_PORT}, "periodSeconds": 1},
    }
    volumes = [{"name": "configuration", "secret": {"secretName": "nats"}}]
    encoded = base64.b64encode(configuration.encode()).decode()
    objects: list[dict[str, Any]] = [
        _namespace(SERVERS, {"runtime.lokiwager.io/serves": "queue"}),
        _namespace(CALLERS, {"runtime.lokiwager.io/calls": "platform"}),
        _object("v1", "Secret", SERVERS, "nats", data={"nats.conf": encoded}),
        _pod(SERVERS, "nats", NATS, nats, volumes),
        _object(
            *("v1", "Service", SERVERS, "nats"),
            spec={
                "clusterIP": NATS_ADDRESS,
                "selector": {"app": "nats"},
                "ports": [{"port": NATS_PORT}],
            },
        ),
        _pod(CALLERS, "caller", PLATFORM, {"command": ["sleep", "3600"]}),
    ]
    return yaml.safe_dump_all(objects)


def _namespace(name: str, labels: dict[str, str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _pod(
    namespace: str,
    name: str,
    image: str,
    container: dict[str, Any],
    volumes: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    containers = [{"name": "process", "image": image, **container}]
    spec = {"containers": containers, "volumes": volumes or []}
    made = _object("v1", "Pod", namespace, name, spec={**spec, "terminationGracePeriodSeconds": 1})
    made["metadata"]["labels"] = {"app": name}
    return made


def _object(version: str, kind: str, namespace: str, name: str, **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **more}
