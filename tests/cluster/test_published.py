"""Programs in their published shape: each is accepted by the API, and runs on its stock."""

import base64
from urllib.parse import urlsplit

import pytest

from gpuplatform.kube.kinds import CONFIG_MAP, SECRET, Manifest
from gpuplatform.operations.models import Operation
from gpuplatform.operations.services import Accepted
from gpuplatform.tenancy.models import Scope
from gpuplatform.tenancy.services import token_create
from gpuplatform.workloads.template import PodTemplate
from tests.cluster.published import Published, published
from tests.cluster.tenant_units import SPEC, Units
from tests.cluster.world import World
from tests.factories.unit_rows import catalogued
from tests.fakes.api import UNITS, Api

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]

PROGRAMS = {one.name: one for one in published()}
PROBES = ("startup", "readiness", "liveness")
PULL_SECRET_KEY = ".dockerconfigjson"


def prepare(world: World, program: Published) -> None:
    """Create the objects that the request references."""
    for name, keys in program.secrets.items():
        data = {key: base64.b64encode(b'{"auths": {}}').decode() for key in keys}
        manifest: Manifest = {"metadata": {"name": name}, "data": data}
        if PULL_SECRET_KEY in keys:
            manifest["type"] = "kubernetes.io/dockerconfigjson"
        world.create(SECRET, manifest)
    for name, keys in program.config_maps.items():
        data = dict.fromkeys(keys, "base_model: example/model-1b\n")
        world.create(CONFIG_MAP, {"metadata": {"name": name}, "data": data})


def create(units: Units, program: Published) -> None:
    """Request the unit as a caller of the API, and execute the operation."""
    _, secret = token_create(tenant=units.tenant, name=program.name, scopes=[Scope.USER])
    body = {"operationID": "create", "name": program.name, "specName": SPEC, **program.request}

    catalogued(SPEC)
    answer = Api().post(UNITS, body, HTTP_AUTHORIZATION=f"Bearer {secret}")

    assert answer.status == 202, answer.json
    operation = Operation.objects.get(tenant=units.tenant, operation_id="create")
    assert units.finish(Accepted(operation, is_replay=False)).phase == "Succeeded"


def test_ten_programs_are_published() -> None:
    assert len(PROGRAMS) == 10


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_runs_in_its_published_shape(installed: World, units: Units, name: str) -> None:
    program = PROGRAMS[name]
    units.seed(1, cpu="4", memory="64Gi")
    prepare(installed, program)

    create(units, program)

    row = units.settle(name, "Ready", "UnitReady")
    assert PodTemplate.parse(row.spec["template"]) == PodTemplate.parse(program.template)
    assert urlsplit(row.access_url).port == primary_port(program)
    [pod] = units.pods(row)
    [container] = pod["spec"]["containers"]
    assert container["image"] == program.request["image"]
    declared = {field for field in PROBES if field in program.template}
    defaults = {"readiness"} if primary_port(program) else set()
    assert {field for field in PROBES if f"{field}Probe" in container} == declared | defaults


def primary_port(program: Published) -> int | None:
    """Return the number of the port of the access URL, or `None` without ports."""
    ports = {port["name"]: int(port["port"]) for port in program.template.get("ports", [])}
    first = next(iter(ports), "")
    return ports.get(program.request.get("access", {}).get("primaryPort", first))
