"""The nodes of units and their images, from lists of pods and nodes."""

from typing import Any

import pytest

from gpuplatform.kube.kinds import Manifest
from units.core.names import UNIT_UID_LABEL
from units.core.nodes import images_by_node, nodes_of_units


def pod(uid: str = "u1", node: str = "n1", **metadata: Any) -> Manifest:
    return {
        "metadata": {"labels": {UNIT_UID_LABEL: uid}, **metadata},
        "spec": {"nodeName": node},
    }


def node(images: Any, name: str = "n1") -> Manifest:
    return {"metadata": {"name": name}, "status": {"images": images}}


def test_the_node_of_a_unit_is_the_node_of_its_pod() -> None:
    terminating = pod(node="n2", deletionTimestamp="2026-01-31T12:00:00Z")

    assert nodes_of_units([pod(), terminating, pod("u2", "n3")]) == {"u1": "n1", "u2": "n3"}


@pytest.mark.parametrize(
    "unknown",
    [pod(node=""), pod(uid=""), {}, {"metadata": {"labels": 3}, "spec": []}],
    ids=["not scheduled", "of no unit", "empty", "malformed"],
)
def test_a_pod_without_a_unit_or_a_node_is_ignored(unknown: Manifest) -> None:
    assert nodes_of_units([unknown]) == {}


def test_all_names_of_all_images_are_complete_and_sorted() -> None:
    images = [
        {"names": ["docker.io/library/busybox:1.36", "busybox:1.36"]},
        {"names": ["10.77.0.1:5000/app:1"], "sizeBytes": 3},
    ]

    assert images_by_node([node(images)]) == {
        "n1": ["10.77.0.1:5000/app:1", "docker.io/library/busybox:1.36"]
    }


@pytest.mark.parametrize(
    "images",
    [None, [], [{}], [{"names": None}], [{"names": [3, "a\x00b", "a" * 2000]}], "busybox"],
    ids=str,
)
def test_a_node_without_usable_names_has_no_known_images(images: Any) -> None:
    assert images_by_node([node(images)]) == {"n1": []}
