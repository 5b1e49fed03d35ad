"""OperationIDs of the platform are repeatable, and cannot be guessed without the secret key."""

import pytest
from pytest_django import Settings

from gpuplatform.formats import names
from gpuplatform.operations.automatic import automatic_id

UID = "0b0c7f4e-4c4e-4f0c-8f55-0a5f2d6a0f11"


def test_equal_arguments_give_the_same_valid_operation_id() -> None:
    first, again = automatic_id("restock", UID), automatic_id("restock", UID)

    assert first == again
    assert first.startswith(f"restock-{UID}-")
    assert names.operation_id(first) == first


@pytest.mark.parametrize("other", [("replaces", UID), ("restock", UID, 1), ("restock", "x")])
def test_other_arguments_give_another_token(other: tuple[object, ...]) -> None:
    purpose, *parts = other

    tokens = {
        one.rpartition("-")[2]
        for one in (automatic_id("restock", UID), automatic_id(str(purpose), *parts))
    }

    assert len(tokens) == 2


def test_another_installation_has_other_operation_ids(settings: Settings) -> None:
    before = automatic_id("restock", UID)

    settings.SECRET_KEY = "another-key-of-another-installation"

    assert automatic_id("restock", UID) != before
