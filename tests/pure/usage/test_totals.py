"""The GPUs that are charged at one instant."""

from datetime import UTC, datetime, timedelta

from gpuplatform.usage.core.totals import Charge, most_charged

BEGIN = datetime(2026, 12, 1, tzinfo=UTC)


def charge(begin: int, end: int, gpus: int = 1, name: str = "nvidia.com/gpu") -> Charge:
    return Charge(name, gpus, BEGIN + timedelta(hours=begin), BEGIN + timedelta(hours=end))


def test_an_end_and_a_begin_at_one_instant_do_not_add_up() -> None:
    assert most_charged([charge(0, 1), charge(1, 2)]) == {"nvidia.com/gpu": 1}


def test_concurrent_charges_add_up_by_resource() -> None:
    charges = [charge(0, 3, 4), charge(1, 2, 2), charge(2, 5), charge(0, 5, 7, "amd.com/gpu")]

    assert most_charged(charges) == {"nvidia.com/gpu": 6, "amd.com/gpu": 7}


def test_an_empty_charge_counts_nothing() -> None:
    assert most_charged([charge(1, 1)]) == {}
