"""The hourly usage records of invocations."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import Sum

from gpuplatform.clock import now
from gpuplatform.usage.models import UsageRecord
from serverless.models import Invocation
from serverless.phases import InvocationState
from serverless.services.usage import invocation_usage_update
from tests.factories.serverless import accept, function_row

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("cluster")]

HOUR = timedelta(hours=1)


def ended(function: Any, hours_ago: int, seconds: float, **columns: Any) -> Invocation:
    at = now().replace(minute=30, second=0, microsecond=0) - hours_ago * HOUR
    row = accept(function)
    values = {
        "state": InvocationState.SUCCEEDED,
        "completed_at": at,
        "attempted_at": at - timedelta(seconds=seconds),
    }
    Invocation.objects.filter(pk=row.pk).update(**{**values, **columns})
    return row


def totals() -> list[tuple[Any, ...]]:
    rows = UsageRecord.objects.filter(kind="invocation").order_by("hour")
    return list(rows.values_list("subject", "count", "milliseconds"))


def test_the_count_and_the_seconds_of_a_function_and_hour() -> None:
    function = function_row("echo")
    ended(function, 2, 1.5)
    ended(function, 2, 2.5)
    ended(function, 1, 0.25)
    ended(function, 1, 0, attempted_at=None)

    invocation_usage_update()
    invocation_usage_update()

    assert totals() == [("echo", 2, 4000), ("echo", 1, 250)]


def test_a_sealed_hour_keeps_its_record_after_the_invocations_are_deleted() -> None:
    function = function_row("echo")
    ended(function, 5, 2)
    invocation_usage_update()
    assert UsageRecord.objects.filter(sealed_at__isnull=False).count() == 1

    Invocation.objects.all().delete()
    invocation_usage_update()

    assert UsageRecord.objects.aggregate(Sum("count")) == {"count__sum": 1}


def test_an_invocation_that_is_replayed_counts_in_the_hour_of_its_last_end() -> None:
    row = ended(function_row("echo"), 2, 2)
    invocation_usage_update()
    at = now().replace(minute=30, second=0, microsecond=0) - HOUR
    Invocation.objects.filter(pk=row.pk).update(completed_at=at, attempted_at=at)

    invocation_usage_update()

    assert totals() == [("echo", 1, 0)]
