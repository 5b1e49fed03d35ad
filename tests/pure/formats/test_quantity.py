"""Quantities have the meaning of Kubernetes and one canonical form, and are parsed quickly."""

import re
import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplatform.formats.quantity import MAX_VALUE, NANO, Quantity, canonical, cpu, memory, whole

SUFFIXES = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
    "e3": Fraction(1000),
    "E3": Fraction(1000),
    "e+2": Fraction(100),
    "e-3": Fraction(1, 1000),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("16Gi", "16Gi"),
        ("16384Mi", "16Gi"),
        ("17179869184", "16Gi"),
        ("1.5Gi", "1536Mi"),
        ("0.5", "500m"),
        ("500m", "500m"),
        ("1000m", "1"),
        ("1e3", "1k"),
        ("1E3", "1k"),
        ("1E", "1E"),
        ("1e-3", "1m"),
        ("+5", "5"),
        ("-5", "-5"),
        ("-0", "0"),
        ("0Gi", "0"),
        (".5Ki", "512"),
        ("5.", "5"),
        ("007", "7"),
        ("1e003", "1k"),
        ("16G", "16G"),
        ("1n", "1n"),
        ("9223372036854775807", "9223372036854775807"),
    ],
)
def test_each_value_has_one_text(text: str, expected: str) -> None:
    assert canonical(text) == expected
    assert canonical(expected) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        ".",
        "-",
        "+",
        "Ki",
        "Mi",
        "m",
        "e3",
        "NaN",
        "Infinity",
        "inf",
        "16K",
        "16 Gi",
        " 16Gi",
        "16Gi ",
        "16Gi\n",
        "\t1",
        "1\u00a0",
        "\uff11\uff16Gi",
        "\u0663Gi",
        "1_000",
        "1e3Gi",
        "1Gie3",
        "True",
        "null",
        "0x10",
        "1,5Gi",
        "1..5",
        "1.5.5",
        "--1",
        "+-1",
        "1e",
        "1e+",
        "1e1.5",
        "16gi",
        "16GI",
        "16KI",
        "16Gib",
        "16MB",
        "1\x00",
        "not-a-quantity",
    ],
)
def test_text_that_kubernetes_rejects_or_misreads_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"\.$"):
        canonical(text)


@pytest.mark.parametrize(
    "text",
    [
        "1e1000000",
        "1e9999999999",
        "1e2147483647",
        "0e99999999",
        "1e-99999999",
        "1e19",
        "9" * 1_000_000,
        "1e" + "0" * 1_000_000,
        "0." + "0" * 500_000 + "1",
        "8Ei",
        "9Ei",
        "9223372036854775808",
        "99999999999999999999Ei",
        "0.1n",
        "0.0000000001",
        "0.30000000000000004",
    ],
)
def test_expensive_and_silently_changed_values_are_rejected_quickly(text: str) -> None:
    started = time.monotonic()

    with pytest.raises(ValueError, match=r"\.$"):
        canonical(text)

    assert time.monotonic() - started < 1


@pytest.mark.parametrize("text", ["0", "-1Gi", "1Ki", "1048575", "1m", "0.5"])
def test_memory_has_a_minimum(text: str) -> None:
    with pytest.raises(ValueError, match=r"\.$"):
        memory(text)


def test_memory_is_whole_bytes() -> None:
    assert memory("1Mi") == memory("1048576") == "1Mi"
    with pytest.raises(ValueError, match=r"\.$"):
        memory("1048576500m")


def test_a_long_value_is_not_repeated_in_full() -> None:
    with pytest.raises(ValueError, match="…") as caught:
        canonical("x" * 10_000)

    assert len(str(caught.value)) < 200


@given(
    whole=st.integers(0, 10**12),
    part=st.integers(0, 999),
    suffix=st.sampled_from(sorted(SUFFIXES)),
    zeros=st.integers(0, 3),
)
def test_the_value_is_exact_and_the_text_follows_from_it(
    whole: int, part: int, suffix: str, zeros: int
) -> None:
    text = f"{'0' * zeros}{whole}.{part:03}{suffix}"
    value = (whole + Fraction(part, 1000)) * SUFFIXES[suffix]

    if value > MAX_VALUE or (value * NANO).denominator != 1:
        with pytest.raises(ValueError, match=r"\.$"):
            Quantity.parse(text)
    else:
        parsed = Quantity.parse(text)
        assert Fraction(parsed.nanos, NANO) == value
        assert Quantity.parse(parsed.canonical()) == parsed
        assert canonical(parsed.canonical()) == parsed.canonical()


@given(st.integers(0, MAX_VALUE))
def test_a_whole_number_survives_its_canonical_form(amount: int) -> None:
    assert int(Quantity.parse(canonical(str(amount)))) == amount


@given(st.text(max_size=60) | st.from_regex(r"[+-]?[0-9.]{0,8}[eEinumkKMGTP+-]{0,4}[0-9]{0,9}"))
def test_any_text_is_a_quantity_or_has_a_message(text: str) -> None:
    try:
        outcome = canonical(text)
    except ValueError as error:
        outcome = str(error)

    assert re.fullmatch(r"-?[0-9]+([numkMGTPE]|[KMGTPE]i)?|.* .*\.", outcome)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("4", "4"), ("0.5", "500m"), ("500m", "500m"), ("1m", "1m"), ("1e3", "1k"), ("1M", "1M")],
)
def test_cpu_is_in_whole_thousandths(text: str, expected: str) -> None:
    assert cpu(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "0",
        "-1",
        "1n",
        "1.0005",
        "1500u",
        "1001k",
        "1Ei",
        "four",
        "",
    ],
)
def test_cpu_out_of_range_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"\.$"):
        cpu(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1", "1"), ("4000", "4000"), ("4k", "4000"), ("1Ki", "1024"), ("1.5k", "1500"), ("+2", "2")],
)
def test_an_integer_has_digits(text: str, expected: str) -> None:
    assert whole(text) == expected


@pytest.mark.parametrize(
    "text", ["", "0", "-1", "0.5", "500m", "1.5", "a", "1e99", "1 ", "1Ei", "2P"]
)
def test_an_amount_that_is_no_positive_integer_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        whole(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1", "1"), ("1000", "1k"), ("1024", "1024"), ("4Ki", "4096"), ("0", "0"), ("-2k", "-2k")],
)
def test_the_decimal_form_has_no_binary_unit(text: str, expected: str) -> None:
    assert Quantity.parse(text).decimal() == expected
