"""Names of the objects of a stock pool.

The name of a stock pool has at most 58 characters, so that each derived name is a DNS label and is
never truncated.
"""

from gpuplatform.formats.names import generated_name

_PREFIX = "pool"


def object_name(pool: str) -> str:
    """Return the name of the Deployment and of the Service of a stock pool."""
    return f"{_PREFIX}-{pool}"


def generated_pool_name(spec_name: str, *, tenant: str, operation_id: str) -> str:
    """Return a name for a stock pool that was requested without one.

    The name depends on the arguments only, so that a replayed request gets the same name.
    """
    return generated_name(_PREFIX, spec_name, tenant=tenant, operation_id=operation_id)
