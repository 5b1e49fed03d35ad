"""compose.yaml follows the schema of the compose specification and the rules of this project.

The schema in this folder is the one of compose-spec (Apache-2.0), as check-jsonschema 0.39.0
ships it.
"""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from gpuplatform.dev.embedded.layout import SERVERLESS
from gpuplatform.images import PLATFORM_IMAGE
from gpuplatform.metrics.server import LIVE_PATH

ROOT = Path(__file__).parents[2]
SCHEMA = Path(__file__).parent / "compose" / "compose-spec.json"
SERVERS = {"postgres", "valkey", "nats"}
QUEUES = {"operations": 2, "reconcile": 2, "periodic": 1}
"""Queues with the number of processes of their worker."""
PROCESSES = {"web", *QUEUES, "beat", "controller", *SERVERLESS}
ADDRESS_WITH_PASSWORD = re.compile(r"://[^:@/\s]*:(?P<password>[^@\s]+)@")


def _compose() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
    return document


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return _compose()


def test_compose_follows_the_schema(compose: dict[str, Any]) -> None:
    schema = json.loads(SCHEMA.read_text())

    validator = jsonschema.validators.validator_for(schema)(schema)

    assert [error.message for error in validator.iter_errors(compose)] == []


def test_every_process_and_server_is_there(compose: dict[str, Any]) -> None:
    assert set(compose["services"]) == SERVERS | PROCESSES | {"migrate"}


@pytest.mark.parametrize("name", sorted(SERVERS | PROCESSES))
def test_every_lasting_service_has_a_health_check(compose: dict[str, Any], name: str) -> None:
    assert {"test", "interval", "timeout", "retries"} <= set(
        compose["services"][name]["healthcheck"]
    )


@pytest.mark.parametrize("name", sorted(PROCESSES - {"web"}))
def test_the_health_check_asks_the_process_whether_it_is_alive(
    compose: dict[str, Any], name: str
) -> None:
    service = compose["services"][name]
    port = service["environment"]["GPUPLATFORM_METRICS_PORT"]

    [*_, program] = service["healthcheck"]["test"]
    assert f"http://localhost:{port}{LIVE_PATH}" in program


def test_every_process_waits_for_the_preparation(compose: dict[str, Any]) -> None:
    for name in PROCESSES:
        waits_for = compose["services"][name]["depends_on"]
        assert waits_for["migrate"]["condition"] == "service_completed_successfully", name
        assert waits_for["valkey"]["condition"] == "service_healthy", name


def test_every_queue_has_a_worker(compose: dict[str, Any]) -> None:
    for queue, number in QUEUES.items():
        command = compose["services"][queue]["command"]
        assert f"--queues={queue}" in command
        assert f"--concurrency={number}" in command


def test_what_is_waited_for_exists(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert set(service.get("depends_on", {})) <= set(compose["services"]), name


def test_passwords_come_from_the_environment_and_have_no_default(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        for variable, value in service.get("environment", {}).items():
            if variable == "GPUPLATFORM_PULL_SECRETS":
                continue  # The names of Secrets are not confidential.
            if "PASSWORD" in variable or "SECRET" in variable:
                assert value.startswith("${"), (name, variable)
                assert ":?" in value, (name, variable)
            for found in ADDRESS_WITH_PASSWORD.finditer(value):
                assert found["password"].startswith("${"), (name, variable)


def test_our_processes_share_one_image_without_rights(compose: dict[str, Any]) -> None:
    services = [compose["services"][name] for name in PROCESSES | {"migrate"}]

    assert {service["image"] for service in services} == {
        f"${{GPUPLATFORM_IMAGE:-{PLATFORM_IMAGE}}}"
    }
    assert all(service["read_only"] and service["cap_drop"] == ["ALL"] for service in services)


def test_only_loopback_is_published_by_default(compose: dict[str, Any]) -> None:
    ports = [port for one in compose["services"].values() for port in one.get("ports", [])]

    assert len(ports) == 2
    assert all(re.match(r"(\$\{NATS_LISTEN:-)?127\.0\.0\.1\}?:", port) for port in ports)


def test_the_images_run_as_a_number_that_is_not_root() -> None:
    users = re.findall(r"^USER (.+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)

    assert users == ["10001:10001"] * 2, "the sidecar's, which the echo's is made of, and ours"


def test_the_image_is_built_from_what_the_repository_has() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    kept = [line.removeprefix("!") for line in ignored if line.startswith("!")]

    assert [path for path in kept if not (ROOT / path).exists()] == []
