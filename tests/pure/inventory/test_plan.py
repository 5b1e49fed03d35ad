"""The rules of `plan_pool`, one test each."""

from dataclasses import replace
from typing import Any

import pytest

from gpuplatform.kube.kinds import DEPLOYMENT, SERVICE, Manifest
from gpuplatform.planning.plan import (
    Absent,
    Apply,
    Delete,
    Observation,
    Patch,
    Plan,
    Present,
    Status,
    Unknown,
)
from gpuplatform.workloads.causes import StartupCause
from gpuplatform.workloads.owner import Children
from gpuplatform.workloads.pod_settings import PodSettings
from gpuplatform.workloads.releases import (
    SPEC_HASH_ANNOTATION,
    TEMPLATE_VERSION,
    TEMPLATE_VERSION_ANNOTATION,
)
from inventory.core.plan import plan_pool
from inventory.phases import PoolPhase, PoolReason
from tests.factories.inventory import (
    HTTP_PORT,
    POD_SETTINGS,
    live_deployment,
    live_service,
    pod,
    pool_resource,
    running,
    waiting_pod,
)

PORTS = {"ports": [HTTP_PORT]}
OTHER_OWNER = [{"uid": "somebody-else", "controller": True}]
PRESENT_NOTHING: Observation[Any] = Present(())


def observed(
    deployment: Observation[Manifest] | Manifest = Absent(),  # noqa: B008 - frozen
    service: Observation[Manifest] | Manifest = Absent(),  # noqa: B008 - frozen
    pods: Observation[Any] | list[Manifest] = PRESENT_NOTHING,
) -> Children:
    return Children(
        deployment=Present(deployment) if isinstance(deployment, dict) else deployment,
        service=Present(service) if isinstance(service, dict) else service,
        pods=Present(tuple(pods)) if isinstance(pods, list) else pods,
        settings=POD_SETTINGS,
    )


def settled(pool: Manifest, **status: Any) -> Children:
    """Return the observation of a pool whose desired objects exist and run."""
    wanted = running(pool["spec"]["replicas"])
    service: Observation[Manifest] | Manifest = Absent()
    if pool["spec"].get("template", {}).get("ports"):
        service = live_service(pool)
    return observed(live_deployment(pool, status={**wanted, **status}), service)


def reported(plan: Plan) -> tuple[str, str, str]:
    """Return phase, reason and message of the status."""
    assert plan.status is not None
    [ready] = plan.status.conditions
    return plan.status.phase, ready.reason, ready.message


def status_of(plan: Plan) -> Status:
    assert plan.status is not None
    return plan.status


def test_a_terminating_pool_is_left_to_the_garbage_collector() -> None:
    pool = pool_resource(metadata={"deletionTimestamp": "2026-01-31T12:00:00Z"})

    plan = plan_pool(pool, observed(live_deployment(pool)))

    assert plan == Plan()


@pytest.mark.parametrize(
    ("spec", "field", "value"),
    [
        ({"memory": "lots"}, "spec.memory", "lots"),
        ({"image": "BusyBox"}, "spec.image", "BusyBox"),
        ({"template": {"ports": [{"name": "HTTP", "port": 1}]}}, "spec.template.ports[0]", "HTTP"),
    ],
)
def test_an_invalid_spec_fails_with_field_and_value(
    spec: dict[str, Any], field: str, value: str
) -> None:
    plan = plan_pool(pool_resource(**spec), observed())

    phase, reason, message = reported(plan)
    assert (phase, reason) == (PoolPhase.FAILED, PoolReason.INVALID_SPEC)
    assert field in message
    assert value in message
    assert not plan.actions


@pytest.mark.parametrize("name", ["a.b", "a" * 59])
def test_an_unusable_name_is_an_invalid_spec(name: str) -> None:
    plan = plan_pool(pool_resource(name), observed())

    assert reported(plan)[:2] == (PoolPhase.FAILED, PoolReason.INVALID_SPEC)
    assert reported(plan)[2].startswith("metadata.name: ")
    assert not plan.actions


def test_an_invalid_spec_changes_no_running_pod() -> None:
    pool = pool_resource(memory="lots")

    plan = plan_pool(
        pool, observed(live_deployment(pool_resource()), live_service(pool_resource()))
    )

    assert not plan.actions


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (observed(deployment=Unknown("forbidden")), PoolReason.DEPLOYMENT_SYNC_FAILED),
        (observed(service=Unknown("forbidden")), PoolReason.SERVICE_SYNC_FAILED),
        (observed(pods=Unknown("forbidden")), PoolReason.POD_STATUS_SYNC_FAILED),
    ],
)
def test_a_failed_read_is_reported_and_nothing_is_done(
    given: Children, reason: PoolReason
) -> None:
    plan = plan_pool(pool_resource(), given)

    assert not plan.actions
    assert reported(plan)[:2] == (PoolPhase.FAILED, reason)
    assert "forbidden" in reported(plan)[2]
    assert plan.requeue_after


def test_the_last_known_counts_stay_while_reads_fail() -> None:
    pool = pool_resource(status={"available": 2, "allocated": 0, "serviceName": "pool-h100"})

    plan = plan_pool(pool, observed(deployment=Unknown("forbidden")))

    assert status_of(plan).fields == pool["status"]


def test_an_unknown_service_is_never_deleted() -> None:
    pool = pool_resource()

    plan = plan_pool(pool, observed(live_deployment(pool), Unknown("forbidden")))

    assert not plan.actions


@pytest.mark.parametrize("owners", [[], OTHER_OWNER, None])
def test_a_deployment_of_another_owner_is_a_name_conflict(owners: Any) -> None:
    pool = pool_resource()
    foreign = live_deployment(pool)
    foreign["metadata"] |= {"ownerReferences": owners, "labels": {"app": "theirs"}}

    plan = plan_pool(pool, observed(foreign))

    assert not plan.actions
    phase, reason, message = reported(plan)
    assert (phase, reason) == (PoolPhase.FAILED, PoolReason.NAME_CONFLICT)
    assert "Deployment 'pool-h100'" in message
    assert plan.requeue_after, "it clears by itself once the object is gone"


def test_a_foreign_service_is_a_conflict_with_ports() -> None:
    pool = pool_resource(template=PORTS)
    foreign = live_service(pool)
    foreign["metadata"]["ownerReferences"] = OTHER_OWNER

    plan = plan_pool(pool, observed(service=foreign))

    assert not plan.actions
    assert reported(plan)[1] == PoolReason.NAME_CONFLICT
    assert "Service 'pool-h100'" in reported(plan)[2]


def test_a_foreign_service_is_no_conflict_without_ports() -> None:
    pool = pool_resource()
    foreign = live_service(pool)
    foreign["metadata"]["ownerReferences"] = OTHER_OWNER

    plan = plan_pool(pool, observed(live_deployment(pool, status=running(2)), foreign))

    assert not plan.actions
    assert reported(plan)[0] == PoolPhase.READY


def test_a_name_conflict_ends_with_the_object() -> None:
    pool = pool_resource(
        status={"phase": "Failed", "conditions": [{"type": "Ready", "reason": "NameConflict"}]}
    )

    plan = plan_pool(pool, observed())

    assert [type(action) for action in plan.actions] == [Apply]
    assert reported(plan)[0] == PoolPhase.PROGRESSING


def test_absent_objects_are_created_without_force() -> None:
    pool = pool_resource(template=PORTS)

    plan = plan_pool(pool, observed())

    assert [(a.kind, a.force) for a in plan.actions if isinstance(a, Apply)] == [
        (SERVICE, False),
        (DEPLOYMENT, False),
    ]
    assert reported(plan)[:2] == (PoolPhase.PROGRESSING, PoolReason.DEPLOYMENT_PROGRESSING)


def test_a_pool_without_ports_has_no_service() -> None:
    plan = plan_pool(pool_resource(), observed())

    assert [action.kind for action in plan.actions] == [DEPLOYMENT]
    assert status_of(plan).fields["serviceName"] is None


def test_the_service_is_deleted_by_uid_with_the_last_port() -> None:
    pool = pool_resource()
    service = live_service(pool)

    plan = plan_pool(pool, observed(live_deployment(pool, status=running(2)), service))

    assert plan.actions == [
        Delete(SERVICE, "runtime-pools", "pool-h100", service["metadata"]["uid"])
    ]


def test_changed_ports_of_the_service_are_restored() -> None:
    pool = pool_resource(template=PORTS)
    service = live_service(pool)
    service["spec"]["ports"] = [{"name": "http", "port": 1, "targetPort": 1, "protocol": "TCP"}]

    plan = plan_pool(pool, observed(live_deployment(pool, status=running(2)), service))

    [action] = plan.actions
    assert isinstance(action, Apply)
    assert (action.kind, action.force) == (SERVICE, True)


def test_a_settled_pool_has_no_actions() -> None:
    pool = pool_resource(template=PORTS)

    plan = plan_pool(pool, settled(pool))

    assert not plan.actions
    assert reported(plan)[:2] == (PoolPhase.READY, PoolReason.DEPLOYMENT_READY)
    assert plan.requeue_after is None


def _scaled(found: Manifest) -> None:
    found["spec"]["replicas"] = 7


def _other_image(found: Manifest) -> None:
    found["spec"]["template"]["spec"]["containers"][0]["image"] = "evil:1"


def _label_removed(found: Manifest) -> None:
    del found["metadata"]["labels"]["app.kubernetes.io/managed-by"]


def _rolling(found: Manifest) -> None:
    found["spec"]["strategy"] = {"type": "RollingUpdate"}


def _annotation_removed(found: Manifest) -> None:
    del found["metadata"]["annotations"]


@pytest.mark.parametrize(
    "meddle", [_scaled, _other_image, _label_removed, _rolling, _annotation_removed]
)
def test_drift_is_corrected_on_the_version_that_was_read(meddle: Any) -> None:
    pool = pool_resource()
    found = live_deployment(pool, status=running(2))
    meddle(found)

    plan = plan_pool(pool, observed(found))

    [action] = plan.actions
    assert isinstance(action, Apply)
    assert action.force
    assert action.manifest["metadata"]["uid"] == found["metadata"]["uid"]
    assert reported(plan)[0] == PoolPhase.PROGRESSING


def test_fields_of_other_clients_stay() -> None:
    pool = pool_resource()
    found = live_deployment(pool, status=running(2))
    found["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = "3"
    found["spec"]["revisionHistoryLimit"] = 10
    found["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = "Always"

    plan = plan_pool(pool, observed(found))

    assert not plan.actions


def test_a_variable_removed_from_the_spec_is_removed_from_the_pods() -> None:
    before = pool_resource(template={"envs": [{"name": "A", "value": "1"}]})

    plan = plan_pool(pool_resource(), observed(live_deployment(before, status=running(2))))

    [action] = plan.actions
    assert isinstance(action, Apply)
    env = action.manifest["spec"]["template"]["spec"]["containers"][0]["env"]
    assert "A" not in [variable["name"] for variable in env]


def of_release(version: int, *, spec_hash: str | None = None, replicas: int = 2) -> Manifest:
    """Return the pool's Deployment as the release with this template version created it."""
    found = live_deployment(pool_resource(), status=running(replicas))
    found["spec"]["replicas"] = replicas
    found["spec"]["template"]["spec"]["restartPolicy"] = "SomethingElse"
    found["metadata"]["annotations"][TEMPLATE_VERSION_ANNOTATION] = str(version)
    if spec_hash is not None:
        found["metadata"]["annotations"][SPEC_HASH_ANNOTATION] = spec_hash
    return found


@pytest.mark.parametrize("version", [TEMPLATE_VERSION - 1, TEMPLATE_VERSION + 1])
def test_the_template_of_another_release_stays_while_the_spec_is_the_same(version: int) -> None:
    plan = plan_pool(pool_resource(), observed(of_release(version)))

    assert not plan.actions
    assert reported(plan)[0] == PoolPhase.READY


def test_an_older_template_is_replaced_with_the_next_change_of_the_spec() -> None:
    older = of_release(TEMPLATE_VERSION - 1, spec_hash="another")

    plan = plan_pool(pool_resource(), observed(older))

    assert [type(action) for action in plan.actions] == [Apply]


def test_a_newer_template_is_never_replaced() -> None:
    newer = of_release(TEMPLATE_VERSION + 1, spec_hash="another")

    plan = plan_pool(pool_resource(), observed(newer))

    assert not plan.actions


@pytest.mark.parametrize("version", [TEMPLATE_VERSION - 1, TEMPLATE_VERSION + 1])
def test_a_pool_of_another_release_can_be_scaled(version: int) -> None:
    found = of_release(version, replicas=1)

    plan = plan_pool(pool_resource(), observed(found))

    [action] = plan.actions
    assert isinstance(action, Patch)
    assert action.patch == {
        "metadata": {"uid": found["metadata"]["uid"], "resourceVersion": "41"},
        "spec": {"replicas": 2},
    }


@pytest.mark.parametrize(
    "settings",
    [
        replace(POD_SETTINGS, reservation_image="reserve:2"),
        replace(POD_SETTINGS, pull_secrets=("registry",)),
    ],
    ids=["image", "pull secret"],
)
def test_a_changed_setting_applies_with_the_next_change_of_the_spec(settings: PodSettings) -> None:
    found = live_deployment(pool_resource(), status=running(2))
    changed = pool_resource(memory="1Gi", metadata={"generation": 2})

    same = plan_pool(pool_resource(), replace(observed(found), settings=settings))
    [applied] = plan_pool(changed, replace(observed(found), settings=settings)).actions

    assert not same.actions
    assert isinstance(applied, Apply)
    pod_spec = applied.manifest["spec"]["template"]["spec"]
    assert pod_spec["containers"][0]["image"] == settings.reservation_image
    assert pod_spec.get("imagePullSecrets", []) == [{"name": n} for n in settings.pull_secrets]


def test_a_setting_that_the_pod_does_not_contain_leaves_drift_to_be_corrected() -> None:
    found = live_deployment(pool_resource(), status=running(2))
    found["spec"]["template"]["spec"]["restartPolicy"] = "SomethingElse"
    other = replace(POD_SETTINGS, sidecar_image="sidecar:2")

    plan = plan_pool(pool_resource(), replace(observed(found), settings=other))

    assert [type(action) for action in plan.actions] == [Apply]


@pytest.mark.parametrize("version", ["", "x", "-1", "9" * 5000])
def test_an_invalid_template_version_is_drift(version: str) -> None:
    found = live_deployment(pool_resource(), status=running(2))
    found["metadata"]["annotations"][TEMPLATE_VERSION_ANNOTATION] = version

    plan = plan_pool(pool_resource(), observed(found))

    assert [type(action) for action in plan.actions] == [Apply]


@pytest.mark.parametrize(
    "status",
    [
        {"observedGeneration": 0},
        {"observedGeneration": None},
        {"updatedReplicas": 1},
        {"replicas": 3, "updatedReplicas": 3},
    ],
    ids=["old generation", "no generation", "an older pod", "one too many"],
)
def test_ready_refers_to_the_current_generation_only(status: dict[str, Any]) -> None:
    pool = pool_resource()

    plan = plan_pool(pool, settled(pool, **status))

    assert reported(plan)[0] == PoolPhase.PROGRESSING


def test_a_changing_pool_is_not_ready_while_old_pods_run() -> None:
    before = pool_resource(image="busybox:1")

    plan = plan_pool(
        pool_resource(image="busybox:2", metadata={"generation": 2}),
        observed(live_deployment(before, status=running(2))),
    )

    assert reported(plan)[0] == PoolPhase.PROGRESSING
    assert status_of(plan).observed_generation == 2
    assert status_of(plan).conditions[0].status == "False"


def test_a_failure_of_the_previous_spec_is_not_kept() -> None:
    earlier = {
        "type": "Ready",
        "status": "False",
        "reason": "PodStartupFailed",
        "message": "Pod a: container x: ErrImagePull: old-image: not found",
        "observedGeneration": 1,
    }
    pool = pool_resource(metadata={"generation": 2}, status={"conditions": [earlier]})
    pods = [waiting_pod("ImagePullBackOff", 'Back-off pulling image "new-image"')]
    found = live_deployment(pool, status=running(2, available=0))

    plan = plan_pool(pool, observed(found, pods=pods))

    assert "new-image" in reported(plan)[2]


def test_scaled_to_zero_is_empty() -> None:
    pool = pool_resource(replicas=0)

    plan = plan_pool(pool, settled(pool))

    assert reported(plan)[:2] == (PoolPhase.EMPTY, PoolReason.SCALED_TO_ZERO)
    assert status_of(plan).fields["allocated"] == 0
    assert plan.requeue_after is None


def test_scaling_to_zero_is_progress_until_the_pods_are_gone() -> None:
    pool = pool_resource(replicas=0)

    plan = plan_pool(pool, settled(pool, replicas=2, updatedReplicas=2))

    assert reported(plan)[0] == PoolPhase.PROGRESSING


@pytest.mark.parametrize(("desired", "available"), [(1, 3), (0, 2), (2, 2)])
def test_no_pod_counts_as_allocated_while_a_pool_is_scaled_down(
    desired: int, available: int
) -> None:
    pool = pool_resource(replicas=desired)

    plan = plan_pool(pool, settled(pool, availableReplicas=available))

    assert status_of(plan).fields["available"] == available
    assert status_of(plan).fields["allocated"] == 0


def test_counts_are_those_of_the_deployment() -> None:
    pool = pool_resource(replicas=5, template=PORTS)

    plan = plan_pool(pool, settled(pool, availableReplicas=3))

    assert status_of(plan).fields == {
        "available": 3,
        "allocated": 2,
        "replicas": 5,
        "selector": "runtime.lokiwager.io/pool=h100",
        "serviceName": "pool-h100",
    }
    assert reported(plan)[0] == PoolPhase.PROGRESSING


def test_a_pod_that_cannot_start_fails_the_pool_with_the_cause() -> None:
    pool = pool_resource()
    found = live_deployment(pool, status=running(2, available=1))
    words = "failed to resolve nowhere/x:1: not found"

    plan = plan_pool(pool, observed(found, pods=[waiting_pod("ErrImagePull", words)]))

    phase, reason, message = reported(plan)
    assert (phase, reason) == (PoolPhase.FAILED, PoolReason.POD_STARTUP_FAILED)
    assert words in message
    assert plan.requeue_after


def test_enough_available_pods_make_a_pool_ready() -> None:
    pool = pool_resource()

    plan = plan_pool(
        pool, observed(live_deployment(pool, status=running(2)), pods=[pod(phase="Failed")])
    )

    assert reported(plan)[0] == PoolPhase.READY


def test_the_error_of_a_failed_pull_stays_during_the_back_off() -> None:
    pool = pool_resource()
    found = live_deployment(pool, status=running(2, available=0))
    cause = plan_pool(pool, observed(found, pods=[waiting_pod("ErrImagePull", "not found")]))
    [ready] = status_of(cause).conditions
    pool["status"] = {
        "conditions": [
            {
                "type": "Ready",
                "status": ready.status,
                "reason": ready.reason,
                "message": ready.message,
                "observedGeneration": ready.observed_generation,
            }
        ]
    }

    later = plan_pool(
        pool,
        observed(
            found, pods=[waiting_pod("ImagePullBackOff", 'Back-off pulling image "nowhere/x:1"')]
        ),
    )

    assert reported(later) == reported(cause)


def test_an_alternating_failed_pull_has_one_status() -> None:
    pool = pool_resource()
    found = live_deployment(pool, status=running(2, available=0))
    cause = waiting_pod("ErrImagePull", "nowhere/x:1: not found")
    wait = waiting_pod("ImagePullBackOff", 'Back-off pulling image "nowhere/x:1"')
    seen = set()

    for now in [cause, wait] * 5:
        plan = plan_pool(pool, observed(found, pods=[now]))
        seen.add(reported(plan))
        [ready] = status_of(plan).conditions
        condition = {"type": "Ready", "reason": ready.reason, "message": ready.message}
        pool["status"] = {"conditions": [{**condition, "observedGeneration": 1}]}

    [(phase, reason, message)] = seen
    assert (phase, reason) == (PoolPhase.FAILED, PoolReason.POD_STARTUP_FAILED)
    assert "nowhere/x:1: not found" in message


def test_each_refused_action_has_its_own_reason() -> None:
    plan = plan_pool(pool_resource(template=PORTS), observed())

    reasons = {kind: status.conditions[0].reason for kind, status in plan.on_error.items()}
    assert reasons == {
        SERVICE: PoolReason.SERVICE_SYNC_FAILED,
        DEPLOYMENT: PoolReason.DEPLOYMENT_SYNC_FAILED,
    }


def test_a_delay_of_pods_is_the_cause_while_the_pool_progresses() -> None:
    pool = pool_resource()
    conditions = [
        {"type": "Ready", "status": "False"},
        {"type": "ContainersReady", "status": "True"},
    ]
    silent = pod(phase="Running", conditions=conditions)
    silent["spec"] = {"nodeName": "gpu-node-1"}
    found = live_deployment(pool, status=running(2, available=1))

    status = plan_pool(pool, observed(found, pods=[silent])).status

    assert status is not None
    assert (status.phase, status.cause) == (PoolPhase.PROGRESSING, StartupCause.NODE_UNREACHABLE)
