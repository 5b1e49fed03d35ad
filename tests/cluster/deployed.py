"""The platform's processes on a control plane, each with the account of its deployment."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, build_opener

from typing_extensions import override

from gpuplatform.dev.embedded.ports import LOOPBACK
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import (
    EVENT,
    GPU_UNIT,
    JOB,
    NAMESPACE,
    POD,
    ROLE_BINDING,
    SERVICE,
    STOCK_POOL,
    Manifest,
    ResourceKind,
)
from gpuplatform.tenants.core.namespaces import SUSPENDED
from tests.acceptance.platform import POOLS, PROCESSES, RunningPlatform
from units.core.pullers import PULLER_LABEL
from units.phases import UnitRole

UNITS = "/api/v1/gpu-units"
STOCK = "/api/v1/operator/stock-units"
SPECS = "/api/v1/operator/gpu-specs"
INVENTORY = "/api/v1/operator/inventory"
NODES = "/api/v1/operator/nodes"
TENANTS = "/api/v1/operator/tenants"
OFTEN_SECONDS = 2
PORTS = {"ports": [{"name": "http", "port": 8080}]}


class DeployedPlatform(RunningPlatform):
    """Processes with separate kubeconfigs; `deploy/` prepares the cluster."""

    def __init__(self, folder: Path, admin: Path, accounts: Mapping[str, Path]) -> None:
        super().__init__(folder, kubeconfig=admin)
        *_, self._parts["prepare"], self._parts["recover"] = self._layout.recovery_parts()
        others = {"prepare": accounts["migrate"], "recover": accounts["controller"]}
        for process, kubeconfig in {**accounts, **others}.items():
            part = self._parts.get(process)
            if part is None or part.command is None:
                continue
            env = {**part.command.env, "KUBECONFIG": str(kubeconfig)}
            self._parts[process] = replace(part, command=replace(part.command, env=env))

    @property
    def address(self) -> str:
        """The address of the admin."""
        return f"http://{LOOPBACK}:{self.port}"

    def admin_password(self) -> str:
        """Return the password of the administrator."""
        return self._layout.options.data.admin_password.read_text().strip()

    @override
    def _sweep_often(self) -> None:
        super()._sweep_often()
        self.sql(
            "UPDATE django_celery_beat_intervalschedule SET every = %s"
            " WHERE every IN (30, 60, 120)",
            OFTEN_SECONDS,
        )

    def wait_for_sample(self) -> None:
        """Wait for a sample of the nodes, which beat requests periodically."""
        samples = "SELECT count(*) FROM samples_capacitysnapshot"
        self.wait(lambda: self.sql(samples) != [(0,)], "the nodes to be sampled")

    def recover(self) -> None:
        """Stop the platform and run the recovery from the cluster."""
        for name in PROCESSES:
            self.kill(name)
        self.run_once("recover")

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send a write and wait until its operation has succeeded."""
        answer = self.request(method, path, body)
        assert answer.status == 202, answer.body
        return self.wait_for_job(answer.data["operationID"])

    def unit(self, name: str) -> Any:
        """Return a unit as the API returns it, or None."""
        answer = self.request("GET", f"{UNITS}/{name}")
        return None if answer.status == 404 else answer.data

    def wait_for_unit(self, name: str, phase: str) -> None:
        """Wait until the unit has the phase."""
        self.wait(
            lambda: (self.unit(name) or {}).get("phase") == phase, f"unit {name} to be {phase}"
        )


def check_pages(platform: DeployedPlatform, table: str, pages: str) -> None:
    """Open the cluster page of the newest object of a table as an administrator."""
    browser = build_opener(HTTPCookieProcessor(jar := CookieJar()))
    login = f"{platform.address}/admin/login/"
    browser.open(login).close()
    token = next(str(cookie.value) for cookie in jar if cookie.name == "csrftoken")
    entered = {"username": "admin", "password": platform.admin_password()}
    form = urlencode({**entered, "csrfmiddlewaretoken": token}).encode()
    browser.open(login, form).close()
    [(number,)] = platform.sql(f"SELECT max(id) FROM {table}")
    with browser.open(f"{platform.address}{pages}/{number}/cluster/") as answer:
        page = str(answer.read().decode())
    assert "1 of 1 available" in page, page
    # Simulated pods run no program and have no log.
    assert "Resource (YAML)" in page, page


def walk_pool(platform: DeployedPlatform) -> None:
    """Create, change and delete a pool, and leave a late write."""
    cluster = platform.cluster()
    platform.add_spec("g1.1")
    platform.add_spec("walk-1g", cpu="1", memory="1Gi")
    asked = {"specName": "g1.1", "gpu": 1, "replicas": 1, "template": PORTS}
    platform.ask("POST", POOLS, {"operationID": "p-1", "name": "walk", **asked})
    platform.wait_for_pool("walk", "Ready")
    platform.ask("PATCH", f"{POOLS}/walk", {"operationID": "p-2", "replicas": 2, "template": {}})
    platform.wait(
        lambda: cluster.get(SERVICE, "pool-walk", namespace="runtime-pools") is None,
        "the Service to be gone",
    )
    platform.wait_for_pool("walk", "Ready")
    platform.ask("PATCH", f"{POOLS}/walk", {"operationID": "p-3", "replicas": 1})
    platform.wait(
        lambda: any(
            reason == "DeploymentReady" and count > 1 for reason, count in pool_events(cluster)
        ),
        "the Event that the pool is ready to be counted up",
    )
    check_pages(platform, "inventory_stockpool", "/admin/inventory/stockpool")
    original = cluster.get(STOCK_POOL, "walk", namespace="runtime-pools")
    platform.ask("DELETE", f"{POOLS}/walk?operationID=p-4")
    platform.wait(lambda: platform.pool("walk") is None, "the pool to be gone")
    write_late(platform, STOCK_POOL, original)
    body = {"name": "walk-2", "specName": "walk-1g", "replicas": 0}
    platform.ask("POST", POOLS, {"operationID": "p-5", **body})
    delete_unseen(platform, STOCK_POOL, "runtime-pools", f"{POOLS}/walk-2?operationID=p-6")
    platform.wait(lambda: platform.pool("walk-2") is None, "the second pool to be gone")
    cluster.close()


def walk_tenants(platform: DeployedPlatform) -> None:
    """Create, suspend and delete a tenant with its own and one with an adopted namespace."""
    cluster = platform.cluster()
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-walk"}}
    cluster.create(NAMESPACE, manifest)
    platform.ask("POST", TENANTS, {"operationID": "t-1", "name": "walk"})
    adopts = {"namespace": "team-walk", "adoptNamespace": True}
    platform.ask("POST", TENANTS, {"operationID": "t-2", "name": "adopting", **adopts})
    platform.ask("POST", f"{TENANTS}/walk/suspend", {"operationID": "t-3"})
    namespace = cluster.get(NAMESPACE, "tenant-walk")
    assert namespace is not None
    assert namespace["metadata"]["annotations"][SUSPENDED] == "true"
    for number, name in ((4, "walk"), (5, "adopting")):
        platform.ask("DELETE", f"{TENANTS}/{name}?operationID=t-{number}")
    assert cluster.get(NAMESPACE, "tenant-walk") is None
    assert cluster.get(NAMESPACE, "team-walk") is not None
    assert cluster.list(ROLE_BINDING, namespace="team-walk").items == []
    cluster.close()


def pool_events(cluster: Cluster) -> list[tuple[str, int]]:
    """Return reason and count of each Event about a pool."""
    about = "involvedObject.kind=StockPool"
    events = cluster.list(EVENT, namespace="runtime-pools", field_selector=about).items
    return [(event["reason"], event["count"]) for event in events]


def walk_unit(platform: DeployedPlatform) -> None:
    """Seed stock, claim it, read the unit, stop and start it, change and delete it."""
    cluster = platform.cluster()
    seed = {"specName": "walk-1g", "gpu": 1, "cpu": "1", "memory": "1Gi"}
    platform.ask("POST", STOCK, {"operationID": "s-1", **seed, "replicas": 7})
    wait_for_stock(platform, cluster, 7)
    keep_images(platform, cluster)
    asked = {"name": "walk", "specName": "walk-1g", "image": "busybox:1.36"}
    template = {"command": ["httpd", "-f", "-p", "8080"], **PORTS}
    platform.ask("POST", UNITS, {"operationID": "u-1", **asked, "template": template})
    platform.wait_for_unit("walk", "Ready")
    assert platform.request("GET", f"{UNITS}/walk/events").status == 200
    assert platform.request("GET", INVENTORY).data["products"], "no GPUs are known"
    platform.request("GET", f"{UNITS}/walk/logs")
    check_pages(platform, "units_gpuunit", "/admin/units/activeunit")
    drain_node(platform, cluster, "walk")
    platform.ask("POST", f"{UNITS}/walk/stop", {"operationID": "u-2"})
    platform.wait_for_unit("walk", "Stopped")
    platform.ask("POST", f"{UNITS}/walk/start", {"operationID": "u-3"})
    platform.wait_for_unit("walk", "Ready")
    without = {"command": ["sleep", "3600"]}
    platform.ask("PUT", f"{UNITS}/walk", {"operationID": "u-4", "template": without})
    platform.wait(
        lambda: cluster.get(SERVICE, "unit-walk", namespace="runtime-instance") is None,
        "the Service to be gone",
    )
    platform.wait_for_unit("walk", "Ready")
    original = cluster.get(GPU_UNIT, "walk", namespace="runtime-instance")
    platform.ask("DELETE", f"{UNITS}/walk?operationID=u-5")
    platform.wait(lambda: platform.unit("walk") is None, "the unit to be gone")
    write_late(platform, GPU_UNIT, original)
    second_unit(platform, {"operationID": "u-6", **asked, "name": "walk-2"})
    remove_stock(platform, cluster)
    cluster.close()


def keep_images(platform: DeployedPlatform, cluster: Cluster) -> None:
    """Keep a warm image on the nodes of the stock, then no more."""

    def pullers() -> list[Manifest]:
        return cluster.list(POD, namespace="runtime-stock", label_selector=PULLER_LABEL).items

    warm = {"operationID": "w-1", "warmImages": ["busybox:1.36"]}
    platform.ask("PATCH", f"{SPECS}/walk-1g", warm)
    platform.wait(lambda: bool(pullers()), "the pullers to be created")
    platform.ask("PATCH", f"{SPECS}/walk-1g", {"operationID": "w-2", "warmImages": []})
    platform.wait(lambda: not pullers(), "the pullers to be deleted")


def second_unit(platform: DeployedPlatform, asked: dict[str, Any]) -> None:
    """Create another unit, and request its deletion after it was deleted."""
    platform.ask("POST", UNITS, asked)
    platform.wait_for_unit("walk-2", "Ready")
    delete_unseen(platform, GPU_UNIT, "runtime-instance", f"{UNITS}/walk-2?operationID=u-7")
    platform.wait(lambda: platform.unit("walk-2") is None, "the second unit to be gone")
    slow_unit(platform, {**asked, "operationID": "u-8", "name": "walk-3"})
    ending_unit(platform)


def ending_unit(platform: DeployedPlatform) -> None:
    """Create a unit whose program may end, change the program, and delete the unit."""
    cluster = platform.cluster()

    def job() -> str:
        found = cluster.get(JOB, "unit-walk-4", namespace="runtime-instance")
        return str(found["metadata"]["uid"]) if found else ""

    template: dict[str, Any] = {"command": ["sleep", "infinity"], "restart": "never"}
    asked = {"name": "walk-4", "specName": "walk-1g", "image": "busybox:1.36"}
    platform.ask("POST", UNITS, {"operationID": "j-1", **asked, "template": template})
    platform.wait_for_unit("walk-4", "Ready")
    first = job()
    template["command"] = ["sleep", "3600"]
    platform.ask("PUT", f"{UNITS}/walk-4", {"operationID": "j-2", "template": template})
    platform.wait(lambda: job() not in {"", first}, "another Job")
    platform.wait_for_unit("walk-4", "Ready")
    platform.ask("DELETE", f"{UNITS}/walk-4?operationID=j-3")
    platform.wait(lambda: platform.unit("walk-4") is None, "the unit with a Job to be gone")
    cluster.close()


def slow_unit(platform: DeployedPlatform, asked: dict[str, Any]) -> None:
    """Create a unit whose image pull fails so late that the Events about its pod are read."""
    platform.ask("POST", UNITS, {**asked, "image": "registry.example.invalid/a:1"})
    platform.wait(lambda: platform.unit("walk-3")["lastFailure"], "the failed image pull")
    platform.ask("DELETE", f"{UNITS}/walk-3?operationID=u-9")
    platform.wait(lambda: platform.unit("walk-3") is None, "the slow unit to be gone")


def outlive_a_worker(platform: DeployedPlatform) -> None:
    """Record that stock was consumed, as a worker that dies before it deletes the stock."""
    platform.sql(
        "UPDATE units_gpuunit SET consumed_by = 'walk', consumed_at = now(), due_at = now(),"
        " due_seq = due_seq + 1 WHERE id = (SELECT max(id) FROM units_gpuunit WHERE role = %s"
        " AND consumed_by = '' AND deleted_at IS NULL)",
        UnitRole.STOCK.value,
    )


def drain_node(platform: DeployedPlatform, cluster: Cluster, unit: str) -> None:
    """Drain the node of a unit twice, so that the Event about the notice is repeated; cancel."""
    nodes = platform.request("GET", NODES).data
    [node] = [one["name"] for one in nodes for pod in one["pods"] if pod["ownerName"] == unit]

    def notices() -> int:
        about = f"involvedObject.name={unit},reason=NodeDrainNotice"
        found = cluster.list(EVENT, namespace="runtime-instance", field_selector=about).items
        return sum(event["count"] for event in found)

    for number in (1, 2):
        body = {"operationID": f"drain-{number}", "units": "stop", "noticeMinutes": 60}
        platform.ask("POST", f"{NODES}/{node}/drain", body)
        platform.wait(lambda: notices() == number, "the Event about the notice")  # noqa: B023 - called here
        assert platform.unit(unit)["notice"]["reason"] == "NodeDrain"
        ends = {"operationID": f"cancel-drain-{number}"}
        platform.ask("POST", f"{NODES}/{node}/drain/cancel", ends)
    platform.ask("POST", f"{NODES}/{node}/uncordon", {"operationID": "drain-3"})


def cordon_node(platform: DeployedPlatform) -> None:
    """Cordon and uncordon a node."""
    node = platform.request("GET", NODES).data[0]["name"]
    for number, action, value in ((1, "cordon", False), (2, "uncordon", True)):
        platform.ask("POST", f"{NODES}/{node}/{action}", {"operationID": f"n-{number}"})
        platform.wait(
            partial(is_schedulable, platform, node, value=value),
            f"the row of the node to show the {action}",
        )


def is_schedulable(platform: DeployedPlatform, node: str, *, value: bool) -> bool:
    """Return whether the API reports this value for a node."""
    return platform.request("GET", f"{NODES}/{node}").data["schedulable"] is value


def remove_stock(platform: DeployedPlatform, cluster: Cluster) -> None:
    """Consume a stock unit, cordon and uncordon a node, and remove the remaining stock."""
    outlive_a_worker(platform)
    cordon_node(platform)
    wait_for_stock(platform, cluster, 1)
    platform.ask("DELETE", f"{STOCK}?operationID=s-2&specName=walk-1g&number=1")
    wait_for_stock(platform, cluster, 0)


def wait_for_stock(platform: DeployedPlatform, cluster: Cluster, number: int) -> None:
    """Wait until exactly this number of stock units exists, all `Ready`."""

    def reached() -> bool:
        found = cluster.list(GPU_UNIT, namespace="runtime-stock").items
        phases = [(unit.get("status") or {}).get("phase") for unit in found]
        return phases == ["Ready"] * number

    platform.wait(reached, f"{number} stock units to be Ready")


def delete_unseen(
    platform: DeployedPlatform, kind: ResourceKind, namespace: str, address: str
) -> None:
    """Delete a resource without reconciliation, then request its deletion, which must succeed."""
    cluster = platform.cluster()
    platform.kill("reconcile")
    cluster.delete(kind, "walk-2", namespace=namespace)
    platform.wait(
        lambda: cluster.get(kind, "walk-2", namespace=namespace) is None,
        f"the second {kind.kind} to be deleted",
    )
    platform.ask("DELETE", address)
    platform.start("reconcile")
    cluster.close()


def write_late(platform: DeployedPlatform, kind: ResourceKind, original: Manifest | None) -> None:
    """Create the object again as a worker that lost its lease. Wait for its deletion."""
    assert original is not None
    cluster = platform.cluster()
    metadata = {key: original["metadata"][key] for key in ("name", "namespace", "annotations")}
    late = {key: original[key] for key in ("apiVersion", "kind", "spec")}
    cluster.create(kind, {**late, "metadata": metadata})
    name, namespace = metadata["name"], metadata["namespace"]
    platform.wait(
        lambda: cluster.get(kind, name, namespace=namespace) is None,
        f"the late {kind.kind} to be removed",
    )
    cluster.close()
