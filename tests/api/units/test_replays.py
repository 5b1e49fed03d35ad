"""Replays: the same response in every state of the unit, and after a lost response."""

import json
import socket
import threading
from urllib.parse import urlsplit

import pytest
from django.db.models.functions import Now
from pytest_django.live_server_helper import LiveServer

from gpuplatform.operations.models import Operation
from inventory.models import GpuSpec
from tests.factories.unit_rows import spec_row, stock_row
from tests.fakes.api import STOCK, UNITS, Api
from tests.fakes.cluster import FakeCluster
from units.models import GpuUnit

pytestmark = pytest.mark.usefixtures("catalogue")

BODY = {"operationID": "make", "name": "trainer", "specName": "g1.1", "image": "app:1"}
TIMES = 5


def claimed() -> int:
    return GpuUnit.objects.filter(claimed_by__isnull=False).count()


@pytest.mark.django_db
@pytest.mark.parametrize("phase", ["Pending", "Progressing", "Ready", "Failed", "Terminating"])
def test_a_replay_is_the_same_operation_in_every_state_of_the_unit(
    api: Api, cluster: FakeCluster, phase: str
) -> None:
    stock_row()
    stock_row()
    first = api.post(UNITS, BODY)
    GpuUnit.objects.filter(name="trainer").update(phase=phase, reason="Some")

    replays = [api.post(UNITS, BODY) for _ in range(TIMES)]

    assert first.status == 202
    assert {replay.status for replay in replays} == {200}
    assert {replay.data["operationID"] for replay in replays} == {"make"}
    assert (Operation.objects.count(), claimed()) == (1, 1)


@pytest.mark.django_db
def test_a_replay_of_a_failed_create_is_the_failure_and_claims_no_stock(
    api: Api, cluster: FakeCluster
) -> None:
    stock_row()
    api.post(UNITS, BODY)
    ended = {"phase": "Failed", "error_code": "insufficient_capacity", "error_message": "m"}
    Operation.objects.update(due_at=None, ended_at=Now(), **ended)
    GpuUnit.objects.update(claimed_by=None)

    replays = [api.post(UNITS, BODY) for _ in range(TIMES)]

    assert {(replay.status, replay.data["phase"]) for replay in replays} == {(200, "Failed")}
    assert {replay.data["error"]["code"] for replay in replays} == {"insufficient_capacity"}
    assert (Operation.objects.count(), claimed()) == (1, 0)


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_a_caller_that_hung_up_before_its_reply_asks_again(
    live_server: LiveServer, api: Api, cluster: FakeCluster
) -> None:
    stock_row()
    stock_row()
    address = urlsplit(live_server.url)
    content = json.dumps(BODY).encode()
    head = (
        f"POST {UNITS} HTTP/1.1\r\nHost: {address.netloc}\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    with socket.create_connection((address.hostname, address.port or 80), timeout=30) as caller:
        caller.sendall(head.encode() + content)
    pause = threading.Event()
    for _ in range(300):
        if Operation.objects.exists():
            break
        pause.wait(0.1)

    replays = [api.post(UNITS, BODY) for _ in range(TIMES)]

    assert {replay.status for replay in replays} == {200}
    assert (Operation.objects.count(), claimed()) == (1, 1)
    assert GpuUnit.objects.filter(role="active").count() == 1


@pytest.mark.django_db
def test_a_name_whose_unit_is_being_deleted_is_a_conflict_with_retry_after(
    api: Api, cluster: FakeCluster
) -> None:
    stock_row()
    stock_row()
    api.post(UNITS, BODY)
    api.delete(f"{UNITS}/trainer", operationID="del")

    again = api.post(UNITS, {**BODY, "operationID": "again"})

    assert (again.status, again.code, again.fields) == (409, "name_conflict", ["name"])
    assert "'trainer' is still being deleted" in again.json["error"]["message"]
    assert again.headers["Retry-After"] == "5"
    assert claimed() == 1


@pytest.mark.django_db
def test_a_name_that_stays_in_use_has_no_retry_after(api: Api, cluster: FakeCluster) -> None:
    stock_row()
    stock_row()
    api.post(UNITS, BODY)

    again = api.post(UNITS, {**BODY, "operationID": "again"})

    assert (again.status, again.code, again.fields) == (409, "name_conflict", ["name"])
    assert "Retry-After" not in again.headers


@pytest.mark.django_db
@pytest.mark.parametrize(
    "number",
    ["0", "-1", "1.5", "1.0", '"10"', "true", "null", "1e3", "1000000", str(2**31), str(2**63)],
)
def test_too_much_stock_is_refused_with_the_limit(
    api: Api, cluster: FakeCluster, number: str
) -> None:
    spec_row()
    body = f'{{"operationID":"s","specName":"g1.1","replicas":{number}}}'

    answer = api.send("POST", STOCK, body.encode())

    assert (answer.status, answer.fields) == (400, ["replicas"])
    if number.isdigit() and int(number) > 1:
        assert "10000" in answer.json["error"]["details"][0]["message"]
    assert not GpuUnit.objects.exists()


@pytest.mark.django_db
def test_a_thousand_stock_units_are_accepted_and_show_their_progress(
    api: Api, cluster: FakeCluster
) -> None:
    spec_row()

    answer = api.post(STOCK, {"operationID": "s", "specName": "g1.1", "replicas": 1000})
    Operation.objects.update(progress_done=312)

    assert answer.status == 202
    job = api.get(answer.headers["Location"]).data
    assert job["progress"] == {"done": 312, "total": 1000}
    assert GpuUnit.objects.count() == 1000


@pytest.mark.django_db
def test_replays_are_equal_after_a_change_of_the_catalogue(api: Api, cluster: FakeCluster) -> None:
    seed = {"operationID": "s", "specName": "g1.1", "memory": "64Gi", "gpu": 1, "replicas": 2}
    api.post(STOCK, seed)
    stock_row()
    api.post(UNITS, BODY)
    GpuSpec.objects.update(memory="128Gi", gpu=8, is_enabled=False)

    replays = [api.post(STOCK, seed), api.post(UNITS, BODY)]

    assert [replay.status for replay in replays] == [200, 200]
    assert Operation.objects.count() == 2
