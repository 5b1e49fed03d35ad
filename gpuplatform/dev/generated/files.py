"""The table of the generated files."""

from collections.abc import Callable, Mapping
from typing import Final

from gpuplatform.dev.generated.dashboards import dashboard_files
from gpuplatform.dev.generated.manifests import crd_files, policy_files, rbac_files
from gpuplatform.dev.generated.permissions_page import permissions_page
from gpuplatform.dev.generated.reasons_page import reasons_page
from gpuplatform.dev.generated.settings_page import settings_page

GENERATED: Final[Mapping[str, Callable[[], Mapping[str, str]]]] = {
    "crds": crd_files,
    "rbac": rbac_files,
    "policies": policy_files,
    "dashboards": dashboard_files,
    "settings": lambda: {"docs/configuration.md": settings_page()},
    "reasons": lambda: {"docs/reasons.md": reasons_page()},
    "permissions": lambda: {"docs/permissions.md": permissions_page()},
}
"""The functions that return the text of each file, by path in the repository."""
