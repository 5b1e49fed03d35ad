"""The fake cluster and the broker."""

from tests.fakes.installed import broker, catalogue, cluster

__all__ = ["broker", "catalogue", "cluster"]
