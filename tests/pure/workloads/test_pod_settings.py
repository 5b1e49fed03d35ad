"""The settings of pods: pull secrets, and the hash of the settings that a pod contains."""

from dataclasses import replace

import pytest

from gpuplatform.kube.kinds import Manifest
from gpuplatform.workloads.pod_settings import PodSettings

SETTINGS = PodSettings("reserve:1", "sidecar:1", ("registry", "mirror"))


def pod(*images: str) -> Manifest:
    return {"containers": [{"name": f"c{n}", "image": image} for n, image in enumerate(images)]}


def test_pull_secrets_come_before_others_and_once() -> None:
    found = SETTINGS.pulls(("mine", "registry"))

    assert found == {
        "imagePullSecrets": [{"name": "registry"}, {"name": "mirror"}, {"name": "mine"}]
    }


def test_a_pod_without_pull_secrets_has_no_list() -> None:
    assert replace(SETTINGS, pull_secrets=()).pulls() == {}


@pytest.mark.parametrize(
    ("changed", "images", "differs"),
    [
        (replace(SETTINGS, reservation_image="reserve:2"), ("reserve:1",), True),
        (replace(SETTINGS, reservation_image="reserve:2"), ("app:1",), False),
        (replace(SETTINGS, sidecar_image="sidecar:2"), ("app:1", "sidecar:1"), True),
        (replace(SETTINGS, sidecar_image="sidecar:2"), ("reserve:1",), False),
        (replace(SETTINGS, pull_secrets=("registry",)), ("app:1",), True),
    ],
)
def test_the_hash_covers_the_settings_that_the_pod_contains(
    changed: PodSettings, images: tuple[str, ...], *, differs: bool
) -> None:
    mine = {SETTINGS.reservation_image: changed.reservation_image}
    mine |= {SETTINGS.sidecar_image: changed.sidecar_image}
    after = pod(*(mine.get(image, image) for image in images))

    assert (SETTINGS.hash_in(pod(*images)) != changed.hash_in(after)) is differs
