"""The fake cluster and the broker."""

from tests.fakes.installed import broker as broker
from tests.fakes.installed import cluster as cluster
