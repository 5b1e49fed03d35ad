"""Pullers: which pods keep the warm images, and what they report about the images."""

from dataclasses import replace
from typing import Any

import pytest

from gpuplatform.kube.kinds import Manifest
from gpuplatform.workloads.causes import StartupCause
from tests.conftest import GoldenFiles
from tests.factories.inventory import POD_SETTINGS
from tests.pure.units.test_manifests import text
from units.core.pullers import MAX_CREATED, Puller, images_of, plan_pullers, puller_pod
from units.phases import WarmImageState

PULLER = Puller(
    spec_name="h100-1g",
    node="gpu-node-1",
    images=("vllm/vllm-openai:v0.11.0", "registry.example.com/team/trainer:1.4"),
    pull_secrets=("registry",),
    tolerations=({"key": "nvidia.com/gpu", "operator": "Exists"},),
)
POD = puller_pod(PULLER, POD_SETTINGS)
REFUSED = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."}
RUNNING = {"state": {"running": {}}, "containerID": "containerd://1"}
NOT_STARTED = {
    "state": {"terminated": {"reason": "StartError", "exitCode": 128}},
    "containerID": "containerd://1",
}
CREATING = {"state": {"waiting": {"reason": "ContainerCreating"}}}
BACK_OFF = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}}
NOT_CREATED = {"state": {"waiting": {"reason": "CreateContainerError"}}}


def live(pod: Manifest = POD, status: Any = None, **metadata: Any) -> Manifest:
    changed = {**pod["metadata"], "uid": f"uid-{pod['metadata']['name']}", **metadata}
    return {**pod, "metadata": changed, "status": status or {}}


def with_first(status: Manifest) -> Manifest:
    return live(status={"containerStatuses": [{"name": "image-0", **status}]})


def names(pods: list[Manifest]) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods]


def test_the_puller_equals_its_golden_file(golden: GoldenFiles) -> None:
    golden("units/pod-puller.yaml").check(text(POD))


def test_a_puller_holds_no_gpu_and_mentions_no_stock() -> None:
    for container in POD["spec"]["containers"]:
        assert "nvidia.com/gpu" not in container["resources"]["limits"]
        assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in container["env"]


@pytest.mark.parametrize(
    "change",
    [
        {"spec_name": "other"},
        {"node": "gpu-node-2"},
        {"images": PULLER.images[:1]},
        {"pull_secrets": ()},
        {"tolerations": ()},
    ],
    ids=str,
)
def test_every_change_results_in_another_name(change: dict[str, Any]) -> None:
    changed = puller_pod(replace(PULLER, **change), POD_SETTINGS)

    assert changed["metadata"]["name"] != POD["metadata"]["name"]
    assert puller_pod(PULLER, POD_SETTINGS) == POD


def test_missing_pullers_are_created_and_others_are_deleted() -> None:
    other = puller_pod(replace(PULLER, node="gpu-node-2"), POD_SETTINGS)

    creates, deletes = plan_pullers([POD], [live(other)])

    assert [one.manifest for one in creates] == [POD]
    assert [(one.name, one.uid) for one in deletes] == [
        (other["metadata"]["name"], f"uid-{other['metadata']['name']}")
    ]


def test_an_existing_puller_needs_no_action() -> None:
    assert plan_pullers([POD], [live()]) == ([], [])
    assert plan_pullers([], []) == ([], [])


def test_a_puller_that_its_node_refused_is_replaced() -> None:
    creates, deletes = plan_pullers([POD], [live(status=REFUSED)])

    assert creates == []
    assert [one.name for one in deletes] == [POD["metadata"]["name"]]


def test_a_puller_whose_containers_cannot_start_stays() -> None:
    ended = live(status={"phase": "Failed", "containerStatuses": [NOT_STARTED]})

    assert plan_pullers([POD], [ended]) == ([], [])


def test_a_puller_that_is_being_deleted_is_neither_deleted_nor_created_again() -> None:
    ending = live(deletionTimestamp="2026-01-31T12:00:00Z")

    assert plan_pullers([POD], [ending]) == ([], [])
    assert plan_pullers([], [ending]) == ([], [])


def test_one_run_creates_a_limited_number_of_pullers() -> None:
    wanted = [
        puller_pod(replace(PULLER, node=f"n{number}"), POD_SETTINGS)
        for number in range(MAX_CREATED + 1)
    ]

    creates, _ = plan_pullers(wanted, [])

    assert [one.manifest for one in creates] == wanted[:MAX_CREATED]


def test_gpu_specs_take_turns() -> None:
    first, second, other = (
        puller_pod(replace(PULLER, node=node, spec_name=spec), POD_SETTINGS)
        for node, spec in (("n1", "a"), ("n2", "a"), ("n1", "b"))
    )

    creates, _ = plan_pullers([first, second, other], [])

    assert [one.manifest for one in creates] == [first, other, second]


@pytest.mark.parametrize(
    ("status", "state", "cause"),
    [
        (CREATING, WarmImageState.PULLING, ""),
        ({}, WarmImageState.PULLING, ""),
        (RUNNING, WarmImageState.PRESENT, ""),
        (NOT_STARTED, WarmImageState.PRESENT, ""),
        (NOT_CREATED, WarmImageState.PRESENT, ""),
        (BACK_OFF, WarmImageState.FAILED, StartupCause.IMAGE_PULL_FAILED),
    ],
    ids=["creating", "unknown", "running", "not started", "not created", "back-off"],
)
def test_the_state_of_an_image_is_the_state_of_its_container(
    status: Manifest, state: WarmImageState, cause: str
) -> None:
    first, second = images_of(POD, with_first(status))

    assert (first.image, first.state, first.cause) == (
        "docker.io/vllm/vllm-openai:v0.11.0",
        state,
        cause,
    )
    assert (first.spec_name, first.node) == ("h100-1g", "gpu-node-1")
    assert second.state == WarmImageState.PULLING


def test_a_refused_puller_fails_with_its_cause() -> None:
    assert {(one.state, one.cause) for one in images_of(POD, live(status=REFUSED))} == {
        (WarmImageState.FAILED, StartupCause.EVICTED)
    }
    assert {(one.state, one.cause) for one in images_of(POD, {}, "quota exceeded")} == {
        (WarmImageState.FAILED, StartupCause.POD_REJECTED)
    }


def test_a_puller_that_does_not_exist_yet_is_pulling() -> None:
    assert {one.state for one in images_of(POD, {})} == {WarmImageState.PULLING}
