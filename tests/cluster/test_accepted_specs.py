"""The API server accepts the resources and objects of each spec that the platform accepts.

The tests send dry-runs to a real API server: thousands of accepted specs, and thousands with one
changed value. A rule of the platform may be stricter than the API server, never looser.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import local
from typing import Any, Final

import pytest

from gpuplatform.errors import InvalidSpec
from gpuplatform.formats.model import SpecModel
from gpuplatform.formats.names import OWN_NAME_MAX, dns_label
from gpuplatform.kube.kinds import (
    DEPLOYMENT,
    GPU_UNIT,
    SERVICE,
    STOCK_POOL,
    Manifest,
    ResourceKind,
)
from inventory.core import manifests as pool_manifests
from inventory.core.spec import StockPoolSpec
from inventory.core.view import PoolView
from tests.cluster.specs import Specs
from tests.cluster.world import Http, Reply, World
from tests.factories.inventory import POD_SETTINGS
from units.core import manifests as unit_manifests
from units.core.spec import GPUUnitSpec, access_error
from units.core.view import UnitView

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.django_db,
    pytest.mark.timeout(400),
    pytest.mark.lasts(seconds=10),
    pytest.mark.real_only(reason="the simulator refuses less than Kubernetes does"),
]

EACH: Final = 1_000
"""Accepted specs of each kind; the same number with one changed value."""
CALLERS: Final = 6
UID: Final = "11111111-2222-3333-4444-555555555555"

Sent = tuple[ResourceKind, Manifest]


def pool_objects(name: str, raw: Any, namespace: str) -> list[Sent]:
    """Return the objects that are written for a pool.

    Raises:
        InvalidSpec: the platform rejects it.
    """
    spec = StockPoolSpec.parse(raw)
    resource = _resource(STOCK_POOL, name, namespace, spec)
    pool = PoolView.parse(resource)
    made: list[Sent] = [
        (STOCK_POOL, resource),
        (DEPLOYMENT, pool_manifests.deployment(pool, POD_SETTINGS)),
    ]
    if pool.template.ports:
        made.append((SERVICE, pool_manifests.service(pool)))
    return made


def unit_objects(name: str, raw: Any, namespace: str) -> list[Sent]:
    """Return the objects that are written for an active unit.

    Raises:
        InvalidSpec: the platform rejects it.
    """
    spec = GPUUnitSpec.parse(raw)
    if fault := access_error(spec.access, spec.template):
        raise InvalidSpec(fault.message)
    resource = _resource(GPU_UNIT, name, namespace, spec)
    unit = UnitView.parse(resource)
    deployment = unit_manifests.deployment(
        unit, replicas=1, priority="gpu-platform-handover", settings=POD_SETTINGS
    )
    made: list[Sent] = [(GPU_UNIT, resource), (DEPLOYMENT, deployment)]
    if spec.ports:
        made.append((SERVICE, unit_manifests.service(unit)))
    return made


def _resource(kind: ResourceKind, name: str, namespace: str, spec: SpecModel) -> Manifest:
    metadata = {"name": name, "namespace": namespace, "uid": UID, "generation": 1}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": metadata,
        "spec": spec.normalised(),
    }


class Server:
    """Sends dry-runs on one connection per thread."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._own = local()

    def take(self, kind: ResourceKind, manifest: Manifest) -> Reply:
        """Send a dry-run of the create."""
        if not hasattr(self._own, "http"):
            self._own.http = Http(self._world.kubeconfig)
        reply: Reply = self._own.http("POST", f"{self._world.path(kind)}?dryRun=All", manifest)
        return reply

    def refusals(self, made: Sequence[Sent]) -> list[str]:
        """Return the errors of the server for these objects."""
        replies = [(kind, self.take(kind, manifest)) for kind, manifest in made]
        return [f"{kind.kind}: {one.message}" for kind, one in replies if one.status != 201]


Objects = Callable[[str, Any, str], list[Sent]]
CASES: Final = pytest.mark.parametrize(
    ("objects", "make", "kind"),
    [(pool_objects, Specs.pool, STOCK_POOL), (unit_objects, Specs.unit, GPU_UNIT)],
    ids=["pools", "units"],
)


def accepted(objects: Objects, name: str, raw: Any, namespace: str) -> list[Sent] | None:
    """Return the objects that are written; None if the platform rejects the spec."""
    try:
        dns_label(name, max_length=OWN_NAME_MAX)
        return objects(name, raw, namespace)
    except (InvalidSpec, ValueError):
        return None


def sound(objects: Objects, make: Callable[[Specs], Any], seed: int) -> Iterator[tuple[str, Any]]:
    """Yield names and specs that the platform accepts."""
    specs = Specs(seed)
    for _ in itertools.count():
        name, raw = specs.name(), make(specs)
        if accepted(objects, name, raw, "x") is not None:
            yield name, raw


@CASES
def test_what_is_accepted_here_is_accepted_there(
    installed: World, objects: Objects, make: Callable[[Specs], Any], kind: ResourceKind
) -> None:
    server = Server(installed)
    cases = list(itertools.islice(sound(objects, make, 1), EACH))

    def refused(case: tuple[str, Any]) -> str:
        made = accepted(objects, *case, installed.namespace)
        assert made is not None
        words = server.refusals(made)
        return f"{case}: {words}" if words else ""

    with ThreadPoolExecutor(CALLERS) as pool:
        faults = [words for words in pool.map(refused, cases) if words]

    assert len(cases) == EACH
    assert faults[:3] == []


@CASES
def test_a_rule_is_never_looser_here_than_there(
    installed: World, objects: Objects, make: Callable[[Specs], Any], kind: ResourceKind
) -> None:
    server, specs = Server(installed), Specs(2)
    cases = []
    for number, (name, raw) in enumerate(itertools.islice(sound(objects, make, 3), EACH)):
        is_name = number % 10 == 0
        changed = raw if is_name else specs.with_one_thing_changed(raw)
        cases.append((specs.odd_name() if is_name else name, changed))

    def looser(case: tuple[str, Any]) -> tuple[str, str]:
        name, raw = case
        made = accepted(objects, name, raw, installed.namespace)
        if made is None:
            manifest = {"metadata": {"name": name}, "spec": raw}
            taken = server.take(kind, installed.placed(kind, manifest)).status == 201
            return ("stricter" if taken else "refused by both"), ""
        words = server.refusals(made)
        return "taken by both", f"{case}: {words}" if words else ""

    with ThreadPoolExecutor(CALLERS) as pool:
        found = list(pool.map(looser, cases))

    verdicts = [verdict for verdict, _ in found]
    assert [words for _, words in found if words][:3] == []
    assert min(verdicts.count(one) for one in ("taken by both", "refused by both")) > EACH // 20
