"""A tenth of the duplicate storm (`make chaos-x1`), on the embedded cluster."""

from collections import Counter
from pathlib import Path

import pytest

from tests.acceptance.platform import RunningPlatform
from tests.acceptance.pools import open_operations
from tests.chaos.storm import COPIES, Ledger, Storm, read_state, two_tenants, violations

pytestmark = [
    pytest.mark.processes,
    pytest.mark.long,
    pytest.mark.timeout(400),
    pytest.mark.xdist_group("acceptance"),
]

IDS = 200


def test_identical_requests_at_once_are_one_operation_and_one_object_each(
    platform: RunningPlatform, tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    secrets = two_tenants(platform)

    Storm(platform.port, ledger, secrets, "storm").run(IDS)

    platform.wait(lambda: open_operations(platform, "storm") == 0, "all to end", 200)
    lines, made = ledger.read(), read_state(platform, "storm")
    assert violations(lines, made) == []
    assert Counter(tenant for (tenant, _), _, _ in made.operations) == dict.fromkeys(secrets, IDS)
    assert len([line for line in lines if line.status]) == IDS * COPIES * len(secrets)
    assert {line.status for line in lines} == {0, 200, 202, 409}
