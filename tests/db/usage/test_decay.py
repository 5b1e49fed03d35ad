"""The decayed use of tenants, and its effect on the order of the capacity queue."""

from datetime import timedelta
from typing import Any

import pytest

from gpuplatform.clock import now
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.selectors import tenant_by_name
from gpuplatform.usage.models import TenantDecay
from gpuplatform.usage.services.decay import decays_update
from tests.db.usage.rows import opened, use
from units.core.queue import HALF_LIFE_SECONDS, TAU_SECONDS, share
from units.queue_tenants import queue_tenants

pytestmark = pytest.mark.django_db


def used(hours: float, hours_ago: float, **columns: Any) -> None:
    end = now() - timedelta(hours=hours_ago)
    opened(use(gpus=1, **columns), end - timedelta(hours=hours), end)


def current() -> float:
    decays_update(TAU_SECONDS)
    return usage_read()


def usage_read() -> float:
    tenant = tenant_by_name().pk
    return queue_tenants([tenant], "g1.1")[tenant].usage


def test_recent_use_counts_almost_whole() -> None:
    used(1 / 60, 0)

    assert current() == pytest.approx(60, rel=0.01)


def test_use_counts_half_after_the_half_life() -> None:
    used(1 / 60, HALF_LIFE_SECONDS / 3600)

    assert current() == pytest.approx(30, rel=0.01)


def test_a_gpu_that_is_held_for_very_long_counts_as_one_gpu() -> None:
    used(24 * 365, 0)

    assert current() / TAU_SECONDS == pytest.approx(1, rel=0.001)


def test_a_value_decays_until_it_is_computed_again() -> None:
    used(1 / 60, 0)
    before = current()
    TenantDecay.objects.update(at=now() - timedelta(seconds=HALF_LIFE_SECONDS))

    assert usage_read() == pytest.approx(before / 2, rel=0.01)


def test_the_tenant_that_used_more_has_the_larger_share() -> None:
    other = Tenant.objects.create(name="other", namespace="other")
    used(10, 1)
    used(1, 1, tenant_id=other.pk)
    decays_update(TAU_SECONDS)

    first = tenant_by_name().pk
    tenants = queue_tenants([first, other.pk], "g1.1")

    assert share(tenants[first]) > share(tenants[other.pk]) > 0
    assert tenants[first].held == 0


def test_the_order_reads_all_values_of_all_tenants_with_one_query(
    django_assert_num_queries: Any,
) -> None:
    used(1, 0)
    decays_update(TAU_SECONDS)
    tenants = list(Tenant.objects.values_list("pk", flat=True))

    with django_assert_num_queries(1):
        queue_tenants(tenants, "g1.1")
