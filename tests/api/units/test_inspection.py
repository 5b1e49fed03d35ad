"""Logs and events of a unit: data of the cluster, and never a 5xx of the platform."""

from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from gpuplatform.kube.errors import ClusterForbidden, ClusterRejected, ClusterUnavailable
from gpuplatform.kube.kinds import DEPLOYMENT, EVENT, POD, REPLICA_SET
from gpuplatform.planning.ownership import UNIT_LABEL
from tests.factories.unit_rows import unit_row
from tests.fakes.api import UNITS, Api
from tests.fakes.cluster import FakeCluster
from units.core.names import UNIT_UID_LABEL
from units.models import GpuUnit
from units.phases import UnitPhase

pytestmark = pytest.mark.django_db


def owned(unit: GpuUnit, name: str, *, owner: str = "", **more: Any) -> dict[str, Any]:
    labels = {UNIT_LABEL: unit.name, UNIT_UID_LABEL: unit.uid}
    owners = [{"uid": owner or unit.uid, "controller": True}]
    metadata = {"name": name, "namespace": unit.namespace, "labels": labels}
    return {
        "metadata": {**metadata, "uid": f"uid-of-{name}", "ownerReferences": owners, **more},
        "spec": {"containers": [{"name": "runtime-worker"}]},
    }


def event(unit: GpuUnit, about: str, uid: str, at: str) -> dict[str, Any]:
    return {
        "metadata": {"name": f"{about}.{at}", "namespace": unit.namespace},
        "involvedObject": {"kind": "Pod", "name": about, "uid": uid},
        "type": "Warning",
        "reason": "Failed",
        "message": f"message about {about}",
        "count": 3,
        "source": {"component": "kubelet"},
        "firstTimestamp": at,
        "lastTimestamp": at,
    }


def text(path: str, **query: str) -> tuple[int, str, str]:
    answer = Client(raise_request_exception=False).get(path, query)
    return answer.status_code, answer.headers["Content-Type"], answer.content.decode()


class TestLogs:
    def test_the_log_of_the_newest_pod_is_plain_text(self, cluster: FakeCluster) -> None:
        unit = unit_row(name="a")
        cluster.put(POD, owned(unit, "old", creationTimestamp="2026-01-01T00:00:00Z"))
        cluster.put(POD, owned(unit, "new", creationTimestamp="2026-01-02T00:00:00Z"))
        cluster.logs = {"old": "no\n", "new": "one\ntwo\nthree <b>ü</b>\n"}

        found = text(f"{UNITS}/a/logs", tail="2")

        assert found == (200, "text/plain; charset=utf-8", "two\nthree <b>ü</b>\n")

    def test_a_pod_that_is_being_deleted_comes_last(self, cluster: FakeCluster) -> None:
        unit = unit_row(name="a")
        going = {"deletionTimestamp": "2026-01-03T00:00:00Z"}
        cluster.put(POD, owned(unit, "new", creationTimestamp="2026-01-02T00:00:00Z", **going))
        cluster.put(POD, owned(unit, "old", creationTimestamp="2026-01-01T00:00:00Z"))
        cluster.logs = {"old": "stays", "new": "goes"}

        assert text(f"{UNITS}/a/logs")[2] == "stays"

    def test_the_pods_of_a_predecessor_are_not_read(self, api: Api, cluster: FakeCluster) -> None:
        unit = unit_row(name="a")
        labels = {UNIT_LABEL: "a", UNIT_UID_LABEL: "another"}
        cluster.put(POD, owned(unit, "foreign", labels=labels))

        answer = api.get(f"{UNITS}/a/logs")

        assert (answer.status, answer.code) == (404, "not_found")

    def test_a_log_that_does_not_exist_yet_is_a_conflict_with_the_servers_message(
        self, api: Api, cluster: FakeCluster
    ) -> None:
        cluster.put(POD, owned(unit_row(name="a"), "p"))
        detail = "container is waiting to start: ContainerCreating"
        cluster.fail("log", POD, ClusterRejected(f"Rejected: {detail}", detail=detail))

        answer = api.get(f"{UNITS}/a/logs")

        assert (answer.status, answer.code) == (409, "phase_conflict")
        assert answer.json["error"]["message"].endswith(detail)

    def test_an_unknown_container_is_a_400_with_the_known_ones(
        self, api: Api, cluster: FakeCluster
    ) -> None:
        cluster.put(POD, owned(unit_row(name="a"), "p"))

        answer = api.get(f"{UNITS}/a/logs", container="other")

        assert (answer.status, answer.fields) == (400, ["container"])
        assert "runtime-worker" in answer.json["error"]["message"]
        assert text(f"{UNITS}/a/logs", container="runtime-worker")[0] == 200


class TestEvents:
    def test_the_unit_and_what_it_owns_newest_first(self, api: Api, cluster: FakeCluster) -> None:
        unit = unit_row(name="a")
        cluster.put(POD, owned(unit, "p"))
        deployment = cluster.put(DEPLOYMENT, owned(unit, "unit-a"))
        uid = deployment["metadata"]["uid"]
        cluster.put(REPLICA_SET, owned(unit, "rs", owner=uid))
        cluster.put(REPLICA_SET, owned(unit, "other-rs", owner="another"))
        objects = {"unit": unit.uid, "p": "uid-of-p", "unit-a": uid, "rs": "uid-of-rs"}
        strangers = {"other-rs": "uid-of-other-rs", "q": "uid-of-q"}
        for day, (about, of) in enumerate({**objects, **strangers}.items(), 1):
            cluster.put(EVENT, event(unit, about, of, f"2026-01-0{day}T00:00:00Z"))

        found = api.get(f"{UNITS}/a/events").json

        assert found["page"] == {"next": None}
        assert [one["objectName"] for one in found["data"]] == ["rs", "unit-a", "p", "unit"]
        assert found["data"][0] == {
            "type": "Warning",
            "reason": "Failed",
            "message": "message about rs",
            "count": 3,
            "objectKind": "Pod",
            "objectName": "rs",
            "source": "kubelet",
            "firstSeenAt": "2026-01-04T00:00:00Z",
            "lastSeenAt": "2026-01-04T00:00:00Z",
        }
        assert len(api.get(f"{UNITS}/a/events", limit="2").data) == 2

    def test_a_unit_without_its_resource_has_none(self, api: Api, cluster: FakeCluster) -> None:
        unit_row(UnitPhase.PENDING, name="a", uid="")

        assert api.get(f"{UNITS}/a/events").data == []

    def test_a_malformed_event_is_shown(self, api: Api, cluster: FakeCluster) -> None:
        unit = unit_row(name="a")
        odd = {"involvedObject": {"uid": unit.uid, "name": 5}, "count": "x", "message": None}
        metadata = {"name": "e", "namespace": unit.namespace}
        cluster.put(EVENT, {"metadata": metadata, **odd})

        (found,) = api.get(f"{UNITS}/a/events").data

        assert (found["objectName"], found["count"], found["message"]) == ("", 1, "")


@pytest.mark.parametrize("what", ["logs", "events"])
@pytest.mark.parametrize("error", [ClusterUnavailable, ClusterForbidden])
def test_an_unreachable_cluster_is_a_503_with_retry_after(
    api: Api, cluster: FakeCluster, what: str, error: type[ClusterUnavailable]
) -> None:
    unit_row(name="a")
    cluster.fail("list", POD, error("The cluster does not answer: connection refused."))

    answer = api.get(f"{UNITS}/a/{what}")

    assert (answer.status, answer.code) == (503, "operator_unavailable")
    assert int(answer.headers["Retry-After"]) >= 1


@pytest.mark.parametrize("what", ["logs", "events"])
def test_a_platform_without_a_cluster_replies_operator_unavailable(
    api: Api, settings: Settings, what: str
) -> None:
    settings.KUBE_MODE = "off"
    unit_row(name="a")

    assert api.get(f"{UNITS}/a/{what}").code == "operator_unavailable"
