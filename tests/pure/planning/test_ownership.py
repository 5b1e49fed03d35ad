"""An object is owned if its controller reference has the UID of the owner, and only then."""

from typing import Any

import pytest

from gpuplatform.planning.ownership import controller_reference, is_controlled_by
from gpuplatform.planning.view import ResourceView
from tests.factories.inventory import POOL_UID, pool_resource


def with_owners(owners: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x", "ownerReferences": owners}}


def test_a_reference_is_recognised() -> None:
    reference = controller_reference(ResourceView.of(pool_resource()))

    assert is_controlled_by(with_owners([reference]), POOL_UID)
    assert reference["controller"] is True


@pytest.mark.parametrize(
    "owners",
    [
        None,
        [],
        [{"uid": POOL_UID}],
        [{"uid": POOL_UID, "controller": False}],
        [{"uid": "another", "controller": True}],
    ],
)
def test_other_references_are_not_ours(owners: Any) -> None:
    assert not is_controlled_by(with_owners(owners), POOL_UID)


def test_an_object_without_owners_is_not_ours() -> None:
    assert not is_controlled_by({"metadata": {}}, POOL_UID)
