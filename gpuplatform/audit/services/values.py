"""Records reads of the values of variables, which programs that poll an object repeat."""

from typing import Final

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

from gpuplatform.audit.services.entries import PAGE_SECONDS, secret_read
from gpuplatform.process_local import ProcessLocal
from gpuplatform.tenancy.actor import acting

_ONCE: Final = RateLimitItemPerMinute(1, PAGE_SECONDS // 60, namespace="audit-values")
_LIMITER: Final = ProcessLocal(lambda: FixedWindowRateLimiter(MemoryStorage()))


def values_read(kind: str, *, tenant: str, namespace: str, name: str, uid: str = "") -> None:
    """Record that the response contains the values of variables of an object.

    Each process inserts one entry in `PAGE_SECONDS` for each actor and object.
    """
    actor, limiter = acting(), _LIMITER.get()
    key = (actor.kind.value, actor.key, kind, uid or f"{namespace}/{name}")
    if not limiter.test(_ONCE, *key):
        return
    secret_read("read-values", kind, tenant=tenant, namespace=namespace, name=name, uid=uid)
    limiter.hit(_ONCE, *key)
