"""What a rejected request asked for."""

import pytest

from gpuplatform.audit.core.routes import RequestedAction, is_rejection, requested_action
from gpuplatform.tenancy.permissions import PERMISSIONS, Method


@pytest.mark.parametrize(
    ("route", "method", "expected"),
    [
        ("gpu-units", "POST", RequestedAction("GPUUnit", "create")),
        ("gpu-unit", "PUT", RequestedAction("GPUUnit", "update")),
        ("gpu-unit", "DELETE", RequestedAction("GPUUnit", "delete")),
        ("gpu-unit-stop", "POST", RequestedAction("GPUUnit", "stop")),
        ("gpu-unit-logs", "GET", RequestedAction("GPUUnit", "read")),
        ("node-drain-cancel", "POST", RequestedAction("Node", "drain-cancel")),
        ("tenant-member", "PUT", RequestedAction("Member", "update")),
        ("tenant-limits", "PUT", RequestedAction("Tenant", "update")),
        ("unknown", "POST", RequestedAction("", "create")),
        ("", "PURGE", RequestedAction("", "read")),
    ],
)
def test_the_route_and_the_method_name_the_object_and_the_verb(
    route: str, method: str, expected: RequestedAction
) -> None:
    assert requested_action(route, method) == expected


def test_each_write_of_the_api_is_about_a_kind() -> None:
    writes = {
        (name, method)
        for name, methods in PERMISSIONS.items()
        for method in methods
        if method != Method.GET
    }

    assert [write for write in writes if not requested_action(*write).kind] == []


@pytest.mark.parametrize(
    ("status", "method", "expected"),
    [
        (401, "GET", True),
        (403, "GET", True),
        (409, "POST", True),
        (409, "GET", False),
        (404, "POST", False),
        (412, "PUT", False),
        (202, "POST", False),
        (503, "POST", False),
    ],
)
def test_rejections_are_missing_rights_and_conflicts_of_writes(
    status: int, method: str, expected: bool
) -> None:
    assert is_rejection(status, method) is expected
