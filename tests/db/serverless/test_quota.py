"""The limits of tenants for functions, workers, invocations and tokens."""

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from django.db import connection

from gpuplatform.errors import QuotaExceeded, QuotaShortage, TenantSuspended
from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.models import ApiToken, Tenant
from gpuplatform.tenancy.phases import TenantPhase
from gpuplatform.tenancy.selectors import tenant_by_name
from gpuplatform.tenancy.services import token_create, token_revoke
from serverless.loops.activator import Activator
from serverless.models import Function, Invocation
from serverless.phases import FailureClass, InvocationMode, InvocationState
from serverless.queue.gateway import Queue
from serverless.requests import FunctionCreate, FunctionUpdate, InvocationCreate
from serverless.selectors import workers_of
from serverless.services.functions import (
    function_create,
    function_request_deletion,
    function_update,
)
from serverless.services.invocations import invocation_accept
from serverless.services.workers import WorkerStart, worker_start
from tests.factories.limits import limit
from tests.factories.serverless import SPEC, Worker, accept, function_row
from tests.factories.unit_rows import spec_row, stock_row
from tests.fakes.cluster import FakeCluster
from tests.fakes.threads import at_once
from units.models import GpuUnit
from units.services.matcher import match

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("catalogue", "cluster")]


def rejected(call: Callable[[], object]) -> tuple[QuotaShortage, ...]:
    with pytest.raises(QuotaExceeded) as raised:
        call()
    return raised.value.quota


@pytest.fixture
def reconcile(
    queue: Queue, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], None]:
    """Reconcile once, as the leader."""
    one = Activator(queue, cluster, "activator-1")
    monkeypatch.setattr(one._elector, "may_act", lambda: True)
    return one.reconcile


def create_function(name: str) -> object:
    body = FunctionCreate.parse({"operationID": f"create-{name}", "requestID": name, **SPEC})
    return function_create(tenant=tenant_by_name(), body=body)


def test_functions_count_until_they_are_deleted() -> None:
    spec_row()
    limit(functions=1)
    create_function("a")

    assert rejected(lambda: create_function("b")) == (QuotaShortage("functions", 1, 0, 1, 1),)
    tenant = tenant_by_name()
    function_request_deletion(tenant=tenant, request_id="a", operation_id="delete-a")
    assert rejected(lambda: create_function("b")) == (QuotaShortage("functions", 1, 1, 1, 1),)
    assert Operation.objects.count() == 2
    assert Function.objects.count() == 1


def test_open_invocations_count_until_they_end() -> None:
    function = function_row()
    limit(openInvocations=1)
    first = accept(function)

    shortage = QuotaShortage("openInvocations", 1, 0, 1, 1)
    assert rejected(lambda: accept(function)) == (shortage,)
    assert Invocation.objects.count() == 1
    Invocation.objects.filter(pk=first.pk).update(
        state=InvocationState.SUCCEEDED, completed_at=first.accepted_at
    )
    accept(function)


def test_a_repeated_call_is_not_queued_again_beyond_the_limit() -> None:
    function = function_row()
    body = {"invocationID": "i1", "requestID": function.request_id, "payload": "x"}
    request = InvocationCreate.parse({**body, "mode": InvocationMode.SYNC.value})
    first = invocation_accept(tenant=function.tenant, body=request).invocation
    rows = Invocation.objects.filter(pk=first.pk)
    rows.update(
        state=InvocationState.EXPIRED,
        failure_class=FailureClass.CALLER_DISCONNECTED,
        completed_at=first.accepted_at,
    )
    limit(openInvocations=0)

    again = partial(invocation_accept, tenant=function.tenant, body=request)
    assert rejected(again) == (QuotaShortage("openInvocations", 0, 0, 0, 1),)
    assert rows.get().state == InvocationState.EXPIRED
    limit(openInvocations=1)
    assert again().invocation.state == InvocationState.QUEUED


def test_a_repeated_call_of_a_suspended_tenant_is_not_queued_again() -> None:
    function = function_row()
    body = {"invocationID": "i1", "requestID": function.request_id, "payload": "x"}
    request = InvocationCreate.parse({**body, "mode": InvocationMode.SYNC.value})
    first = invocation_accept(tenant=function.tenant, body=request).invocation
    rows = Invocation.objects.filter(pk=first.pk)
    rows.update(
        state=InvocationState.EXPIRED,
        failure_class=FailureClass.CALLER_DISCONNECTED,
        completed_at=first.accepted_at,
    )
    # The tenant is suspended after the API has checked it.
    Tenant.objects.filter(pk=function.tenant_id).update(phase=TenantPhase.SUSPENDED)

    with pytest.raises(TenantSuspended):
        invocation_accept(tenant=function.tenant, body=request)

    assert rows.get().state == InvocationState.EXPIRED
    assert rows.get().repeated_calls == 0


def test_tokens_count_until_they_are_revoked_or_expire() -> None:
    tenant = tenant_by_name()
    limit(tokens=1)
    create = partial(token_create, tenant=tenant, scopes=["user"])
    token, _ = create(name="a")

    assert rejected(lambda: create(name="b")) == (QuotaShortage("tokens", 1, 0, 1, 1),)
    assert ApiToken.objects.count() == 1
    token_revoke(token)
    create(name="b")


@pytest.mark.parametrize("resource", ["gpus", "units", "workers"])
def test_workers_obey_the_limits_and_the_function_says_so(
    reconcile: Callable[[], None], queue: Queue, resource: str
) -> None:
    spec_row()
    stock_row()
    function = function_row()
    Worker(queue, function)
    accept(function)
    limit(**{resource: 0})

    reconcile()

    assert not workers_of(function).exists()
    function.refresh_from_db()
    assert (function.phase, function.reason) == ("Progressing", "QuotaReached")
    assert function.start_failures == 1
    limit(**{resource: 1})
    Function.objects.update(starts_after=None)
    reconcile()
    reconcile()
    assert workers_of(function).count() == 1
    function.refresh_from_db()
    assert function.reason == "Activating"


def test_a_function_whose_worker_waits_beyond_a_limit_says_so(
    reconcile: Callable[[], None], queue: Queue
) -> None:
    spec_row()
    function = function_row()
    Worker(queue, function)
    accept(function)
    reconcile()
    function.refresh_from_db()
    assert function.reason == "NoCapacity"

    limit(gpus=0)
    stock_row()
    assert match("g1.1") == 0
    reconcile()

    function.refresh_from_db()
    assert function.reason == "QuotaReached"
    assert not GpuUnit.objects.filter(claimed_by__isnull=False).exists()


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_concurrent_invocations_and_functions_stay_within_their_limits() -> None:
    spec_row()
    function = function_row()
    limit(openInvocations=5, functions=3)

    jobs: list[Callable[[], object]] = [partial(accept, function) for _ in range(12)]
    jobs += [partial(create_function, f"f{n}") for n in range(6)]
    answers: list[object] = [*at_once(jobs)]

    rejections = [one for one in answers if isinstance(one, Exception)]
    assert {type(one) for one in rejections} == {QuotaExceeded}
    assert Invocation.objects.count() == 5
    assert Function.objects.count() == 3


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_a_change_and_the_start_of_a_worker_lock_function_and_tenant_in_one_order(
    queue: Queue, cluster: FakeCluster
) -> None:
    spec_row()
    stock_row()
    function = function_row("echo", maxWorkers=2)
    limit(gpus=4, openOperations=5)
    # The change has a lock and the start has a lock before either of them takes another one.
    both = threading.Barrier(2)

    def change() -> object:
        body = FunctionUpdate.parse({"operationID": "change", "maxWorkers": 3})
        with connection.execute_wrapper(_pausing(both, "FOR NO KEY UPDATE")):
            return function_update(tenant=tenant_by_name(), request_id="echo", body=body)

    def start() -> object:
        with connection.execute_wrapper(_pausing(both, "FOR NO KEY UPDATE")):
            return worker_start(function, observed=0)

    changed, started = at_once([change, start])

    assert not isinstance(changed, Exception), changed
    assert started in {WorkerStart.CLAIMED, WorkerStart.CHANGED}


def _pausing(both: threading.Barrier, part: str) -> Callable[..., Any]:
    """Wait for the other thread after the first statement that contains `part`.

    The other thread never arrives if this one has the lock that it waits for.
    """
    paused: list[str] = []

    def execute(call: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        result = call(sql, params, many, context)
        if part in sql and not paused:
            paused.append(sql)
            with suppress(threading.BrokenBarrierError):
                both.wait(2)
        return result

    return execute
