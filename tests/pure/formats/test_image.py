"""An image reference is valid exactly if the kubelet parses it and its meaning is unambiguous."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplatform.formats.image import canonical, image_reference

HEX = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    "text",
    [
        "busybox",
        "busybox:latest",
        "busybox:1.36",
        "library/busybox",
        "docker.io/library/busybox",
        "registry:5000",
        "registry:5000/img",
        "Registry.Example.COM:5000/t/i:v1",
        "localhost/img",
        "[::1]:5000/img",
        "10.0.0.1:5000/a/b/c",
        f"busybox@sha256:{HEX}",
        f"busybox:1.0@sha256:{HEX}",
        f"busybox@sha512:{HEX}{HEX}",
        "img:" + "t" * 128,
        "img:_Tag.1-2",
        "a__b/c-d/e.f--g",
        "0/1:2",
        "registry.example.com/team/trainer:1.4",
    ],
)
def test_valid_references_pass_unchanged(text: str) -> None:
    assert image_reference(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        " busybox",
        "busybox ",
        "busybox\n",
        "busy box",
        "busybox:",
        "BusyBox",
        "docker.io/Library/busybox",
        "registry/GaRaLi/x",
        "GaRaLi/x",
        "https://example.com/img",
        "http:/x",
        "img:" + "t" * 129,
        "img:v1+build",
        "img:-a",
        "img:.a",
        HEX,
        f"busybox@sha256:{HEX[:-1]}",
        f"busybox@sha256:{HEX.upper()}",
        f"busybox@sha256:{HEX}0",
        f"busybox@md5:{HEX[:32]}",
        "busybox@",
        "@sha256:" + HEX,
        "busybox@latest",
        "a//b",
        "/a",
        "a/",
        "a/b/",
        "-a",
        "a-",
        "a..b",
        "a___b",
        "a_.b",
        "ä",
        "img:ä",
        "a:b:c",
        "a/b:c/d",
        "registry:port/img",
        "registry:99999/img",
        "reg.io:0/img",
        "reg-.io/img",
        "[::1/img",
        "a\x00",
        "$(IMG)",
        "img;rm",
        "a" * 256,
        "a/" * 200 + "a",
        "x" * 2000,
    ],
)
def test_invalid_references_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"\.$"):
        image_reference(text)


@given(st.text(max_size=80) | st.from_regex(r"[a-zA-Z0-9._:/@\[\]-]{1,80}"))
def test_any_text_passes_unchanged_or_has_a_short_message(text: str) -> None:
    try:
        outcome = image_reference(text)
    except ValueError as error:
        outcome = str(error)

    assert outcome == text or (len(outcome) < 600 and outcome.isprintable())


@pytest.mark.parametrize(
    ("reference", "complete"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("busybox:1.36", "docker.io/library/busybox:1.36"),
        ("library/busybox:1.36", "docker.io/library/busybox:1.36"),
        ("docker.io/busybox:1.36", "docker.io/library/busybox:1.36"),
        ("index.docker.io/busybox:1.36", "docker.io/library/busybox:1.36"),
        ("vllm/vllm-openai:v0.11.0", "docker.io/vllm/vllm-openai:v0.11.0"),
        ("registry:5000/a", "registry:5000/a:latest"),
        ("localhost/a:1", "localhost/a:1"),
        ("10.77.0.1:5000/slow/app:1", "10.77.0.1:5000/slow/app:1"),
        (f"busybox@sha256:{HEX}", f"docker.io/library/busybox@sha256:{HEX}"),
        (f"ghcr.io/a/b:1.0@sha256:{HEX}", f"ghcr.io/a/b@sha256:{HEX}"),
    ],
)
def test_the_complete_name_is_the_name_that_nodes_report(reference: str, complete: str) -> None:
    assert canonical(reference) == complete
    assert canonical(complete) == complete
    assert image_reference(complete) == complete
