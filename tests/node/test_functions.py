"""Functions on the platform as `deploy/` installs it, with every network policy in force."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.controlplane.flags import NODES_PORT
from tests.contract.test_deploy import build
from tests.fakes import tcp_function
from tests.node import caller, installation, network
from tests.node.builds import all_built
from tests.node.cluster import NodeCluster
from tests.node.installation import (
    CALLERS,
    NATS_ADDRESS,
    NATS_MONITOR,
    NATS_PORT,
    POSTGRES_PORT,
    SERVERS,
    SYSTEM,
    VALKEY_PORT,
    Installation,
)
from tests.node.shipped import ECHO, write_images, write_nats

pytestmark = [pytest.mark.node, pytest.mark.long, pytest.mark.timeout(1500)]

INVOCATIONS = 100
PROBE = """\
import json, socket
from serverless.framework import Request, serve

def probe(request: Request) -> object:
    found = []
    for host, port in json.loads(request.body):
        try:
            socket.create_connection((host, port), 3).close()
            found.append(True)
        except OSError:
            found.append(False)
    return found

serve(probe)
"""
"""A function that responds with which addresses its container can connect to."""
CONNECT = """\
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), 3).close()
    print("open")
except OSError:
    print("closed")
"""
API_SERVER_PORT = NODES_PORT
LOAD_SECONDS = 120


@pytest.fixture(scope="module")
def platform(
    nodes: NodeCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    """The platform with functions, installed from `deploy/`."""
    folder = tmp_path_factory.mktemp("shipped")
    busybox = all_built().packages / "usr/bin/busybox"
    archives = write_images(busybox, folder / "images")
    archives.append(write_nats(folder / "images"))
    for node in nodes.nodes:
        node.import_images(archives)
    with installation.installed(nodes, folder / "overlay") as made:
        yield made
    nodes.check_alive()


Step = Callable[..., Any]


@pytest.fixture(scope="module")
def step(platform: Installation) -> Step:
    """A function that runs a step of a caller in the cluster, and returns its result."""
    source = Path(caller.__file__).read_text()

    def run(name: str, *arguments: Any) -> Any:
        given = (platform.service, platform.token, name, json.dumps(arguments))
        return json.loads(platform.python(CALLERS, "caller", source, *given))

    assert run("seed", 4) >= 4
    return run


def test_every_object_of_deploy_is_installed(platform: Installation) -> None:
    wanted = {
        (one["metadata"].get("namespace"), one["metadata"]["name"]): one["spec"]
        for one in build(platform.overlay)
        if one["kind"] == "NetworkPolicy"
    }

    listed = platform.kubectl("get", "networkpolicies", "-A", "-o", "yaml")

    found = {
        (one["metadata"]["namespace"], one["metadata"]["name"]): one["spec"]
        for one in yaml.safe_load(listed)["items"]
    }
    assert wanted.keys() <= found.keys()
    assert len(wanted) >= 10


def test_function_handles_all_invocations(step: Step) -> None:
    step("create", "echo", {"image": ECHO, "maxWorkers": 2, "concurrency": 4})

    ended = step("invoke", "echo", [f"payload {number}" for number in range(INVOCATIONS)])

    assert Counter(one["state"] for one in ended) == {"Succeeded": INVOCATIONS}
    assert [one["result"]["body"] for one in ended] == [
        f"payload {number}" for number in range(INVOCATIONS)
    ]


def test_worker_reaches_the_queue_and_nothing_else_of_the_platform(
    platform: Installation, step: Step, nodes: NodeCluster
) -> None:
    step("create", "probe", {"image": ECHO, "template": {"command": ["python", "-c", PROBE]}})
    web = platform.address(SYSTEM, "app.kubernetes.io/component=web")
    nats = platform.address(SERVERS, "app=nats")
    places = {
        "queue": (NATS_ADDRESS, NATS_PORT),
        "queue pod": (nats, NATS_PORT),
        "queue monitor": (nats, NATS_MONITOR),
        "API": (platform.service, 80),
        "API pod": (web, 8080),
        "metrics": (web, 9090),
        "database": (network.ADDRESS, POSTGRES_PORT),
        "broker": (network.ADDRESS, VALKEY_PORT),
        "Kubernetes": ("10.96.0.1", 443),
        "API server": (network.ADDRESS, API_SERVER_PORT),
        "kubelet": (nodes.nodes[0].address, 10250),
        "metadata": ("169.254.169.254", 80),
    }

    (ended,) = step("invoke", "probe", [json.dumps(list(places.values()))])

    reached = dict(zip(places, json.loads(ended["result"]["body"]), strict=True))
    assert {name for name, is_open in reached.items() if is_open} == {"queue", "queue pod"}


def test_processes_reach_only_what_they_need(platform: Installation) -> None:
    database = (network.ADDRESS, str(POSTGRES_PORT))
    api_server = (network.ADDRESS, str(API_SERVER_PORT))
    expected = {
        ("results", database): "open",
        ("results", (NATS_ADDRESS, str(NATS_PORT))): "open",
        ("results", api_server): "closed",
        ("beat", database): "open",
        ("beat", api_server): "closed",
        ("controller", api_server): "open",
    }

    found = {
        (process, place): platform.python(
            SYSTEM, f"deployment/gpu-platform-{process}", CONNECT, *place
        ).strip()
        for process, place in expected
    }

    assert found == expected


def test_stock_server_that_loads_is_a_function(step: Step) -> None:
    source = Path(tcp_function.__file__).read_text()
    variables = {"PORT": "8000", "LOAD_SECONDS": str(LOAD_SECONDS)}
    template = {
        "command": ["python", "-c", source],
        "envs": [{"name": name, "value": value} for name, value in variables.items()],
    }
    framework = {"port": 8000, "invokePath": "/v1/completions", "healthPath": "/health"}
    step("create", "model", {"image": ECHO, "template": template, "framework": framework})
    tokens = [f"token {number}" for number in range(50)]

    (ended,) = step("invoke", "model", [json.dumps({"tokens": tokens})])

    assert (ended["state"], ended["attempts"]) == ("Succeeded", 1)
    assert ended["result"]["contentType"] == "text/event-stream"
    events = ended["result"]["body"].split("\n\n")
    assert [json.loads(one.removeprefix("data: "))["text"] for one in events[:-2]] == tokens
    assert events[-2:] == ["data: [DONE]", ""]
