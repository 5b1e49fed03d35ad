"""The hash of a request never changes, not even in a later release."""

import pytest

from gpuplatform.operations.hashing import HASH_VERSION, request_hash
from inventory.requests.pools import StockPoolCreate

PAYLOAD = {
    "specName": "g1.1",
    "replicas": 2,
    "memory": "16Gi",
    "template": {"envs": [{"name": "Ä", "value": "\u2028"}], "args": ["b", "a"]},
}
GOLDEN = {1: "ff91e22d29b5bd95a7e6c3690d7ae2cf53f291081e8f8e7d5a5ca684c0814115"}
"""Recorded once per version: existing rows and annotations contain these hashes."""


@pytest.mark.parametrize("version", GOLDEN)
def test_a_version_gives_what_it_always_gave(version: int) -> None:
    found = request_hash("stockpool.create", "default/h100", PAYLOAD, version=version)

    assert found == GOLDEN[version]


def test_every_version_that_is_written_is_written_down() -> None:
    assert HASH_VERSION in GOLDEN


def test_the_order_of_keys_is_nothing_and_that_of_entries_is_something() -> None:
    turned = dict(reversed(PAYLOAD.items()))
    swapped = {**PAYLOAD, "template": {**PAYLOAD["template"], "args": ["a", "b"]}}  # type: ignore[dict-item]

    one = request_hash("k", "n", PAYLOAD)

    assert request_hash("k", "n", turned) == one
    assert request_hash("k", "n", swapped) != one


def test_kind_name_and_payload_cannot_be_mistaken_for_each_other() -> None:
    hashes = {
        request_hash("k", "n", {}),
        request_hash("kn", "", {}),
        request_hash("n", "k", {}),
        request_hash("k", "n", {"a": 1}),
        request_hash("k", "n", {"a": "1"}),
    }

    assert len(hashes) == 5


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"memory": "16Gi"}, {"memory": "16384Mi"}),
        ({"gpu": 0}, {}),
        ({"template": {}}, {}),
        ({"namespace": "runtime-pools"}, {}),
    ],
)
def test_two_spellings_are_one_payload(one: dict[str, object], other: dict[str, object]) -> None:
    requested = {"operationID": "a", "specName": "g", "replicas": 1}

    payloads = [
        StockPoolCreate.parse({**requested, **spelling}).payload() for spelling in (one, other)
    ]

    assert request_hash("k", "n", payloads[0]) == request_hash("k", "n", payloads[1])


def test_an_unknown_version_is_an_error() -> None:
    with pytest.raises(KeyError):
        request_hash("k", "n", {}, version=99)
