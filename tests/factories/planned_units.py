"""Inputs of the planner of GPU units: resources, owned objects and observations. Pure."""

from collections.abc import Mapping
from typing import Any

from gpuplatform.kube.kinds import GPU_UNIT, Manifest
from gpuplatform.planning.plan import Absent, Observation, Present
from gpuplatform.workloads.pods import STOCK_PRIORITY_CLASS
from tests.factories.inventory import HTTP_PORT, POD_SETTINGS, live, pod, running
from units.core import manifests
from units.core.names import GENERATION_ANNOTATION, UNIT_UID_LABEL
from units.core.observed import ObservedUnit
from units.core.sources import NoSource, Source, SourceReference
from units.core.view import UnitView
from units.phases import STOCK_NAMESPACE

UNIT_UID = "99999999-2222-4333-8444-555555555555"
SOURCE = SourceReference("stock-g1-1-0123456789abcdef-001", "77777777-2222-4333-8444-555555555555")
PORTS = {"ports": [HTTP_PORT]}


def unit_resource(
    name: str = "trainer",
    *,
    metadata: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Manifest:
    """Return an active `GPUUnit` with ports as the API server does, with the source `SOURCE`."""
    resource: Manifest = {
        "apiVersion": GPU_UNIT.api_version,
        "kind": GPU_UNIT.kind,
        "metadata": {
            "name": name,
            "namespace": "runtime-instance",
            "uid": UNIT_UID,
            "generation": 1,
            "resourceVersion": "7",
            "creationTimestamp": "2026-01-31T12:00:00Z",
            "annotations": SOURCE.annotations(),
            **(metadata or {}),
        },
        "spec": {"specName": "g1.1", "gpu": 1, "image": "app:1", "template": PORTS, **spec},
    }
    if status is not None:
        resource["status"] = dict(status)
    return resource


def stock_resource(name: str = SOURCE.name, **spec: Any) -> Manifest:
    """Return a stock unit."""
    resource = unit_resource(
        name, metadata={"namespace": STOCK_NAMESPACE, "uid": SOURCE.uid, "annotations": {}}
    )
    return {**resource, "spec": {"specName": "g1.1", "gpu": 1, **spec}}


def unit_deployment(
    unit: Manifest,
    *,
    replicas: int = 1,
    priority: str = STOCK_PRIORITY_CLASS,
    status: Mapping[str, Any] | None = None,
) -> Manifest:
    """Return the desired Deployment of `unit` as read; completed if there is no `status`."""
    wanted = manifests.deployment(
        UnitView.parse(unit), replicas=replicas, priority=priority, settings=POD_SETTINGS
    )
    generation = unit["metadata"]["generation"]
    wanted["metadata"]["annotations"][GENERATION_ANNOTATION] = str(generation)
    return live(wanted, status=running(replicas) if status is None else status)


def unit_service(unit: Manifest) -> Manifest:
    """Return the Service of `unit` as the API server returns it, always with a port."""
    spec = {**unit["spec"], "template": unit["spec"].get("template") or PORTS}
    return live(manifests.service(UnitView.parse({**unit, "spec": spec})))


def unit_pod(unit: Manifest, **status: Any) -> Manifest:
    """Return a pod of exactly this unit."""
    found = pod(f"unit-{unit['metadata']['name']}-a", **status)
    found["metadata"]["labels"] = {UNIT_UID_LABEL: unit["metadata"]["uid"]}
    return found


def observed_unit(
    deployment: Observation[Manifest] | Manifest = Absent(),  # noqa: B008 - frozen
    service: Observation[Manifest] | Manifest = Absent(),  # noqa: B008 - frozen
    pods: Observation[Any] | list[Manifest] | None = None,
    *,
    source: Source = NoSource(),  # noqa: B008 - frozen
    **more: Any,
) -> ObservedUnit:
    """Return an observation; an object represents its presence."""
    return ObservedUnit(
        deployment=Present(deployment) if isinstance(deployment, dict) else deployment,
        service=Present(service) if isinstance(service, dict) else service,
        pods=Present(tuple(pods or ())) if pods is None or isinstance(pods, list) else pods,
        settings=POD_SETTINGS,
        source=source,
        **more,
    )
