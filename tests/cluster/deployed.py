"""The platform's processes, each with the account that it has in a cluster, on a control plane."""

from collections.abc import Mapping
from dataclasses import replace
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
    SERVICE,
    STOCK_POOL,
    Manifest,
    ResourceKind,
)
from tests.acceptance.platform import POOLS, PROCESSES, RunningPlatform
from units.phases import UnitRole

UNITS = "/api/v1/gpu-units"
STOCK = "/api/v1/operator/stock-units"
INVENTORY = "/api/v1/operator/inventory"
OFTEN_SECONDS = 2
PORTS = {"ports": [{"name": "http", "port": 8080}]}


class DeployedPlatform(RunningPlatform):
    """Processes with kubeconfigs of their own; the cluster is prepared by `deploy/`."""

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
        """Where its pages are."""
        return f"http://{LOOPBACK}:{self.port}"

    def admin_password(self) -> str:
        """Return what its administrator logs in with."""
        return self._layout.options.data.admin_password.read_text().strip()

    @override
    def _sweep_often(self) -> None:
        super()._sweep_often()
        self.sql(
            "UPDATE django_celery_beat_intervalschedule SET every = %s WHERE every IN (30, 60)",
            OFTEN_SECONDS,
        )

    def wait_for_sample(self) -> None:
        """Wait until the nodes were looked at, which beat asks for now and then."""
        samples = "SELECT count(*) FROM samples_capacitysnapshot"
        self.wait(lambda: self.sql(samples) != [(0,)], "the nodes to be sampled")

    def recover(self) -> None:
        """Stop the platform and take over what the cluster has."""
        for name in PROCESSES:
            self.kill(name)
        self.run_once("recover")

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send a write and wait until its job has succeeded."""
        answer = self.request(method, path, body)
        assert answer.status == 202, answer.body
        return self.wait_for_job(answer.data["operationID"])

    def unit(self, name: str) -> Any:
        """Return a unit as the API shows it; None when there is none."""
        answer = self.request("GET", f"{UNITS}/{name}")
        return None if answer.status == 404 else answer.data

    def wait_for_unit(self, name: str, phase: str) -> None:
        """Wait until the unit has the phase."""
        self.wait(
            lambda: (self.unit(name) or {}).get("phase") == phase, f"unit {name} to be {phase}"
        )


def look_at(platform: DeployedPlatform, table: str, pages: str) -> None:
    """Look at what the cluster says of the newest object of a table, as an administrator does."""
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
    # Nothing runs in a played pod, so there is no log of it.
    assert "Resource (YAML)" in page, page


def walk_pool(platform: DeployedPlatform) -> None:
    """Make a pool, change it, delete it, and leave a late write behind."""
    cluster = platform.cluster()
    asked = {"specName": "g1.1", "gpu": 1, "replicas": 1, "template": PORTS}
    platform.ask("POST", POOLS, {"operationID": "p-1", "name": "walk", **asked})
    platform.wait_for_pool("walk", "Ready")
    platform.ask("PATCH", f"{POOLS}/walk", {"operationID": "p-2", "replicas": 2, "template": {}})
    platform.wait(
        lambda: cluster.get(SERVICE, "pool-walk", namespace="default") is None,
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
    look_at(platform, "inventory_stockpool", "/admin/inventory/stockpool")
    original = cluster.get(STOCK_POOL, "walk", namespace="default")
    platform.ask("DELETE", f"{POOLS}/walk?operationID=p-4")
    platform.wait(lambda: platform.pool("walk") is None, "the pool to be gone")
    write_late(platform, STOCK_POOL, original)
    body = {"name": "walk-2", "specName": "walk-1g", "replicas": 0}
    platform.ask("POST", POOLS, {"operationID": "p-5", **body})
    delete_unseen(platform, STOCK_POOL, "default", f"{POOLS}/walk-2?operationID=p-6")
    platform.wait(lambda: platform.pool("walk-2") is None, "the second pool to be gone")
    cluster.close()


def pool_events(cluster: Cluster) -> list[tuple[str, int]]:
    """Return reason and count of each Event about a pool."""
    about = "involvedObject.kind=StockPool"
    events = cluster.list(EVENT, namespace="default", field_selector=about).items
    return [(event["reason"], event["count"]) for event in events]


def walk_unit(platform: DeployedPlatform) -> None:
    """Seed stock, take it, look at the unit, stop and start it, change and delete it."""
    cluster = platform.cluster()
    seed = {"specName": "walk-1g", "gpu": 1, "cpu": "1", "memory": "1Gi"}
    platform.ask("POST", STOCK, {"operationID": "s-1", **seed, "replicas": 5})
    wait_for_stock(platform, cluster, 5)
    asked = {"name": "walk", "specName": "walk-1g", "image": "busybox:1.36"}
    template = {"command": ["sleep", "3600"], **PORTS}
    platform.ask("POST", UNITS, {"operationID": "u-1", **asked, "template": template})
    platform.wait_for_unit("walk", "Ready")
    assert platform.request("GET", f"{UNITS}/walk/events").status == 200
    assert platform.request("GET", INVENTORY).data["products"], "no GPUs are known"
    # Nothing runs in a simulated pod: that the log was asked for is what counts.
    platform.request("GET", f"{UNITS}/walk/logs")
    look_at(platform, "units_gpuunit", "/admin/units/activeunit")
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
    outlive_a_worker(platform)
    remove_stock(platform, cluster)
    cluster.close()


def second_unit(platform: DeployedPlatform, asked: dict[str, Any]) -> None:
    """Make another unit, and ask for its deletion when it is gone already."""
    platform.ask("POST", UNITS, asked)
    platform.wait_for_unit("walk-2", "Ready")
    delete_unseen(platform, GPU_UNIT, "runtime-instance", f"{UNITS}/walk-2?operationID=u-7")
    platform.wait(lambda: platform.unit("walk-2") is None, "the second unit to be gone")


def outlive_a_worker(platform: DeployedPlatform) -> None:
    """Record that stock was taken, as a worker does that dies before it deletes it."""
    platform.sql(
        "UPDATE units_gpuunit SET consumed_by = 'walk', consumed_at = now(), due_at = now(),"
        " due_seq = due_seq + 1 WHERE id = (SELECT max(id) FROM units_gpuunit WHERE role = %s"
        " AND consumed_by = '' AND deleted_at IS NULL)",
        UnitRole.STOCK.value,
    )


def remove_stock(platform: DeployedPlatform, cluster: Cluster) -> None:
    """Remove what stock is left."""
    wait_for_stock(platform, cluster, 1)
    platform.ask("DELETE", f"{STOCK}?operationID=s-2&specName=walk-1g&number=1")
    wait_for_stock(platform, cluster, 0)


def wait_for_stock(platform: DeployedPlatform, cluster: Cluster, number: int) -> None:
    """Wait until so many stock units are there, all of them Ready."""

    def reached() -> bool:
        found = cluster.list(GPU_UNIT, namespace="runtime-stock").items
        phases = [(unit.get("status") or {}).get("phase") for unit in found]
        return phases == ["Ready"] * number

    platform.wait(reached, f"{number} stock units to be Ready")


def delete_unseen(
    platform: DeployedPlatform, kind: ResourceKind, namespace: str, address: str
) -> None:
    """Delete a resource while nobody reconciles, then ask for that: a worker has to make sure."""
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
    """Do what a worker does that lost its lease: make the object again. Wait until it is gone."""
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
