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
