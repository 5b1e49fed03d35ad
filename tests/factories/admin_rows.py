"""Rows as services and reconcilers write them, for the pages of the admin."""

from datetime import timedelta
from typing import Any

from gpuplatform.clock import now
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import ENDED_PHASES, OperationPhase
from gpuplatform.tenancy.models import Tenant
from gpuplatform.workloads.causes import StartupCause
from inventory.models import StockPool
from inventory.phases import PoolPhase, PoolReason
from tests.factories.unit_rows import unit_row
from units.models import CapacityRequest

WORDS_OF_THE_CLUSTER = 'Back-off pulling image "registry.example.com/none:1": manifest unknown'


class Rows:
    """Creates operations, requests for capacity and pools as services write them."""

    def __init__(self) -> None:
        self._tenant, _ = Tenant.objects.get_or_create(
            name="default", defaults={"namespace": "default"}
        )

    def operation(self, phase: str = OperationPhase.SUCCEEDED, **fields: Any) -> Operation:
        """Create an operation that entered its phase five minutes ago."""
        moment = now() - timedelta(minutes=5)
        ended = phase in ENDED_PHASES
        failed = phase == OperationPhase.FAILED
        return Operation.objects.create(
            **{
                "tenant": self._tenant,
                "operation_id": f"op-{Operation.objects.count()}",
                "kind": "stockpool.create",
                "payload": {"specName": "g1.1", "replicas": 2},
                "request_hash": "0" * 64,
                "hash_version": 1,
                "phase": phase,
                "error_code": "name_conflict" if failed else "",
                "error_message": "The name is in use." if failed else "",
                "object_kind": "StockPool",
                "object_namespace": "runtime-pools",
                "object_name": "h100",
                "created_at": moment,
                "updated_at": moment,
                "ended_at": moment if ended else None,
                "due_at": None if ended else moment,
                **fields,
            }
        )

    def capacity_request(self, number: int = 1) -> CapacityRequest:
        """Create an open request for four stock units, for which free stock is held."""
        return CapacityRequest.objects.create(
            operation=self.operation(OperationPhase.PENDING, operation_id=f"create-{number}"),
            tenant=self._tenant,
            unit=unit_row(name=f"waiting-{number}"),
            spec_name="g1.1",
            count=4,
            expires_at=now(),
            hold_begun_at=now(),
        )

    def pool(self, phase: str = PoolPhase.READY, **fields: Any) -> StockPool:
        """Create a pool that entered its phase five minutes ago."""
        moment = now() - timedelta(minutes=5)
        number = StockPool.objects.count()
        failed = phase == PoolPhase.FAILED
        fields.setdefault("message", WORDS_OF_THE_CLUSTER if failed else "")
        fields.setdefault("reason", PoolReason.POD_STARTUP_FAILED if failed else "")
        is_startup = fields["reason"] == PoolReason.POD_STARTUP_FAILED
        fields.setdefault("cause", StartupCause.IMAGE_PULL_FAILED if is_startup else "")
        condition = {
            "type": "Ready",
            "status": "False" if failed else "True",
            "reason": fields["reason"],
            "message": fields["message"],
            "lastTransitionTime": "2026-01-31T12:00:00Z",
        }
        return StockPool.objects.create(
            **{
                "tenant": self._tenant,
                "namespace": "runtime-pools",
                "name": f"pool-{number}",
                "uid": f"uid-{number}",
                "phase": phase,
                "spec": {"specName": "g1.1", "replicas": 2, "gpu": 1},
                "spec_name": "g1.1",
                "desired_replicas": 2,
                "available_replicas": 0 if failed else 2,
                "generation": 1,
                "observed_generation": 1,
                "conditions": [condition],
                "phase_since": moment,
                **fields,
            }
        )
