"""Source annotations are parsed and pods are matched to units, even if a user changed them."""

from typing import Any

import pytest

from gpuplatform.kube.kinds import DEPLOYMENT, JOB, ResourceKind
from gpuplatform.planning.view import ResourceView
from gpuplatform.workloads.holders import holds_gpu
from tests.factories.planned_units import SOURCE, UNIT_UID, unit_pod, unit_resource
from units.core.child import is_at_rest, possible_kinds, written_for
from units.core.names import GENERATION_ANNOTATION
from units.core.observed import own_pods
from units.core.sources import SourceReference, source_of


@pytest.mark.parametrize(
    ("spec", "generation", "kinds"),
    [
        pytest.param({}, 1, (DEPLOYMENT,), id="first-spec"),
        pytest.param({"template": {"restart": "never"}}, 1, (JOB,), id="first-spec-may-end"),
        pytest.param({}, 2, (DEPLOYMENT, JOB), id="changed-spec"),
        pytest.param({"template": 7}, 0, (DEPLOYMENT, JOB), id="unknown-generation"),
    ],
)
def test_only_a_changed_spec_can_have_required_both_kinds(
    spec: object, generation: int, kinds: tuple[ResourceKind, ...]
) -> None:
    assert possible_kinds(spec, generation) == kinds


def test_the_source_annotations_are_parsed() -> None:
    annotations = SourceReference("stock-a-001", "uid").annotations()

    found = source_of(unit_resource(metadata={"annotations": annotations}))

    assert found == SourceReference("stock-a-001", "uid")
    assert annotations == {
        "runtime.lokiwager.io/source-stock-name": "stock-a-001",
        "runtime.lokiwager.io/source-stock-namespace": "runtime-stock",
        "runtime.lokiwager.io/source-stock-uid": "uid",
    }


@pytest.mark.parametrize(
    "annotations",
    [
        None,
        [],
        "x",
        {},
        {**SOURCE.annotations(), "runtime.lokiwager.io/source-stock-uid": "x" * 37},
        {**SOURCE.annotations(), "runtime.lokiwager.io/source-stock-uid": ""},
        {**SOURCE.annotations(), "runtime.lokiwager.io/source-stock-uid": 7},
        {**SOURCE.annotations(), "runtime.lokiwager.io/source-stock-name": "a\x00"},
        {**SOURCE.annotations(), "runtime.lokiwager.io/source-stock-name": "x" * 254},
        {**SOURCE.annotations(), "runtime.lokiwager.io/source-stock-namespace": "elsewhere"},
    ],
)
def test_an_impossible_source_is_ignored(annotations: Any) -> None:
    assert source_of(unit_resource(metadata={"annotations": annotations})) is None


def test_a_resource_without_metadata_has_no_source() -> None:
    assert source_of({}) is None


def test_pods_are_distinguished_by_the_uid_of_their_unit() -> None:
    mine = unit_pod(unit_resource())
    others: list[Any] = [unit_pod(unit_resource(metadata={"uid": "x"})), {}, {"metadata": None}]

    assert own_pods(
        ResourceView.of(unit_resource(metadata={"uid": UNIT_UID})), [*others, mine]
    ) == [mine]


def test_a_pod_without_the_uid_label_is_matched_by_the_name() -> None:
    mine, others = unit_pod(unit_resource()), unit_pod(unit_resource("other"))
    for pod, name in ((mine, unit_resource()["metadata"]["name"]), (others, "other")):
        pod["metadata"]["labels"] = {"runtime.lokiwager.io/unit": name}

    assert own_pods(ResourceView.of(unit_resource()), [mine, others]) == [mine]


@pytest.mark.parametrize(
    ("status", "holds"),
    [
        ({"phase": "Pending"}, True),
        ({"phase": "Running"}, True),
        ({"phase": "Unknown"}, True),
        ({}, True),
        (None, True),
        ({"phase": "Succeeded"}, False),
        ({"phase": "Failed"}, False),
    ],
)
def test_a_pod_holds_its_gpu_until_it_has_ended(status: Any, holds: bool) -> None:
    assert holds_gpu({"status": status}) is holds


@pytest.mark.parametrize(
    ("mark", "generation"),
    [("7", 7), ("", 0), ("x", 0), ("-1", 0), ("9" * 5000, 0), (7, 7), (None, 0)],
)
def test_the_generation_a_deployment_was_written_for(mark: Any, generation: int) -> None:
    annotations = {GENERATION_ANNOTATION: mark}

    assert written_for({"metadata": {"annotations": annotations}}) == generation
    assert written_for({"metadata": None}) == 0


@pytest.mark.parametrize(
    ("replicas", "mark", "rests"), [(0, "1", True), (1, "1", False), (0, "0", False)]
)
def test_a_unit_is_at_rest_if_its_deployment_is_at_zero_for_its_generation(
    replicas: int, mark: str, rests: bool
) -> None:
    deployment = {
        "metadata": {"annotations": {GENERATION_ANNOTATION: mark}},
        "spec": {"replicas": replicas},
    }

    assert is_at_rest(ResourceView.of(unit_resource()), DEPLOYMENT, deployment) is rests
