"""Valid text reaches the container unchanged."""

import pytest

from gpuplatform.formats.text import container_text, no_surrogates, page_text, quoted


@pytest.mark.parametrize(
    "text", ["", "a", "tab\tline\nreturn\r", "ü 你好 🚀", "\u00a0", '$(HOME) "x"']
)
def test_ordinary_text_passes(text: str) -> None:
    assert container_text(text) == text
    assert page_text(text) == text


@pytest.mark.parametrize(
    "text", ["\x01", "\x1b[31m", "\x7f", "\x85", "\u2028", "\ufffe", "\uffff", "\x0b\x0c"]
)
def test_a_container_can_have_control_characters(text: str) -> None:
    assert container_text(text) == text


@pytest.mark.parametrize("char", ["\x00", "\ud800"])
def test_a_container_cannot_have_nul_or_surrogates(char: str) -> None:
    with pytest.raises(ValueError, match=f"U\\+{ord(char):04X}"):
        container_text(f"a{char}b")


@pytest.mark.parametrize(
    "char",
    [
        "\x00",
        "\x01",
        "\x0b",
        "\x1b",
        "\x7f",
        "\x80",
        "\x85",
        "\x9f",
        "\u2028",
        "\u2029",
        "\ufffe",
        "\uffff",
        "\ud800",
    ],
)
def test_unsafe_characters_are_rejected_by_code_point(char: str) -> None:
    with pytest.raises(ValueError, match=f"U\\+{ord(char):04X}"):
        page_text(f"a{char}b")


def test_the_limit_counts_bytes() -> None:
    assert container_text("x" * 32768)
    with pytest.raises(ValueError, match="32768"):
        container_text("ü" * 16385)


def test_a_lone_surrogate_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"U\+DC00"):
        no_surrogates("a\udc00")


@pytest.mark.parametrize("text", ["\x1b[31m", "\ud800", "x" * 1000, "a\nb", "\u202e"])
def test_a_quoted_value_is_short_and_printable(text: str) -> None:
    assert quoted(text).isprintable()
    assert len(quoted(text)) < 300
