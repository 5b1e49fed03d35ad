"""The comparison of the duplicate storm finds every single deviation."""

from dataclasses import replace

import pytest

from tests.chaos.storm import CHANGED, PAYLOAD, Key, Response, State, Violation, violations

A: Key = ("default", "a")
B: Key = ("storm", "a")
OTHER: Key = ("other", "a")


def response(key: Key, status: int, memory: str = PAYLOAD) -> Response:
    code = "operation_conflict" if status == 409 else ""
    return Response(*key, memory, status, code)


LEDGER = [
    *(response(A, status) for status in (202, 200, 0, 200)),
    response(A, 409, CHANGED),
    *(response(B, status) for status in (0, 200, 200)),
]
STATE = State(
    operations=[(A, PAYLOAD, "Succeeded"), (B, PAYLOAD, "Succeeded")],
    rows=[A, B],
    objects=[(A, PAYLOAD), (B, PAYLOAD)],
)


def test_a_correct_outcome_has_no_violations() -> None:
    assert violations(LEDGER, STATE) == []


@pytest.mark.parametrize(
    ("state", "violation"),
    [
        pytest.param(
            replace(STATE, operations=STATE.operations[:1]),
            Violation(B, "operations", 0),
            id="a lost operation",
        ),
        pytest.param(
            replace(STATE, operations=[*STATE.operations, STATE.operations[0]]),
            Violation(A, "operations", 2),
            id="a duplicate operation",
        ),
        pytest.param(replace(STATE, rows=[A]), Violation(B, "rows", 0), id="a lost row"),
        pytest.param(
            replace(STATE, objects=STATE.objects[:1]),
            Violation(B, "objects", 0),
            id="a lost object",
        ),
        pytest.param(
            replace(STATE, objects=[*STATE.objects, (B, PAYLOAD)]),
            Violation(B, "objects", 2),
            id="a duplicate object",
        ),
        pytest.param(
            replace(STATE, objects=[(A, PAYLOAD), (A, PAYLOAD)]),
            Violation(A, "objects", 2),
            id="an object of another tenant",
        ),
        pytest.param(
            replace(STATE, objects=[*STATE.objects, (OTHER, PAYLOAD)]),
            Violation(OTHER, "objects", 1),
            id="an object without a request",
        ),
        pytest.param(
            replace(STATE, objects=[(A, CHANGED), (B, PAYLOAD)]),
            Violation(A, "payload", CHANGED),
            id="an object with another payload",
        ),
        pytest.param(
            replace(STATE, operations=[(A, PAYLOAD, "Failed"), STATE.operations[1]]),
            Violation(A, "phase", "Failed"),
            id="a failed operation",
        ),
    ],
)
def test_a_wrong_state_is_found(state: State, violation: Violation) -> None:
    assert violation in violations(LEDGER, state)


@pytest.mark.parametrize(
    ("line", "violation"),
    [
        pytest.param(response(A, 202), Violation(A, "responses with 202", 2), id="accepted twice"),
        pytest.param(response(A, 500), Violation(A, "status", 500), id="an error"),
        pytest.param(response(A, 409), Violation(A, "status", 409), id="a wrong conflict"),
        pytest.param(response(A, 200, CHANGED), Violation(A, "status", 200), id="a wrong replay"),
        pytest.param(
            replace(response(A, 409, CHANGED), code="name_conflict"),
            Violation(A, "code", "name_conflict"),
            id="another conflict",
        ),
    ],
)
def test_a_wrong_response_is_found(line: Response, violation: Violation) -> None:
    assert violation in violations([*LEDGER, line], STATE)


def test_the_first_response_may_be_missing_only_after_a_disconnection() -> None:
    ledger = [response(A, 200), response(B, 202)]

    assert violations(ledger, STATE) == [Violation(A, "responses with 202", 0)]
