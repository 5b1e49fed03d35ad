"""Names of units, stock and owned objects: valid lengths, and the same name at each attempt."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplatform.formats.names import OWN_NAME_MAX, dns_label
from gpuplatform.workloads.template import MAX_REPLICAS
from units.core.names import object_name, stock_batch_name, stock_name


@pytest.mark.parametrize("length", [1, OWN_NAME_MAX])
def test_derived_names_fit_a_label(length: int) -> None:
    name = "a" * length

    assert dns_label(object_name(name)) == f"unit-{name}"


@given(st.text(min_size=1, max_size=80), st.text(max_size=20), st.integers(1, MAX_REPLICAS))
def test_the_name_of_a_stock_unit_is_a_label_of_limited_length(
    spec_name: str, operation_id: str, ordinal: int
) -> None:
    batch = stock_batch_name(spec_name, tenant="t", operation_id=operation_id)

    name = stock_name(batch, ordinal)

    assert dns_label(name, max_length=OWN_NAME_MAX) == name
    assert name.startswith(f"{batch}-")


def test_a_seeding_generates_the_same_names_at_each_attempt() -> None:
    batch = stock_batch_name("G1.1", tenant="t", operation_id="op")

    assert batch == stock_batch_name("G1.1", tenant="t", operation_id="op")
    assert batch.startswith("stock-g1-1-")
    assert [stock_name(batch, n)[len(batch) :] for n in (1, 12, 1000)] == ["-001", "-012", "-1000"]


def test_two_seedings_and_two_ordinals_never_share_a_name() -> None:
    batches = {
        stock_batch_name("a" * 63, tenant=tenant, operation_id=operation)
        for tenant, operation in (("t", "a"), ("t", "b"), ("u", "a"))
    }

    names = {stock_name(batch, ordinal) for batch in batches for ordinal in range(1, 1101)}

    assert len(names) == 3 * 1100
