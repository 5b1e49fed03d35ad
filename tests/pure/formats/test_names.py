"""Names are valid exactly if every supported cluster accepts them; generated ones are unique."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplatform.formats import names

Check = Callable[[str], str]

LABEL_63 = "a" * 63
HOSTILE = [
    "",
    " ",
    "a b",
    "a\n",
    "\na",
    "a\x00",
    "ü",
    "a\u0301",
    "\uff41",
    "\u0663",
    "a/b",
    "a%00",
    "..",
    "\ud800",
]

CASES: list[tuple[Check, list[str], list[str]]] = [
    (
        names.dns_label,
        ["a", "0", "a-b", "a--b", "1abc", LABEL_63],
        [*HOSTILE, "A", "aB", "-a", "a-", "a.b", "a_b", LABEL_63 + "a"],
    ),
    (
        names.dns_subdomain,
        ["a", "a.b", "1.2", "a-b.c", ".".join([LABEL_63] * 3)],
        [*HOSTILE, "a..b", ".a", "a.", "a-.b", "A.b", "a." * 126 + "aa"],
    ),
    (
        names.label_value,
        ["a", "A", "g1.1", "a_b", "a-b", "0", LABEL_63],
        [*HOSTILE, "-a", "a-", ".a", "a.", "_a", LABEL_63 + "a"],
    ),
    (
        names.label_key,
        ["a", "A_b.c", "nvidia.com/gpu.product", "a/b", f"{'a.' * 100}a/{LABEL_63}"],
        [
            *(hostile for hostile in HOSTILE if hostile != "a/b"),
            *("/a", "a/", "a/b/c", "A.com/x", "-a", "a/-b", "a_b/c", LABEL_63 + "a"),
            f"{'a.' * 126}aa/b",
        ],
    ),
    (
        names.extended_resource,
        [
            *("nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "amd.com/gpu", "rdma/hca", "a.b/C_d"),
            f"{'a.' * 121}aa/{LABEL_63}",
        ],
        [
            *(hostile for hostile in HOSTILE if hostile != "a/b"),
            *("cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "gpu", "a/", "/a", "a/b/c"),
            *("kubernetes.io/a", "a.kubernetes.io/b", "requests.a/b", "A.com/x", "a/-b"),
            *(f"a/{LABEL_63}a", f"{'a.' * 122}a/b"),
        ],
    ),
    (names.spec_name, ["g1.1", "a100-80GB", "0"], [*HOSTILE, "H100", "_a", "a.", LABEL_63 + "a"]),
    (
        names.port_name,
        ["http", "abcdefghijklmno", "h", "1a", "a1", "http-web"],
        [
            *HOSTILE,
            "http-web-service",
            "HTTP",
            "8080",
            "a--b",
            "-a",
            "a-",
            "http_1",
            "http.1",
            "ssh\n",
            "1-2",
        ],
    ),
    (
        names.config_key,
        ["a", "A_b-c.9", ".a", "-", "_", "a..b", "k" * 253],
        [*HOSTILE, ".", "..", "..a", "ä", "a=b", "k" * 254],
    ),
    (
        names.env_name,
        ["A-B", "A.B", "ABC", "a", "_A", "-A", ".a", "A" * 300, "PATH"],
        [*HOSTILE, "1ABC", "A=B", "=", ".", "..A", "ÄB", "A\t", "A" * 1025],
    ),
    (
        names.operation_id,
        ["op-1", "A:b.c_d-e", "0", "x" * 128],
        [*HOSTILE, "x" * 129, "a#b", "a,b", "a+b"],
    ),
]


@pytest.mark.parametrize(("check", "good", "bad"), CASES)
def test_valid_names_pass_and_invalid_ones_are_rejected(
    check: Check, good: list[str], bad: list[str]
) -> None:
    for text in good:
        assert check(text) == text
    for text in bad:
        with pytest.raises(ValueError, match=r"\.$"):
            check(text)


@pytest.mark.parametrize("length", [1, 30, 40, 52, 53, 57, 58])
def test_own_names_leave_room_for_a_prefix(length: int) -> None:
    assert names.dns_label("a" * length, max_length=names.OWN_NAME_MAX)
    assert names.dns_label("pool-" + "a" * length)


@pytest.mark.parametrize("length", [59, 62, 63, 64, 253, 254])
def test_longer_own_names_are_rejected(length: int) -> None:
    with pytest.raises(ValueError, match=r"\.$"):
        names.dns_label("a" * length, max_length=names.OWN_NAME_MAX)


readable = st.text(max_size=80)
identity = st.text(max_size=140)


@given(readable, identity, identity)
def test_a_generated_name_is_a_label_within_budget(text: str, tenant: str, operation: str) -> None:
    name = names.generated_name("pool", text, tenant=tenant, operation_id=operation)

    assert names.dns_label(name, max_length=names.OWN_NAME_MAX) == name
    assert name == names.generated_name("pool", text, tenant=tenant, operation_id=operation)


@given(identity, identity, identity, identity)
def test_generated_names_differ_by_tenant_and_operation_id(a: str, b: str, c: str, d: str) -> None:
    one = names.generated_name("pool", "g1.1", tenant=a, operation_id=b)
    other = names.generated_name("pool", "g1.1", tenant=c, operation_id=d)

    assert (one == other) == ((a, b) == (c, d))


def test_names_that_agree_in_sixty_characters_stay_distinct() -> None:
    long = "a" * 60

    pair = {names.generated_name("pool", long, tenant="t", operation_id=long + x) for x in "bc"}

    assert len(pair) == 2


def test_the_readable_part_is_kept_if_it_fits() -> None:
    name = names.generated_name("pool", "G1.1_x", tenant="default", operation_id="op-1")

    assert name.startswith("pool-g1-1-x-")
    assert len(name.rsplit("-", 1)[1]) == 16
