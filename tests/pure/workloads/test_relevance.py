"""Relevant events: changes of the fields that a planner reads."""

from typing import Any

import pytest

from gpuplatform.kube.client import Listing
from gpuplatform.kube.kinds import DEPLOYMENT, FIELD_MANAGER, JOB, POD, SERVICE, Manifest
from gpuplatform.processes.event_filter import EventFilter

OWNER = [{"kind": "GPUUnit", "uid": "u", "controller": True}]


def child(*, status: Manifest | None = None, **changes: Any) -> Manifest:
    metadata = {"uid": "1", "name": "a", "generation": 1, "ownerReferences": OWNER}
    metadata["labels"] = {"unit": "a"}
    changed = changes.pop("metadata", {})
    return {
        "metadata": {**metadata, **changed},
        "spec": {"replicas": 1, **changes},
        "status": status or {},
    }


def waiting(reason: str) -> Manifest:
    state = {"waiting": {"reason": reason, "message": "no such image"}}
    return child(status={"phase": "Pending", "containerStatuses": [{"name": "c", "state": state}]})


AVAILABLE = {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}
REFUSED = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}


@pytest.mark.parametrize(
    ("kind", "seen"),
    [
        (DEPLOYMENT, child()),
        (DEPLOYMENT, child(status={"observedGeneration": 1, "unavailableReplicas": 1})),
        (POD, child(status={"phase": "Pending"})),
        (POD, waiting("ContainerCreating")),
        (SERVICE, child()),
    ],
    ids=["deployment", "observed-deployment", "pod", "pod-of-a-node", "service"],
)
def test_a_starting_object_is_not_relevant(kind: Any, seen: Manifest) -> None:
    events = EventFilter.of_children(kind)

    assert not events.is_relevant("ADDED", seen)
    assert not events.is_relevant("MODIFIED", seen)
    assert events.is_relevant("DELETED", seen)


@pytest.mark.parametrize(
    ("kind", "seen"),
    [
        (DEPLOYMENT, child(status=AVAILABLE)),
        (DEPLOYMENT, child(status={"conditions": [REFUSED]})),
        (DEPLOYMENT, child(metadata={"generation": 2})),
        (DEPLOYMENT, child(metadata={"labels": {}})),
        (DEPLOYMENT, child(metadata={"ownerReferences": []})),
        (DEPLOYMENT, child(metadata={"deletionTimestamp": "2026-01-31T12:00:00Z"})),
        (POD, waiting("ErrImagePull")),
        (POD, child(status={"phase": "Failed"})),
        (POD, child(metadata={"labels": {"unit": "b"}})),
        (SERVICE, child(type="LoadBalancer")),
        (JOB, child(status={"active": 1, "ready": 1})),
        (JOB, child(status={"conditions": [{"type": "Complete", "status": "True"}]})),
        (JOB, child(metadata={"generation": 2})),
        (JOB, child(metadata={"annotations": {"a": "b"}})),
    ],
)
def test_a_change_of_a_planner_input_is_relevant_once(kind: Any, seen: Manifest) -> None:
    events = EventFilter.of_children(kind)
    events.is_relevant("ADDED", child())

    assert events.is_relevant("MODIFIED", seen)
    assert not events.is_relevant("MODIFIED", seen)


def test_a_new_suspended_job_is_relevant_because_it_has_to_be_started() -> None:
    assert EventFilter.of_children(JOB).is_relevant("ADDED", child(suspend=True))


def test_the_readiness_of_a_pod_is_reported_by_its_deployment() -> None:
    events = EventFilter.of_children(POD)
    events.is_relevant("ADDED", child())
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}

    assert not events.is_relevant("MODIFIED", child(status=ready))


def test_the_revision_of_a_deployment_is_not_relevant() -> None:
    events = EventFilter.of_children(DEPLOYMENT)
    events.is_relevant("ADDED", child(status=AVAILABLE, metadata={"annotations": {}}))
    noted = {"deployment.kubernetes.io/revision": "1"}

    assert not events.is_relevant(
        "MODIFIED", child(status=AVAILABLE, metadata={"annotations": noted})
    )


def test_a_new_object_without_owner_is_relevant() -> None:
    assert EventFilter.of_children(SERVICE).is_relevant(
        "ADDED", child(metadata={"ownerReferences": []})
    )


def test_a_list_replaces_what_is_known() -> None:
    events = EventFilter.of_children(DEPLOYMENT)
    events.is_relevant("ADDED", child())
    events.reset(Listing([child(status=AVAILABLE)], "9"))

    assert not events.is_relevant("MODIFIED", child(status=AVAILABLE))

    events.reset(Listing([], "10"))

    assert events.is_relevant("MODIFIED", child())


def wrote(manager: str, subresource: str) -> list[Manifest]:
    return [{"manager": manager, "operation": "Update", "subresource": subresource}]


def test_a_status_of_the_planner_is_not_relevant() -> None:
    events = EventFilter.of_resources()
    by_us = {"managedFields": wrote(FIELD_MANAGER, "status"), "resourceVersion": "8"}

    assert events.is_relevant("ADDED", child())
    assert not events.is_relevant("MODIFIED", child(status={"phase": "Ready"}, metadata=by_us))


def test_a_status_of_another_client_is_relevant() -> None:
    events = EventFilter.of_resources()
    events.is_relevant("ADDED", child())
    by_them = {"managedFields": wrote("kubectl-edit", "status")}

    assert events.is_relevant("MODIFIED", child(status={"phase": "Ready"}, metadata=by_them))
    assert events.is_relevant("MODIFIED", child(status={"phase": "Failed"}, metadata=by_them))


@pytest.mark.parametrize(
    "changed",
    [
        {"generation": 2},
        {"annotations": {"a": "b"}},
        {"deletionTimestamp": "2026-01-31T12:00:00Z"},
        {"finalizers": ["example.com/keep"]},
    ],
)
def test_a_changed_resource_is_relevant(changed: Manifest) -> None:
    events = EventFilter.of_resources()
    events.is_relevant("ADDED", child())

    assert events.is_relevant("MODIFIED", child(metadata=changed))
