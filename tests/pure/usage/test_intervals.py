"""The rules of intervals: nothing is charged that no sight proves, and no part overlaps."""

import itertools
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from gpuplatform.usage.core.intervals import TOLERANCE, Seen, Span, end_of, refined, seen
from gpuplatform.usage.core.sights import Sight

BEGIN = datetime(2026, 12, 1, 10, tzinfo=UTC)
LATER = BEGIN + timedelta(days=1)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def sight(bound: float, until: float, pod: str = "p", **fields: object) -> Sight:
    return Sight("u", pod, at(bound), at(until), **fields)  # type: ignore[arg-type]  # checked by the tests


def opened() -> Span:
    return Span(BEGIN, BEGIN)


def test_nothing_is_charged_before_the_first_sight() -> None:
    end = end_of(opened(), at(600))

    assert (end.at, end.uncertain_seconds, end.is_observed) == (BEGIN, 600.0, False)


def test_a_sight_extends_the_interval() -> None:
    result = seen(opened(), sight(2, 60), LATER)

    assert (result.span.seen_at, result.next_part) == (at(60), None)


def test_an_older_sight_changes_nothing() -> None:
    span = seen(opened(), sight(2, 60), LATER).span

    assert seen(span, sight(2, 30), LATER).span == span


def test_a_sight_of_an_earlier_run_changes_nothing() -> None:
    span = opened()

    assert seen(span, sight(-60, -1, "old", is_end=True), LATER).span == span


def test_no_sight_is_later_than_the_database() -> None:
    assert seen(opened(), sight(2, 60), at(10)).span.seen_at == at(10)


def test_a_pod_that_is_bound_after_a_gap_begins_a_part() -> None:
    span = seen(opened(), sight(2, 60), LATER).span

    result = seen(span, sight(66, 90, "q"), LATER)

    assert result.span == span
    assert result.next_part is not None
    assert (result.next_part.started_at, result.next_part.seen_at) == (at(66), at(90))


def test_a_pod_that_replaces_another_within_the_tolerance_begins_no_part() -> None:
    span = seen(opened(), sight(2, 60, is_end=True), LATER).span

    result = seen(span, sight(65, 90, "q"), LATER)

    assert (result.next_part, result.span.finished_at) == (None, None)
    assert result.span.charged_until == at(90)


def test_the_object_of_a_replaced_pod_ends_nothing() -> None:
    span = seen(opened(), sight(2, 60, is_end=True), LATER).span
    span = seen(span, sight(62, 90, "q"), LATER).span

    assert seen(span, sight(2, 60, is_end=True), LATER).span == span


def test_of_two_pods_bound_in_one_second_the_living_one_counts() -> None:
    span = seen(opened(), sight(2, 2, is_end=True), LATER).span

    span = seen(span, sight(2, 50, "q"), LATER).span
    span = seen(span, sight(2, 2, is_end=True), LATER).span

    assert (span.charged_until, span.finished_at) == (at(50), None)


def test_the_end_of_the_pod_is_the_end_also_if_it_was_seen_later() -> None:
    span = seen(opened(), sight(2, 100), LATER).span
    span = seen(span, sight(2, 90, is_end=True), LATER).span

    end = end_of(span, at(600))

    assert (end.at, end.is_observed) == (at(90), True)


def test_an_end_without_proof_is_estimated_where_the_pod_was_last_seen() -> None:
    end = end_of(seen(opened(), sight(2, 100), LATER).span, at(160))

    assert (end.at, end.uncertain_seconds, end.is_observed) == (at(100), 60.0, False)


def test_a_late_proof_refines_an_estimated_end() -> None:
    span = seen(opened(), sight(2, 100), LATER).span

    found = refined(span, end_of(span, at(160)), sight(2, 130, is_end=True))

    assert found is not None
    assert found.charged_until == at(130)


def test_a_late_proof_after_the_absence_refines_nothing() -> None:
    span = seen(opened(), sight(2, 100), LATER).span

    assert refined(span, end_of(span, at(160)), sight(2, 161, is_end=True)) is None


def test_ready_time_counts_until_the_last_sight() -> None:
    span = seen(opened(), sight(2, 60, ready_since=at(10)), LATER).span
    span = seen(span, sight(2, 100, is_end=True), LATER).span

    assert span.ready_seconds == 90.0


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[tuple[float, float]], list[Sight]]:
    """The times in which pods of one unit held GPUs, and sights of them in any order."""
    held, sights, clock = [], [], 0.0
    for number in range(draw(st.integers(1, 4))):
        begin = clock + draw(st.floats(0, 30))
        end = begin + draw(st.floats(0, 100))
        held.append((begin, end))
        pod = f"p{number}"
        moments = draw(st.lists(st.floats(begin, end), max_size=4))
        sights += [sight(begin, moment, pod) for moment in moments]
        if draw(st.booleans()):
            sights.append(sight(begin, end, pod, is_end=True))
        clock = end
    return held, draw(st.permutations(sights))


@given(histories())
def test_no_part_overlaps_and_only_gaps_within_the_tolerance_are_charged(
    history: tuple[list[tuple[float, float]], list[Sight]],
) -> None:
    held, sights = history
    parts: list[tuple[datetime, datetime]] = []
    result = Seen(opened())
    for one in sights:
        if result.next_part is not None:
            parts.append((result.span.started_at, result.span.charged_until))
            result = Seen(result.next_part)
        result = seen(result.span, one, LATER)
    last = [one for one in (result.span, result.next_part) if one is not None]
    parts += [(one.started_at, one.charged_until) for one in last]

    for before, after in itertools.pairwise(parts):
        assert before[1] <= after[0]
    for begin, end in parts:
        assert begin <= end
        places = [min(max(at(one), begin), end) for pair in held for one in pair]
        edges = [begin, *places, end]  # Pods hold GPUs between the edges 2n + 1 and 2n + 2.
        unheld = [after - before for before, after in zip(edges[::2], edges[1::2], strict=True)]
        assert all(gap <= TOLERANCE for gap in unheld)
