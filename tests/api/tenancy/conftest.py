"""The fake cluster and the broker."""

from tests.fakes.installed import broker, cluster

__all__ = ["broker", "cluster"]
