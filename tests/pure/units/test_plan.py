"""The rules of `plan_unit`, one test each; `test_plan_handover` has those of the hand-over."""

from typing import Any

import pytest

from gpuplatform.kube.kinds import DEPLOYMENT, JOB, SERVICE, Manifest
from gpuplatform.planning.plan import (
    Absent,
    Apply,
    Create,
    Delete,
    Patch,
    Plan,
    Status,
    Unknown,
)
from gpuplatform.workloads.causes import StartupCause
from gpuplatform.workloads.owner import FAILED_SECONDS, PROGRESS_SECONDS, SOON_SECONDS
from gpuplatform.workloads.pods import STOCK_PRIORITY_CLASS, UNIT_PRIORITY_CLASS
from gpuplatform.workloads.releases import (
    SPEC_HASH_ANNOTATION,
    TEMPLATE_VERSION,
    TEMPLATE_VERSION_ANNOTATION,
)
from tests.factories.inventory import running, waiting_pod
from tests.factories.planned_units import (
    PORTS,
    UNIT_UID,
    observed_unit,
    stock_resource,
    unit_deployment,
    unit_pod,
    unit_resource,
    unit_service,
)
from units.core.names import GENERATION_ANNOTATION
from units.core.observed import ObservedUnit
from units.core.plan import plan_unit
from units.core.sources import SourceGone
from units.phases import UnitPhase, UnitReason

URL = "http://unit-trainer.runtime-instance.svc.cluster.local:8080"


def reported(plan: Plan) -> tuple[str, str, str]:
    """Return phase, reason and message of the status."""
    [ready] = status_of(plan).conditions
    return status_of(plan).phase, ready.reason, ready.message


def status_of(plan: Plan) -> Status:
    assert plan.status is not None
    return plan.status


def settled(unit: Manifest, **more: Any) -> ObservedUnit:
    """Return the observation of a unit whose desired objects exist and run."""
    service: Any = unit_service(unit) if unit["spec"].get("template") else Absent()
    return observed_unit(unit_deployment(unit), service, [unit_pod(unit, phase="Running")], **more)


def test_a_terminating_unit_is_left_to_the_garbage_collector() -> None:
    unit = unit_resource(metadata={"deletionTimestamp": "2026-01-31T12:00:00Z"})

    assert plan_unit(unit, settled(unit)) == Plan()


@pytest.mark.parametrize(
    ("change", "field", "value"),
    [
        ({"memory": "lots"}, "spec.memory", "lots"),
        ({"cpu": "1n"}, "spec.cpu", "1n"),
        ({"image": "BusyBox"}, "spec.image", "BusyBox"),
        ({"placement": {"nodeSelector": {"a b": "c"}}}, "spec.placement.nodeSelector", "a b"),
        ({"suspend": "yes"}, "spec.suspend", "boolean"),
        ({"volumes": []}, "spec.volumes", "not a known field"),
    ],
)
def test_an_invalid_spec_fails_with_field_and_value(
    change: dict[str, Any], field: str, value: str
) -> None:
    unit = unit_resource()

    plan = plan_unit(unit_resource(**change), settled(unit))

    assert reported(plan)[:2] == (UnitPhase.FAILED, UnitReason.INVALID_SPEC)
    assert field in reported(plan)[2]
    assert value in reported(plan)[2]
    assert not plan.actions, "what runs keeps running"


@pytest.mark.parametrize("name", ["a.b", "a" * 59])
def test_an_unusable_name_is_an_invalid_spec(name: str) -> None:
    plan = plan_unit(unit_resource(name), observed_unit())

    assert reported(plan)[:2] == (UnitPhase.FAILED, UnitReason.INVALID_SPEC)
    assert reported(plan)[2].startswith("metadata.name: ")
    assert not plan.actions


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"access": {"primaryPort": "grpc"}}, "'grpc'"),
        ({"access": {"primaryPort": "http"}, "template": {}}, "the template has no ports"),
    ],
)
def test_an_access_error_fails_with_the_field(change: dict[str, Any], why: str) -> None:
    plan = plan_unit(unit_resource(**change), observed_unit())

    phase, reason, message = reported(plan)
    assert (phase, reason) == (UnitPhase.FAILED, UnitReason.ACCESS_CONFIG_INVALID)
    assert message.startswith("spec.access.primaryPort: ")
    assert why in message
    assert not plan.actions


def test_an_access_error_does_not_prevent_a_stop() -> None:
    unit = unit_resource()
    broken = unit_resource(access={"primaryPort": "grpc"}, suspend=True)

    plan = plan_unit(broken, settled(unit))

    assert [action.kind for action in plan.actions] == [DEPLOYMENT]
    assert reported(plan)[1] == UnitReason.STOPPING


def test_access_is_not_checked_for_stock() -> None:
    stock = stock_resource(access={"primaryPort": "grpc"})
    stock["status"] = {"phase": "Progressing"}

    assert reported(plan_unit(stock, observed_unit()))[1] == UnitReason.STOCK_NOT_READY


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"deployment": Unknown("forbidden")}, UnitReason.UNIT_DEPLOYMENT_SYNC_FAILED),
        ({"service": Unknown("forbidden")}, UnitReason.UNIT_SERVICE_SYNC_FAILED),
        ({"pods": Unknown("forbidden")}, UnitReason.POD_STATUS_SYNC_FAILED),
    ],
)
def test_a_failed_read_is_reported_and_nothing_is_done(
    given: dict[str, Any], reason: UnitReason
) -> None:
    plan = plan_unit(unit_resource(), observed_unit(**given))

    assert not plan.actions
    assert reported(plan)[:2] == (UnitPhase.FAILED, reason)
    assert "forbidden" in reported(plan)[2]
    assert plan.requeue_after == PROGRESS_SECONDS


@pytest.mark.parametrize("unread", ["service", "pods"])
def test_a_stop_needs_only_the_deployment(unread: str) -> None:
    unit = unit_resource(suspend=True)
    given: dict[str, Any] = {"deployment": unit_deployment(unit), unread: Unknown("forbidden")}

    plan = plan_unit(unit, observed_unit(**given))

    [action] = plan.actions
    assert isinstance(action, Patch)
    assert action.patch["spec"]["replicas"] == 0
    assert reported(plan)[0] == UnitPhase.FAILED


def test_the_last_known_fields_stay_while_reads_fail() -> None:
    known = {"readyReplicas": 1, "serviceName": "unit-trainer", "accessURL": URL}
    unit = unit_resource(status=known)

    plan = plan_unit(unit, observed_unit(deployment=Unknown("forbidden")))

    assert status_of(plan).fields == known


OTHER_OWNER = [{"uid": "somebody-else", "controller": True, "kind": "GPUUnit", "name": "other"}]


@pytest.mark.parametrize("owners", [[], OTHER_OWNER, None])
@pytest.mark.parametrize("kind", ["Deployment", "Service"])
def test_an_object_of_another_owner_is_a_name_conflict(kind: str, owners: Any) -> None:
    unit = unit_resource()
    foreign = unit_deployment(unit) if kind == "Deployment" else unit_service(unit)
    foreign["metadata"] |= {"ownerReferences": owners, "labels": {"app": "theirs"}}

    given: dict[str, Any] = {kind.lower(): foreign}

    plan = plan_unit(unit, observed_unit(**given))

    assert not plan.actions
    phase, reason, message = reported(plan)
    assert (phase, reason) == (UnitPhase.FAILED, UnitReason.NAME_CONFLICT)
    assert f"{kind} 'unit-trainer'" in message
    assert plan.requeue_after == FAILED_SECONDS, "it clears by itself once the object is gone"


def test_objects_of_the_previous_unit_of_the_name_are_awaited() -> None:
    unit = unit_resource()
    left = unit_deployment(unit_resource(metadata={"uid": "the-one-before"}))

    plan = plan_unit(unit, observed_unit(left))

    assert not plan.actions
    assert reported(plan)[:2] == (UnitPhase.PROGRESSING, UnitReason.UNIT_PROGRESSING)


def test_a_foreign_service_is_no_conflict_without_ports() -> None:
    unit = unit_resource(template={})
    foreign = unit_service(unit)
    foreign["metadata"]["ownerReferences"] = OTHER_OWNER

    plan = plan_unit(unit, observed_unit(unit_deployment(unit), foreign))

    assert not plan.actions
    assert reported(plan)[0] == UnitPhase.READY


def test_an_active_unit_gets_a_deployment_and_then_a_service_without_force() -> None:
    plan = plan_unit(unit_resource(), observed_unit())

    first, second = plan.actions
    assert isinstance(first, Create)
    assert first.kind == DEPLOYMENT
    assert first.manifest["spec"]["replicas"] == 1
    assert isinstance(second, Apply)
    assert (second.kind, second.force) == (SERVICE, False)


def test_a_unit_whose_pod_is_not_ready_is_progressing() -> None:
    unit = unit_resource()
    made = plan_unit(unit, observed_unit())
    live = unit_deployment(unit)
    starting = {**live, "status": {**live["status"], "availableReplicas": 0}}

    plan = plan_unit(unit, observed_unit(starting, unit_service(unit)))

    assert (made.status, made.requeue_after) == (None, SOON_SECONDS)
    assert reported(plan)[:2] == (UnitPhase.PROGRESSING, UnitReason.UNIT_PROGRESSING)
    assert status_of(plan).fields == {
        "readyReplicas": 0,
        "serviceName": "unit-trainer",
        "accessURL": None,
        "startSteps": None,
    }


def test_a_unit_with_a_status_reports_that_it_starts() -> None:
    plan = plan_unit(unit_resource(status={"phase": "Progressing"}), observed_unit())

    assert reported(plan)[:2] == (UnitPhase.PROGRESSING, UnitReason.UNIT_PROGRESSING)


def test_stock_gets_a_deployment_and_no_service() -> None:
    stock = {**stock_resource(template=PORTS), "status": {"phase": "Progressing"}}

    plan = plan_unit(stock, observed_unit())

    assert [(type(a), a.kind) for a in plan.actions] == [(Create, DEPLOYMENT)]
    assert reported(plan)[:2] == (UnitPhase.PROGRESSING, UnitReason.STOCK_NOT_READY)
    assert status_of(plan).fields == {
        "readyReplicas": 0,
        "serviceName": None,
        "accessURL": None,
        "startSteps": None,
    }


def test_an_own_service_of_stock_is_deleted_by_uid() -> None:
    stock = stock_resource()
    service = unit_service(stock)

    plan = plan_unit(stock, observed_unit(unit_deployment(stock), service))

    metadata = service["metadata"]
    assert plan.actions == [
        Delete(SERVICE, "runtime-stock", metadata["name"], metadata["uid"]),
    ]


def test_the_service_is_deleted_with_the_last_port() -> None:
    unit = unit_resource(template={"args": ["a"]})

    plan = plan_unit(unit, observed_unit(unit_deployment(unit), unit_service(unit_resource())))

    assert [type(action) for action in plan.actions] == [Delete]
    assert status_of(plan).fields["accessURL"] is None


def test_changed_ports_of_the_service_are_restored() -> None:
    unit = unit_resource()
    service = unit_service(unit)
    service["spec"]["ports"] = [{"name": "http", "port": 1, "targetPort": 1, "protocol": "TCP"}]

    plan = plan_unit(unit, observed_unit(unit_deployment(unit), service))

    [action] = plan.actions
    assert isinstance(action, Apply)
    assert (action.kind, action.force) == (SERVICE, True)
    assert action.manifest["metadata"]["uid"] == service["metadata"]["uid"]


@pytest.mark.parametrize(
    ("unit", "reason"),
    [
        (unit_resource(), UnitReason.UNIT_READY),
        (unit_resource(template={}), UnitReason.UNIT_READY),
        (stock_resource(), UnitReason.STOCK_READY),
    ],
)
def test_a_settled_unit_has_no_actions(unit: Manifest, reason: UnitReason) -> None:
    plan = plan_unit(unit, settled(unit))

    assert not plan.actions
    assert reported(plan)[:2] == (UnitPhase.READY, reason)
    assert status_of(plan).conditions[0].status == "True"
    assert plan.requeue_after is None


@pytest.mark.parametrize(
    ("access", "url"),
    [
        ({"scheme": "https"}, URL.replace("http:", "https:")),
        ({"primaryPort": "metrics"}, URL.replace("8080", "9090")),
    ],
)
def test_the_access_url_has_the_primary_port_and_the_scheme(
    access: dict[str, str], url: str
) -> None:
    ports = [*PORTS["ports"], {"name": "metrics", "port": 9090}]
    unit = unit_resource(access=access, template={"ports": ports})

    assert status_of(plan_unit(unit, settled(unit))).fields["accessURL"] == url


def _scaled(found: Manifest) -> None:
    found["spec"]["replicas"] = 3


def _other_image(found: Manifest) -> None:
    found["spec"]["template"]["spec"]["containers"][0]["image"] = "evil:1"


def _other_priority(found: Manifest) -> None:
    found["spec"]["template"]["spec"]["priorityClassName"] = "system-node-critical"


def _may_evict_without_stock(found: Manifest) -> None:
    found["spec"]["template"]["spec"]["priorityClassName"] = UNIT_PRIORITY_CLASS


def _label_removed(found: Manifest) -> None:
    del found["metadata"]["labels"]["app.kubernetes.io/managed-by"]


def _rolling(found: Manifest) -> None:
    found["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}


def _annotation_removed(found: Manifest) -> None:
    del found["metadata"]["annotations"]


@pytest.mark.parametrize(
    "meddle",
    [
        _scaled,
        _other_image,
        _other_priority,
        _may_evict_without_stock,
        _label_removed,
        _rolling,
        _annotation_removed,
    ],
)
def test_drift_is_corrected_on_the_version_that_was_read(meddle: Any) -> None:
    unit = unit_resource()
    found = unit_deployment(unit)
    meddle(found)

    plan = plan_unit(unit, observed_unit(found, unit_service(unit)))

    [action] = plan.actions
    assert isinstance(action, Patch)
    assert action.patch["metadata"]["uid"] == found["metadata"]["uid"]
    assert action.patch["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]
    assert reported(plan)[0] == UnitPhase.PROGRESSING


def test_a_value_of_an_empty_variable_is_drift() -> None:
    unit = unit_resource(template={**PORTS, "envs": [{"name": "DEBUG"}]})
    found = unit_deployment(unit)
    [container] = found["spec"]["template"]["spec"]["containers"]
    [debug] = [one for one in container["env"] if one["name"] == "DEBUG"]
    debug["value"] = "1"

    plan = plan_unit(unit, observed_unit(found, unit_service(unit)))

    [action] = plan.actions
    assert isinstance(action, Patch)
    [wanted] = action.patch["spec"]["template"]["spec"]["containers"]
    assert {"name": "DEBUG"} in wanted["env"]


def test_a_patch_removes_fields_of_the_previous_spec() -> None:
    """A merge patch removes only the fields that are null."""
    before = unit_resource(
        placement={
            "nodeSelector": {"zone": "a", "kept": "x"},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
        }
    )
    after = unit_resource(placement={"nodeSelector": {"kept": "x"}})
    live = unit_deployment(before)

    plan = plan_unit(after, observed_unit(live, unit_service(after)))

    [action] = plan.actions
    assert isinstance(action, Patch)
    pod = action.patch["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"zone": None, "kept": "x"}
    assert pod["tolerations"] is None
    assert action.patch["spec"]["strategy"] == {"type": "Recreate", "rollingUpdate": None}
    assert "selector" not in action.patch["spec"], "it cannot be changed"


def test_fields_of_other_clients_stay() -> None:
    unit = unit_resource()
    found = unit_deployment(unit)
    found["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = "3"
    found["spec"]["revisionHistoryLimit"] = 10
    found["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = "Always"

    assert not plan_unit(unit, observed_unit(found, unit_service(unit))).actions


def of_release(version: int, *, spec_hash: str | None = None, replicas: int = 1) -> Manifest:
    """Return the unit's Deployment as the release with this template version created it."""
    found = unit_deployment(unit_resource(), replicas=replicas)
    found["spec"]["template"]["spec"]["restartPolicy"] = "SomethingElse"
    found["metadata"]["annotations"][TEMPLATE_VERSION_ANNOTATION] = str(version)
    if spec_hash is not None:
        found["metadata"]["annotations"][SPEC_HASH_ANNOTATION] = spec_hash
    return found


def plan_of(found: Manifest) -> Plan:
    unit = unit_resource()
    return plan_unit(unit, observed_unit(found, unit_service(unit), source=SourceGone(True)))


@pytest.mark.parametrize("version", [TEMPLATE_VERSION - 1, TEMPLATE_VERSION + 1])
def test_a_new_release_restarts_no_pod(version: int) -> None:
    plan = plan_of(of_release(version))

    assert not plan.actions
    assert reported(plan)[0] == UnitPhase.READY


def test_an_older_template_is_replaced_with_the_next_change_of_the_spec() -> None:
    [action] = plan_of(of_release(TEMPLATE_VERSION - 1, spec_hash="another")).actions

    assert isinstance(action, Patch)
    assert "containers" in action.patch["spec"]["template"]["spec"]


def test_a_newer_template_is_never_replaced() -> None:
    assert not plan_of(of_release(TEMPLATE_VERSION + 1, spec_hash="another")).actions


@pytest.mark.parametrize("version", [TEMPLATE_VERSION - 1, TEMPLATE_VERSION + 1])
def test_a_unit_of_another_release_can_be_started(version: int) -> None:
    found = of_release(version, replicas=0)

    [action] = plan_of(found).actions

    assert isinstance(action, Patch)
    assert action.patch == {
        "metadata": {
            "annotations": {GENERATION_ANNOTATION: "1"},
            "uid": found["metadata"]["uid"],
            "resourceVersion": "41",
        },
        "spec": {
            "replicas": 1,
            "template": {"spec": {"priorityClassName": UNIT_PRIORITY_CLASS}},
        },
    }


def test_access_and_suspension_do_not_restart_the_pod() -> None:
    before = unit_deployment(unit_resource())
    unit = unit_resource(access={"scheme": "https"})

    assert not plan_unit(unit, observed_unit(before, unit_service(unit))).actions


@pytest.mark.parametrize(
    "status",
    [{"observedGeneration": 0}, {"updatedReplicas": 0}, {"replicas": 2, "updatedReplicas": 2}],
    ids=["old generation", "an older pod", "one too many"],
)
def test_ready_refers_to_the_current_generation_only(status: dict[str, Any]) -> None:
    unit = unit_resource()
    found = unit_deployment(unit, status={**running(1), **status})

    plan = plan_unit(unit, observed_unit(found, unit_service(unit)))

    assert reported(plan)[0] == UnitPhase.PROGRESSING


def test_a_changing_unit_is_not_ready_while_its_old_pod_runs() -> None:
    unit = unit_resource(image="app:2", metadata={"generation": 2})

    plan = plan_unit(unit, observed_unit(unit_deployment(unit_resource()), unit_service(unit)))

    assert reported(plan)[0] == UnitPhase.PROGRESSING
    assert status_of(plan).observed_generation == 2


@pytest.mark.parametrize("unit", [unit_resource(), stock_resource()], ids=["active", "stock"])
def test_a_pod_that_cannot_start_fails_the_unit_with_the_cause(
    unit: Manifest,
) -> None:
    waiting = waiting_pod("ErrImagePull", "not found")
    waiting["metadata"]["labels"] = unit_pod(unit)["metadata"]["labels"]
    found = unit_deployment(unit, status=running(1, available=0))

    service: Any = unit_service(unit) if unit["spec"].get("template") else Absent()

    plan = plan_unit(unit, observed_unit(found, service, [waiting]))

    assert not plan.actions
    assert reported(plan)[:2] == (UnitPhase.FAILED, UnitReason.POD_STARTUP_FAILED)
    assert "not found" in reported(plan)[2]
    assert plan.requeue_after == FAILED_SECONDS


@pytest.mark.parametrize("unit", [unit_resource(), stock_resource()], ids=["unit", "stock"])
def test_an_unreachable_node_is_the_cause_and_is_named(unit: Manifest) -> None:
    conditions = [
        {"type": "ContainersReady", "status": "True"},
        {"type": "Ready", "status": "False"},
    ]
    lost = unit_pod(unit, phase="Running", conditions=conditions)
    lost["spec"] = {"nodeName": "gpu-node-3"}
    deployment = unit_deployment(unit, status={**running(1), "availableReplicas": 0})

    service = settled(unit).service
    plan = plan_unit(unit, observed_unit(deployment, service, [lost]))

    assert plan.status is not None
    assert (plan.status.phase, plan.status.cause) == (
        UnitPhase.PROGRESSING,
        StartupCause.NODE_UNREACHABLE,
    )
    assert "gpu-node-3" in plan.status.conditions[0].message


def test_a_pod_of_the_previous_unit_does_not_count() -> None:
    unit = stock_resource()
    old = waiting_pod("ErrImagePull", "not found")
    old["metadata"]["labels"] = unit_pod(unit_resource(metadata={"uid": "x"}))["metadata"][
        "labels"
    ]
    found = unit_deployment(unit, status=running(1, available=0))

    assert reported(plan_unit(unit, observed_unit(found, pods=[old])))[0] == UnitPhase.PROGRESSING


def test_each_refused_action_has_its_own_reason() -> None:
    plan = plan_unit(unit_resource(), observed_unit())

    reasons = {kind: status.conditions[0].reason for kind, status in plan.on_error.items()}
    assert reasons == {
        SERVICE: UnitReason.UNIT_SERVICE_SYNC_FAILED,
        DEPLOYMENT: UnitReason.UNIT_DEPLOYMENT_SYNC_FAILED,
        JOB: UnitReason.UNIT_JOB_SYNC_FAILED,
    }


def test_every_object_has_the_unit_as_its_controller() -> None:
    for action in plan_unit(unit_resource(), observed_unit()).actions:
        assert isinstance(action, Apply | Create)
        [owner] = action.manifest["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (UNIT_UID, True)


def test_stock_never_preempts() -> None:
    stock = stock_resource()

    [action] = plan_unit(stock, observed_unit(source=SourceGone(True))).actions

    assert isinstance(action, Create)
    pod = action.manifest["spec"]["template"]["spec"]
    assert pod["priorityClassName"] == STOCK_PRIORITY_CLASS
