"""The metrics that a test records, without files and without a port."""

import pytest

from gpuplatform.metrics.declared import Metric
from gpuplatform.metrics.recorder import _Recorder


class Counted:
    """The metrics of one test."""

    def values(self, metric: Metric) -> dict[tuple[str, ...], float]:
        """Return the values of a counter, or the counts of a histogram, by label values."""
        made = _Recorder.created.get(metric.name)
        return {
            tuple(sample.labels.values()): sample.value
            for family in (made.collect() if made else ())
            for sample in family.samples
            if sample.name.endswith(("_total", "_count"))
        }


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """Record metrics for this test only."""
    monkeypatch.setattr(_Recorder, "is_on", True)
    monkeypatch.setattr(_Recorder, "created", {})
    return Counted()
