"""The names of a stock pool's objects, for all components.

A pool's name has at most 58 characters, so each derived name fits a DNS label and nothing is ever
cut.
"""

from gpuplatform.formats.names import generated_name

_PREFIX = "pool"


def deployment_name(pool: str) -> str:
    """Return the name of the pool's Deployment."""
    return f"{_PREFIX}-{pool}"


def service_name(pool: str) -> str:
    """Return the name of the pool's Service."""
    return f"{_PREFIX}-{pool}"


def generated_pool_name(spec_name: str, *, tenant: str, operation_id: str) -> str:
    """Return the name of a pool that was requested without one: the same for each attempt."""
    return generated_name(_PREFIX, spec_name, tenant=tenant, operation_id=operation_id)
