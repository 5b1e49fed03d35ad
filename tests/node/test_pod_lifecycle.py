"""The rules of `tests/cluster` about pods, on real nodes."""

import pytest

from tests.cluster.semantics.test_pod_lifecycle import *  # noqa: F403 - the same tests

pytestmark = pytest.mark.node
