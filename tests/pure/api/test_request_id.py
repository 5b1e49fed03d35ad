"""A request has one id: the caller's own when it is harmless, else a new one."""

import pytest

from gpuplatform.api.request_id import answering, current_request_id, sound_or_new


@pytest.mark.parametrize("offered", ["abc", "A-1_2.3", "x" * 128])
def test_a_sound_id_is_kept(offered: str) -> None:
    assert sound_or_new(offered) == offered


@pytest.mark.parametrize("offered", ["", " ", "a b", "a\nb", "x" * 129, "ü", "<script>"])
def test_any_other_is_replaced(offered: str) -> None:
    assert sound_or_new(offered) != offered
    assert len(sound_or_new(offered)) == 32


def test_the_id_lasts_as_long_as_the_request() -> None:
    with answering("abc"):
        assert current_request_id() == "abc"

    assert current_request_id() != "abc"
