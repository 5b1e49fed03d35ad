"""The chain names the entry or the seal that was changed."""

from dataclasses import replace

import pytest

from gpuplatform.audit.core.chain import (
    GENESIS,
    Break,
    Fault,
    Seal,
    entry_digest,
    seal_breaks,
    seal_digest,
)

ENTRIES = {n: entry_digest({"id": n, "verb": "create"}) for n in (5, 6, 9)}


def seal(number: int = 1, previous: bytes = GENESIS) -> Seal:
    digests = list(ENTRIES.values())
    return Seal(number, list(ENTRIES), digests, previous, seal_digest(number, previous, digests))


def test_an_unchanged_seal_has_no_breaks() -> None:
    assert seal_breaks(seal(), 1, GENESIS, ENTRIES) == []


def test_the_digest_of_an_entry_depends_on_its_values_and_not_on_their_order() -> None:
    assert entry_digest({"a": 1, "b": "ä"}) == entry_digest({"b": "ä", "a": 1})
    assert entry_digest({"a": 1}) != entry_digest({"a": "1"})


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ({**ENTRIES, 6: entry_digest({"id": 6})}, Break(1, 6, Fault.CHANGED)),
        ({5: ENTRIES[5], 9: ENTRIES[9]}, Break(1, 6, Fault.MISSING)),
    ],
)
def test_a_changed_or_removed_entry_is_named(entries: dict[int, bytes], expected: Break) -> None:
    assert seal_breaks(seal(), 1, GENESIS, entries) == [expected]


def test_exchanged_entries_are_named() -> None:
    exchanged = {5: ENTRIES[6], 6: ENTRIES[5], 9: ENTRIES[9]}

    assert seal_breaks(seal(), 1, GENESIS, exchanged) == [
        Break(1, 5, Fault.CHANGED),
        Break(1, 6, Fault.CHANGED),
    ]


def test_a_reordered_seal_has_another_digest() -> None:
    whole = seal()
    reordered = replace(whole, entries=[6, 5, 9], digests=[whole.digests[n] for n in (1, 0, 2)])

    assert seal_breaks(reordered, 1, GENESIS, ENTRIES) == [Break(1, None, Fault.SEAL_CHANGED)]


def test_the_digest_of_a_seal_depends_on_each_part() -> None:
    digests = list(ENTRIES.values())
    different = {
        seal_digest(1, GENESIS, digests),
        seal_digest(2, GENESIS, digests),
        seal_digest(1, bytes(31) + b"1", digests),
        seal_digest(1, GENESIS, digests[:2]),
        seal_digest(1, GENESIS, digests[::-1]),
    }

    assert len(different) == 5


def test_a_seal_with_an_entry_without_a_digest_is_named() -> None:
    longer = replace(seal(), entries=[*ENTRIES, 10])

    assert seal_breaks(longer, 1, GENESIS, ENTRIES) == [Break(1, None, Fault.SEAL_CHANGED)]


def test_a_seal_that_was_computed_again_does_not_continue_the_chain() -> None:
    assert seal_breaks(seal(), 1, b"other", ENTRIES) == [Break(1, None, Fault.SEAL_MISSING)]
    assert seal_breaks(seal(3), 2, GENESIS, ENTRIES) == [Break(3, None, Fault.SEAL_MISSING)]
