"""The namespaces that neither pools nor tenants can have."""

import pytest

from gpuplatform.formats.namespaces import reserved_error


@pytest.mark.parametrize("name", ["kube-system", "kube-x", "runtime-stock", "system"])
def test_reserved_namespaces_are_rejected(name: str) -> None:
    assert reserved_error(name, system_namespace="system")
    assert not reserved_error(f"tenant-{name}", system_namespace="system")
