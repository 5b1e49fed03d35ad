"""The directory, the user and the end of the process, and the annotations of its pod."""

from typing import Any

import pytest

from gpuplatform.formats.model import json_path
from gpuplatform.workloads.template import PodTemplate
from tests.factories.template_pods import container_of, invalid_fields, pod_of


def test_a_process_has_its_directory() -> None:
    assert container_of({"workingDir": "/work space/$(A)"})["workingDir"] == "/work space/$(A)"
    assert "workingDir" not in container_of({})


@pytest.mark.parametrize(
    ("template", "is_reservation", "seconds"),
    [
        ({}, False, 30),
        ({"terminationGracePeriodSeconds": 3600}, False, 3600),
        ({"terminationGracePeriodSeconds": 3600}, True, 1),
    ],
)
def test_a_process_has_time_to_end(
    template: dict[str, Any], is_reservation: bool, seconds: int
) -> None:
    pod = pod_of(template, is_reservation=is_reservation)

    assert pod["terminationGracePeriodSeconds"] == seconds


def test_a_process_has_its_user_and_groups() -> None:
    given = {"runAsUser": 1000, "runAsGroup": 0, "fsGroup": 2000, "readOnlyRoot": True}
    template = {"securityContext": given}

    assert container_of(template)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "runAsUser": 1000,
        "runAsGroup": 0,
        "readOnlyRootFilesystem": True,
    }
    assert pod_of(template)["securityContext"] == {
        "seccompProfile": {"type": "RuntimeDefault"},
        "fsGroup": 2000,
    }
    assert container_of({"securityContext": {}}) == container_of({})


def test_annotations_are_sorted() -> None:
    template = PodTemplate.parse({"annotations": {"b": "1", "a.b/c": ""}})

    assert [*template.annotations] == ["a.b/c", "b"]


@pytest.mark.parametrize(
    ("template", "field"),
    [
        ({"workingDir": ""}, "workingDir"),
        ({"workingDir": "a"}, "workingDir"),
        ({"workingDir": "/a\x00"}, "workingDir"),
        ({"workingDir": "/" + "a" * 1024}, "workingDir"),
        ({"terminationGracePeriodSeconds": 0}, "terminationGracePeriodSeconds"),
        ({"terminationGracePeriodSeconds": 3601}, "terminationGracePeriodSeconds"),
        ({"terminationGracePeriodSeconds": "9"}, "terminationGracePeriodSeconds"),
        ({"securityContext": {"runAsUser": -1}}, "securityContext.runAsUser"),
        ({"securityContext": {"runAsGroup": 2**31}}, "securityContext.runAsGroup"),
        ({"securityContext": {"fsGroup": "1"}}, "securityContext.fsGroup"),
        ({"securityContext": {"readOnlyRoot": 1}}, "securityContext.readOnlyRoot"),
        ({"securityContext": {"privileged": True}}, "securityContext.privileged"),
        ({"securityContext": {"capabilities": {}}}, "securityContext.capabilities"),
        ({"annotations": []}, "annotations"),
        ({"annotations": {f"a{n}": "x" * 32768 for n in range(2)}}, "annotations"),
        ({"annotations": {f"a{n}": "" for n in range(101)}}, "annotations"),
        ({"annotations": {"a": 1}}, "annotations.a"),
    ],
)
def test_invalid_values_are_rejected_with_their_field(
    template: dict[str, Any], field: str
) -> None:
    assert invalid_fields(template) == [field]


@pytest.mark.parametrize(
    "key",
    [
        *("", "a b", "/a", "a/", "A/b", "a/b/c"),
        *("runtime.lokiwager.io/spec-hash", "kubectl.kubernetes.io/restartedAt"),
        *("cdi.k8s.io/gpu", "nvidia.cdi.k8s.io/a", "k8s.v1.cni.cncf.io/networks"),
        *("devices.nri.io/container.a", "devices.noderesource.dev/pod", "run.oci.handler"),
        *("ovn.kubernetes.io/ip_address", "k8s.ovn.org/pod-networks"),
        "container.apparmor.security.beta.kubernetes.io/runtime-worker",
        *("io.kubernetes.cri-o.Devices", "cpu-quota.crio.io", "irq-load-balancing.crio.io/a"),
        *("io.katacontainers.config.hypervisor.path", "cni.projectcalico.org/ipAddrs"),
    ],
)
def test_annotations_that_grant_something_are_rejected(key: str) -> None:
    [field] = invalid_fields({"annotations": {key: "x"}})

    assert field == json_path(("annotations", key))


@pytest.mark.parametrize(
    "key",
    [
        "cluster-autoscaler.kubernetes.io/safe-to-evict",
        *("prometheus.io/scrape", "karpenter.sh/do-not-disrupt", "note", "mycdi.k8s.iox/a"),
    ],
)
def test_other_annotations_are_accepted(key: str) -> None:
    assert PodTemplate.parse({"annotations": {key: "x"}}).annotations == {key: "x"}
