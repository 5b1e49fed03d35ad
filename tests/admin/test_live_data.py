"""The section with live data of an object, which never delays its page."""

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from gpuplatform.kube.errors import ClusterForbidden, ClusterRejected, ClusterUnavailable
from gpuplatform.kube.kinds import DEPLOYMENT, EVENT, GPU_UNIT, POD, SERVICE, STOCK_POOL
from gpuplatform.operations.models import Operation
from gpuplatform.planning.ownership import POOL_LABEL, UNIT_LABEL
from gpuplatform.reconciliation.models import ClusterState
from inventory.models import StockPool
from tests.factories.admin_rows import Rows
from tests.factories.serverless import function_row
from tests.factories.unit_rows import stock_row, unit_row
from tests.fakes.cluster import FakeCluster
from tests.fakes.installed import cluster
from units.models import GpuUnit
from units.phases import UnitPhase

__all__ = ["cluster"]
pytestmark = pytest.mark.django_db

SECRET = "hunter2-of-the-template"
UNAVAILABLE = "no response from 10.0.0.1"


def part_url(row: GpuUnit | StockPool) -> str:
    if isinstance(row, StockPool):
        return reverse("admin:inventory_stockpool_cluster", args=[row.pk])
    kind = "stockunit" if row.role == "stock" else "activeunit"
    return reverse(f"admin:units_{kind}_cluster", args=[row.pk])


def part(client: Client, row: GpuUnit | StockPool, **headers: str) -> str:
    response = client.get(part_url(row), headers=headers)
    assert response.status_code == 200, response
    return response.content.decode()


def owned(name: str, owner: str, label: dict[str, str], **more: Any) -> dict[str, Any]:
    owners = [{"uid": owner, "controller": True}]
    metadata = {
        "name": name,
        "namespace": "runtime-pools",
        "labels": label,
        "ownerReferences": owners,
    }
    return {"metadata": {**metadata, "uid": f"uid-of-{name}"}, **more}


def a_failing_pool(cluster: FakeCluster, rows: Rows) -> StockPool:
    """Create a pool with a Deployment, a pod whose image pull fails, and its Event."""
    pool = rows.pool("Failed", name="h100", service_name="pool-h100")
    label = {POOL_LABEL: "h100"}
    env = [{"name": "TOKEN", "value": SECRET}]
    spec = {"specName": "g1.1", "template": {"envs": env}}
    notes = {"kubectl.kubernetes.io/last-applied-configuration": SECRET}
    metadata = {
        "name": "h100",
        "namespace": "runtime-pools",
        "uid": pool.uid,
        "annotations": notes,
    }
    cluster.put(STOCK_POOL, {"metadata": metadata, "spec": spec})
    resource = cluster.get(STOCK_POOL, "h100", namespace="runtime-pools")
    assert resource is not None
    uid = resource["metadata"]["uid"]
    StockPool.objects.filter(pk=pool.pk).update(uid=uid)
    deployment = owned("pool-h100", uid, label, spec={"replicas": 2})
    made = cluster.put(DEPLOYMENT, {**deployment, "status": {"availableReplicas": 0}})
    cluster.put(SERVICE, owned("pool-h100", uid, label, spec={"clusterIP": "10.96.0.7"}))
    waiting = {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}
    status = {"phase": "Pending", "containerStatuses": [{"state": {"waiting": waiting}}]}
    containers = [{"name": "worker", "env": env}]
    pod = owned("pod-1", made["metadata"]["uid"], label, spec={"containers": containers})
    pod_uid = cluster.put(POD, {**pod, "status": status})["metadata"]["uid"]
    about = {"kind": "Pod", "name": "pod-1", "uid": pod_uid}
    event = {"type": "Warning", "reason": "FailedPull", "message": "manifest unknown", "count": 9}
    place = {"metadata": {"name": "e-1", "namespace": "runtime-pools"}, "involvedObject": about}
    cluster.put(EVENT, {**place, **event, "lastTimestamp": "2026-01-31T12:00:00Z"})
    cluster.logs = {"pod-1": "line of the log\n"}
    return StockPool.objects.get(pk=pool.pk)


def test_objects_events_log_and_resource_are_shown(
    operator_client: Client, cluster: FakeCluster, rows: Rows
) -> None:
    pool = a_failing_pool(cluster, rows)

    text = part(operator_client, pool)

    for expected in (
        "pool-h100",
        "0 of 2 available",
        "10.96.0.7",
        "ImagePullBackOff: Back-off pulling image",
        "manifest unknown",
        "9 times",
        "line of the log",
        "specName: g1.1",
    ):
        assert expected in text, expected
    assert '<span class="phase failed"><svg' in text
    assert '<bdi class="words">manifest unknown</bdi><small class="off">Pod pod-1, 9 times' in text


def test_the_newest_events_are_shown_and_others_are_folded(
    operator_client: Client, cluster: FakeCluster, rows: Rows
) -> None:
    pool = a_failing_pool(cluster, rows)
    for number in range(12):
        cluster.put(
            EVENT,
            {
                "metadata": {"name": f"more-{number}", "namespace": "runtime-pools"},
                "involvedObject": {"kind": "StockPool", "name": "h100", "uid": pool.uid},
                "message": f"number {number}.",
                "lastTimestamp": f"2026-01-31T13:00:{number:02d}Z",
            },
        )

    shown, _, folded = part(operator_client, pool).partition("3 more</summary>")

    assert "number 11." in shown
    assert "number 2." in shown
    assert "number 1." in folded
    assert "manifest unknown" in folded


def test_the_page_of_an_operation_shows_its_object_to_permitted_users(
    operator_client: Client, cluster: FakeCluster, rows: Rows
) -> None:
    pool = a_failing_pool(cluster, rows)
    job = rows.operation(object_row=pool.pk)
    gone = rows.operation(object_row=pool.pk + 1)
    url = reverse("admin:operations_operation_cluster", args=[job.pk])

    text = operator_client.get(url).content.decode()

    assert "StockPool runtime-pools/h100" in text
    assert "ImagePullBackOff: Back-off pulling image" in text
    for one, has_part in ((job, True), (gone, False)):
        page = operator_client.get(reverse("admin:operations_operation_change", args=[one.pk]))
        assert ('id="cluster"' in page.content.decode()) is has_part
    auditor = User.objects.create_user("auditor", is_staff=True)
    auditor.user_permissions.add(Permission.objects.get(codename="view_operation"))
    client = Client()
    client.force_login(auditor)
    assert "Back-off pulling image" not in client.get(url).content.decode()


def test_the_page_of_a_seeding_shows_stock_that_is_not_ready(
    operator_client: Client, cluster: FakeCluster, rows: Rows
) -> None:
    job = rows.operation(kind="stock.seed", object_kind="GPUUnit")
    first, failed = stock_row(operation=job), stock_row(UnitPhase.FAILED, operation=job)
    Operation.objects.filter(pk=job.pk).update(object_row=first.pk)

    text = operator_client.get(
        reverse("admin:operations_operation_cluster", args=[job.pk])
    ).content.decode()

    assert f"GPUUnit runtime-stock/{failed.name}" in text


def test_values_of_variables_are_masked_on_every_page(
    operator_client: Client, cluster: FakeCluster, rows: Rows
) -> None:
    pool = a_failing_pool(cluster, rows)
    template = {"envs": [{"name": "TOKEN", "value": SECRET}]}
    unit = unit_row(spec={"specName": "g1.1", "template": template})
    job = rows.operation(payload={"template": template})
    paths = [
        reverse("admin:units_activeunit_change", args=[unit.pk]),
        reverse("admin:operations_operation_change", args=[job.pk]),
        part_url(pool),
    ]

    for path in paths:
        text = operator_client.get(path).content.decode()

        assert SECRET not in text
        assert "name: TOKEN" in text


def test_pages_name_the_secret_of_a_variable(
    operator_client: Client, cluster: FakeCluster, rows: Rows
) -> None:
    source = {"secretKeyRef": {"name": "hf", "key": "token"}}
    odd = [None, {"name": "B", "valueFrom": {"secretKeyRef": 7}}, {"name": "C", "value": SECRET}]
    envs = [{"name": "HF_TOKEN", "valueFrom": source}, *odd]
    spec = {"specName": "g1.1", "template": {"envs": envs}}
    function = function_row(template={"envs": envs[:1]})
    pages = [
        reverse("admin:inventory_stockpool_change", args=[rows.pool(spec=spec).pk]),
        reverse("admin:units_activeunit_change", args=[unit_row(spec=spec).pk]),
        reverse("admin:serverless_function_change", args=[function.pk]),
    ]

    for page in pages:
        text = operator_client.get(page).content.decode()

        assert "HF_TOKEN from Secret hf, key token</bdi>" in text
        assert SECRET not in text


@pytest.mark.parametrize("make", [stock_row, unit_row])
def test_units_are_read_from_their_namespace(
    operator_client: Client, cluster: FakeCluster, make: Any
) -> None:
    unit: GpuUnit = make(UnitPhase.FAILED)
    label = {UNIT_LABEL: unit.name}
    deployment = owned(f"unit-{unit.name}", unit.uid, label, spec={"replicas": 1})
    deployment["metadata"]["namespace"] = unit.namespace
    cluster.put(DEPLOYMENT, deployment)

    assert f"unit-{unit.name}</b>" in part(operator_client, unit)


def test_objects_of_another_resource_of_that_name_are_not_shown(
    operator_client: Client, cluster: FakeCluster, rows: Rows
) -> None:
    pool = rows.pool(name="h100")
    label = {POOL_LABEL: "h100"}
    cluster.put(DEPLOYMENT, owned("pool-h100", "uid-of-another", label, spec={"replicas": 1}))
    cluster.put(GPU_UNIT, {"metadata": {"name": "h100", "namespace": "runtime-pools"}})

    section = operator_client.get(part_url(pool)).context["cluster"]

    assert (section.objects, section.resource) == ([], "")


class TestUnavailable:
    def test_an_unresponsive_cluster_is_one_error_after_one_call(
        self, operator_client: Client, cluster: FakeCluster, rows: Rows
    ) -> None:
        asked: list[str] = []
        cluster.on_call = lambda verb, _: asked.append(verb)
        cluster.fail("get", None, ClusterUnavailable(UNAVAILABLE), times=99)

        section = operator_client.get(part_url(rows.pool())).context["cluster"]

        assert (section.errors, section.is_unreadable) == ([UNAVAILABLE], True)
        assert asked == ["get"]

    def test_a_closed_gate_prevents_the_call(
        self, operator_client: Client, cluster: FakeCluster, rows: Rows
    ) -> None:
        ClusterState.objects.update_or_create(id=1, defaults={"failures": 3, "error": UNAVAILABLE})
        asked: list[str] = []
        cluster.on_call = lambda verb, _: asked.append(verb)

        text = part(operator_client, rows.pool())

        assert UNAVAILABLE in text
        assert asked == []

    def test_a_platform_without_a_cluster_has_no_live_data(
        self, operator_client: Client, rows: Rows, settings: Any
    ) -> None:
        settings.KUBE_MODE = "off"

        assert operator_client.get(part_url(rows.pool())).context["cluster"].is_unreadable

    def test_a_rejected_call_does_not_affect_the_others(
        self, operator_client: Client, cluster: FakeCluster, rows: Rows
    ) -> None:
        pool = a_failing_pool(cluster, rows)
        cluster.fail("list", EVENT, ClusterForbidden("forbidden", status=403))
        cluster.fail("log", POD, ClusterRejected("not started", status=400))

        section = operator_client.get(part_url(pool)).context["cluster"]

        assert not section.is_unreadable
        assert section.errors == ["forbidden"]
        assert [section.events, section.log] == [[], ""]
        assert "0 of 2 available" in [line.text for line in section.objects]


def test_the_page_itself_does_not_call_the_cluster(
    operator_client: Client, cluster: FakeCluster, rows: Rows
) -> None:
    asked: list[str] = []
    cluster.on_call = lambda verb, _: asked.append(verb)

    page = operator_client.get(reverse("admin:inventory_stockpool_change", args=[rows.pool().pk]))

    text = page.content.decode()
    assert 'hx-get="../cluster/"' in text
    assert '<a href="../cluster/">' in text
    assert asked == []


def test_without_scripts_the_live_data_are_a_separate_page(
    operator_client: Client, cluster: FakeCluster, rows: Rows
) -> None:
    pool = rows.pool()

    assert "<html" in part(operator_client, pool)
    assert "<html" not in part(operator_client, pool, **{"HX-Request": "true"})


def test_live_data_need_the_permission_to_view_the_row(
    viewer_client: Client, cluster: FakeCluster, rows: Rows
) -> None:
    pool, unit = rows.pool(), unit_row()

    assert viewer_client.get(part_url(pool)).status_code == 200
    assert viewer_client.get(part_url(unit)).status_code == 403
    assert Client().get(part_url(pool)).status_code == 302
    assert viewer_client.post(part_url(pool)).status_code == 403


def test_stock_is_not_found_among_active_units(
    operator_client: Client, cluster: FakeCluster
) -> None:
    stock = stock_row()

    response = operator_client.get(reverse("admin:units_activeunit_cluster", args=[stock.pk]))

    assert response.status_code == 404


def test_hostile_text_of_the_cluster_is_escaped(
    operator_client: Client, cluster: FakeCluster, rows: Rows, hostile_text: str
) -> None:
    pool = a_failing_pool(cluster, rows)
    cluster.logs = {"pod-1": hostile_text}
    cluster.put(
        EVENT,
        {
            "metadata": {"name": "e-2", "namespace": "runtime-pools"},
            "involvedObject": {"kind": hostile_text, "name": hostile_text, "uid": pool.uid},
            "reason": hostile_text,
            "message": hostile_text,
            "lastTimestamp": hostile_text,
        },
    )

    text = part(operator_client, pool)

    assert "&lt;script&gt;alert(1)" in text
    assert "<script>alert" not in text
    assert "\u202e" not in text
    assert "\x07" not in text
