"""The numbers of a sliding window: pure, without counters."""

import pytest

from gpuplatform.rates.windows import Counts, Decision, Rate, Standing, decision, remaining
from gpuplatform.settings.environment import Environment
from gpuplatform.settings.rates import Rates

RATE = Rate("token-writes", quota=10, seconds=5)
UNUSED = Counts(0, 0.0, 0, 0.0)


@pytest.mark.parametrize(
    ("counts", "left", "seconds"),
    [
        pytest.param(UNUSED, 10, 0, id="nothing is counted"),
        pytest.param(Counts(0, 0.0, 4, 8.5), 6, 4, id="until the current period ends"),
        pytest.param(Counts(10, 5.0, 0, 10.0), 0, 1, id="a full period ended just now"),
        pytest.param(Counts(10, 2.5, 0, 7.5), 5, 1, id="half of the full period counts"),
        pytest.param(Counts(2, 4.9, 0, 9.9), 9, 3, id="one of two counts for 2.4 seconds"),
        pytest.param(Counts(1, 4.0, 3, 9.0), 7, 4, id="of one request nothing counts"),
        pytest.param(Counts(10, 5.0, 3, 10.0), 0, 1, id="never less than nothing"),
    ],
)
def test_what_remains_and_for_how_long(counts: Counts, left: int, seconds: int) -> None:
    [standing] = decision([RATE], [counts], is_allowed=False).standings

    assert remaining(RATE, counts) == standing.remaining == left
    assert standing.seconds == seconds


def test_an_allowed_request_counts_for_every_rate() -> None:
    other = Rate("tenant-writes", quota=20, seconds=5)

    found = decision([RATE, other], [UNUSED, Counts(0, 0.0, 4, 8.5)], is_allowed=True)

    assert [(one.remaining, one.seconds) for one in found.standings] == [(9, 5), (15, 4)]


def test_the_retry_is_after_all_exhausted_rates() -> None:
    standings = (Standing(RATE, 0, 2), Standing(RATE, 0, 3), Standing(RATE, 1, 5))

    assert Decision(is_allowed=False, standings=standings).retry_after == 3


def test_the_header_fields_are_lists_of_named_items() -> None:
    other = Rate("tenant-writes", quota=20, seconds=5)
    standings = (Standing(RATE, 9, 4), Standing(other, 0, 1))

    assert Decision(is_allowed=False, standings=standings).headers() == {
        "RateLimit-Policy": '"token-writes";q=10;w=5, "tenant-writes";q=20;w=5',
        "RateLimit": '"token-writes";r=9;t=4, "tenant-writes";r=0;t=1',
    }


@pytest.mark.parametrize(("quota", "half"), [(10, 5), (11, 5), (1, 1)])
def test_half_of_a_rate_is_at_least_one_request(quota: int, half: int) -> None:
    assert Rate("operator", quota, 5).halved() == Rate("operator", half, 5)


def test_the_default_rates() -> None:
    assert Environment(gpuplatform_dev=True).rates == Rates(
        token_reads=100,
        token_writes=20,
        token_invocations=100,
        tenant_reads=200,
        tenant_writes=40,
        tenant_invocations=200,
        operator=0,
        address=100,
        burst_seconds=5,
    )
