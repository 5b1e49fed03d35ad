"""The books of the duplicate storm do not balance when one thing is amiss."""

from dataclasses import replace

import pytest

from tests.chaos.storm import CHANGED, PAYLOAD, Key, Made, Said, violations

A: Key = ("default", "a")
B: Key = ("storm", "a")


def said(key: Key, status: int, memory: str = PAYLOAD) -> Said:
    code = "operation_conflict" if status == 409 else ""
    return Said(*key, memory, status, code)


LEDGER = [
    *(said(A, status) for status in (202, 200, 0, 200)),
    said(A, 409, CHANGED),
    *(said(B, status) for status in (0, 200, 200)),
]
MADE = Made(
    operations=[(A, PAYLOAD, "Succeeded"), (B, PAYLOAD, "Succeeded")],
    rows=[A, B],
    objects=[(A, PAYLOAD), (B, PAYLOAD)],
)


def test_the_books_of_a_sound_storm_balance() -> None:
    assert violations(LEDGER, MADE) == []


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (replace(MADE, operations=MADE.operations[:1]), "0 operations, not 1"),
        (replace(MADE, operations=[*MADE.operations, MADE.operations[0]]), "2 operations"),
        (replace(MADE, rows=[A]), "0 rows, not 1"),
        (replace(MADE, objects=MADE.objects[:1]), "0 objects, not 1"),
        (replace(MADE, objects=[*MADE.objects, (B, PAYLOAD)]), "2 objects, not 1"),
        (replace(MADE, objects=[(A, PAYLOAD), (A, PAYLOAD)]), "2 objects, not 1"),
        (replace(MADE, objects=[*MADE.objects, (("other", "a"), PAYLOAD)]), "1 objects, not 0"),
        (replace(MADE, objects=[(A, CHANGED), (B, PAYLOAD)]), "that of another payload"),
        (
            replace(MADE, operations=[(A, PAYLOAD, "Failed"), MADE.operations[1]]),
            "ended Failed",
        ),
    ],
    ids=[
        "an operation is lost",
        "an operation is doubled",
        "a row is lost",
        "an object is lost",
        "an object is doubled",
        "an object has another tenant",
        "an object is nobody's",
        "an object is of the other payload",
        "an operation failed",
    ],
)
def test_a_truth_that_is_amiss_is_found(made: Made, words: str) -> None:
    assert any(words in fault for fault in violations(LEDGER, made))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (said(A, 202), "2 answers of 202"),
        (said(A, 500), "was answered with 500"),
        (said(A, 409), "was answered with 409"),
        (said(A, 200, CHANGED), "was answered with 200"),
        (replace(said(A, 409, CHANGED), code="name_conflict"), "is called name_conflict"),
    ],
    ids=["accepted twice", "a fault", "a wrong conflict", "a wrong replay", "another conflict"],
)
def test_an_answer_that_is_amiss_is_found(line: Said, words: str) -> None:
    assert any(words in fault for fault in violations([*LEDGER, line], MADE))


def test_a_first_answer_may_be_missing_only_where_somebody_hung_up() -> None:
    ledger = [said(A, 200), said(B, 202)]

    assert violations(ledger, MADE) == [f"{A}: 0 answers of 202"]
