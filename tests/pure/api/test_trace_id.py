"""A request has one traceID: the caller's own if it is safe to log, otherwise a new one."""

import pytest

from gpuplatform.api.trace_id import accepted_or_new, current_trace_id, tracing


@pytest.mark.parametrize("offered", ["abc", "A-1_2.3", "x" * 128])
def test_a_safe_id_is_accepted(offered: str) -> None:
    assert accepted_or_new(offered) == offered


@pytest.mark.parametrize("offered", ["", " ", "a b", "a\nb", "x" * 129, "ü", "<script>"])
def test_an_unsafe_id_is_replaced(offered: str) -> None:
    assert accepted_or_new(offered) != offered
    assert len(accepted_or_new(offered)) == 32


def test_the_id_lasts_as_long_as_the_request() -> None:
    with tracing("abc"):
        assert current_trace_id() == "abc"

    assert current_trace_id() != "abc"


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


@pytest.mark.parametrize("traceparent", [PARENT, f"01-{TRACE}-00f067aa0ba902b7-01-more"])
def test_without_an_id_of_the_caller_its_trace_id_is_used(traceparent: str) -> None:
    assert accepted_or_new("", traceparent) == TRACE
    assert accepted_or_new("not safe", traceparent) == TRACE
    assert accepted_or_new("mine", traceparent) == "mine"


@pytest.mark.parametrize(
    "traceparent",
    [
        pytest.param(PARENT.upper(), id="capitals"),
        pytest.param(f"ff{PARENT[2:]}", id="forbidden version"),
        pytest.param(f"00-{'0' * 32}-00f067aa0ba902b7-01", id="no trace"),
        pytest.param(f"00-{TRACE}-{'0' * 16}-01", id="no parent"),
        pytest.param(f"00-{TRACE}", id="incomplete"),
    ],
)
def test_an_invalid_traceparent_is_ignored(traceparent: str) -> None:
    assert accepted_or_new("", traceparent) != TRACE
    assert len(accepted_or_new("", traceparent)) == 32
