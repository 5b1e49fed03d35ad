"""Every CustomResourceDefinition of the platform, and the file that each is kept in."""

from typing import Any

from inventory.core.crd import STOCK_POOL_CRD
from units.core.crd import GPU_UNIT_CRD

CRDS: tuple[dict[str, Any], ...] = (STOCK_POOL_CRD, GPU_UNIT_CRD)


def file_name(crd: dict[str, Any]) -> str:
    """Return the file name that the generators of the field use, `<group>_<plural>.yaml`."""
    spec = crd["spec"]
    return f"{spec['group']}_{spec['names']['plural']}.yaml"
