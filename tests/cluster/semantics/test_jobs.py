"""Jobs: their pods, how they end, and how they are suspended and deleted."""

from datetime import datetime
from typing import Any

import pytest

from gpuplatform.clock import parse_rfc3339
from gpuplatform.kube.kinds import JOB, POD, Manifest
from tests.cluster.world import MERGE, World, condition, container

pytestmark = pytest.mark.cluster
NEVER: dict[str, Any] = {
    "backoffLimit": 0,
    "podFailurePolicy": {
        "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]
    },
}
RUNS = ("sleep", "infinity")


def job(name: str, *command: str, restart: str = "Never", **spec: Any) -> Manifest:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "restartPolicy": restart,
                    "containers": [{**container(), "command": list(command or RUNS)}],
                },
            },
            **spec,
        },
    }


def deaf(name: str) -> Manifest:
    """Return a Job whose program ignores SIGTERM, so that it ends with exit code 137."""
    made = job(name, **NEVER)
    spec = made["spec"]["template"]["spec"]
    spec["terminationGracePeriodSeconds"] = 1
    spec["containers"][0]["env"] = [{"name": "SIMULATOR_SIGTERM", "value": "ignore"}]
    return made


def pods(world: World, name: str) -> list[Manifest]:
    return world.list(POD, f"app={name}")


def running(world: World, name: str) -> Manifest:
    def probe() -> Manifest | None:
        found = pods(world, name)
        is_up = len(found) == 1 and found[0]["status"].get("phase") == "Running"
        return found[0] if is_up else None

    return world.until(probe)


def ended(world: World, name: str, type_: str) -> Manifest:
    def probe() -> Manifest | None:
        found = world.get(JOB, name)
        return found if condition(found, type_).get("status") == "True" else None

    return world.until(probe)


def created(found: Manifest) -> datetime:
    return parse_rfc3339(found["metadata"]["creationTimestamp"])


def reasons(found: Manifest) -> dict[str, str]:
    return {one["type"]: one["reason"] for one in found["status"]["conditions"]}


def test_a_job_has_defaults_and_a_generated_selector(world: World) -> None:
    made = world.create(JOB, job("one"))

    spec, uid = made["spec"], made["metadata"]["uid"]
    defaults = ("parallelism", "completions", "backoffLimit", "suspend", "podReplacementPolicy")
    assert [spec[name] for name in defaults] == [1, 1, 6, False, "TerminatingOrFailed"]
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    labels = spec["template"]["metadata"]["labels"]
    assert labels["batch.kubernetes.io/job-name"] == "one"
    assert labels["app"] == "one"
    failing = world.create(JOB, job("two", **NEVER))
    assert failing["spec"]["podReplacementPolicy"] == "Failed"
    [rule] = failing["spec"]["podFailurePolicy"]["rules"]
    assert rule["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]


def test_a_job_whose_program_ends_well_is_complete(world: World) -> None:
    world.create(JOB, job("one", "true", **NEVER))

    found = ended(world, "one", "Complete")

    assert found["status"]["succeeded"] == 1
    assert found["status"]["completionTime"]
    assert reasons(found) == {
        "SuccessCriteriaMet": "CompletionsReached",
        "Complete": "CompletionsReached",
    }
    [pod] = pods(world, "one")
    assert pod["status"]["phase"] == "Succeeded"
    assert not pod["metadata"].get("finalizers")


def test_a_job_without_retries_fails_with_its_program(world: World) -> None:
    world.create(JOB, job("one", "sh", "-c", "exit 3", **NEVER))

    found = ended(world, "one", "Failed")

    assert found["status"]["failed"] == 1
    assert reasons(found) == {
        "FailureTarget": "BackoffLimitExceeded",
        "Failed": "BackoffLimitExceeded",
    }
    [pod] = pods(world, "one")
    [status] = pod["status"]["containerStatuses"]
    assert status["state"]["terminated"]["exitCode"] == 3


def test_a_job_on_failure_restarts_its_container_up_to_the_limit(world: World) -> None:
    world.create(JOB, job("one", "false", restart="OnFailure", backoffLimit=1))

    found = ended(world, "one", "Failed")

    assert reasons(found)["Failed"] == "BackoffLimitExceeded"
    world.until(lambda: not pods(world, "one"))


@pytest.mark.lasts(seconds=12)
def test_a_failed_pod_is_replaced_after_ten_seconds(world: World) -> None:
    world.create(JOB, job("one", "false", backoffLimit=1))

    found = ended(world, "one", "Failed")

    assert found["status"]["failed"] == 2
    first, second = sorted(pods(world, "one"), key=created)
    [status] = first["status"]["containerStatuses"]
    finished = parse_rfc3339(status["state"]["terminated"]["finishedAt"])
    assert 10 <= (created(second) - finished).total_seconds() < 20


def test_a_suspended_job_has_no_pod_until_it_is_resumed(world: World) -> None:
    world.create(JOB, job("one", suspend=True, **NEVER))
    found = ended(world, "one", "Suspended")
    assert "startTime" not in found["status"]
    assert not pods(world, "one")

    world.patch(JOB, "one", {"spec": {"suspend": False}})

    running(world, "one")
    resumed = world.get(JOB, "one")
    assert condition(resumed, "Suspended")["status"] == "False"
    assert resumed["status"]["startTime"]


def test_a_suspended_job_deletes_its_pod_and_has_not_failed(world: World) -> None:
    world.create(JOB, job("one", **NEVER))
    running(world, "one")

    world.patch(JOB, "one", {"spec": {"suspend": True}})

    found = ended(world, "one", "Suspended")
    world.until(lambda: not pods(world, "one"))
    assert not condition(found, "Failed")
    assert not found["status"].get("failed")
    world.patch(JOB, "one", {"spec": {"suspend": False}})
    running(world, "one")


def test_a_pod_that_a_user_deletes_fails_the_job(world: World) -> None:
    world.create(JOB, deaf("one"))
    pod = running(world, "one")

    world.delete(POD, pod["metadata"]["name"])

    assert reasons(ended(world, "one", "Failed"))["Failed"] == "BackoffLimitExceeded"


@pytest.mark.lasts(seconds=12)
def test_a_disrupted_pod_is_replaced_and_is_no_failure(world: World) -> None:
    world.create(JOB, deaf("one"))
    first = running(world, "one")
    disrupted = {"type": "DisruptionTarget", "status": "True", "reason": "Test", "message": "-"}
    name = first["metadata"]["name"]
    conditions = [*first["status"]["conditions"], disrupted]
    world.patch(POD, name, {"status": {"conditions": conditions}}, "status")

    world.delete(POD, name)

    def replaced() -> bool:
        found = [pod["metadata"]["name"] for pod in pods(world, "one")]
        return bool(found) and name not in found

    world.until(replaced)
    assert not world.get(JOB, "one")["status"].get("failed")


def test_the_deletion_of_a_job_keeps_its_pods_by_default(world: World) -> None:
    for name in ("one", "two"):
        world.create(JOB, job(name, **NEVER))
        running(world, name)
    world.http("DELETE", world.path(JOB, "one"))
    world.delete(JOB, "two")

    world.until(lambda: not pods(world, "two"))
    [pod] = pods(world, "one")
    world.until(lambda: not pods(world, "one")[0]["metadata"].get("ownerReferences"))
    assert pod["status"]["phase"] == "Running"


def test_a_finished_job_is_deleted_after_its_time_to_live(world: World) -> None:
    world.create(JOB, job("one", "true", ttlSecondsAfterFinished=1))

    world.until(lambda: not world.list(JOB))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"completions": 2}, "spec.completions"),
        ({"template": {"metadata": {"labels": {"app": "x"}}}}, "spec.template"),
        ({"podFailurePolicy": None}, "spec.podFailurePolicy"),
    ],
    ids=["completions", "template", "policy"],
)
def test_a_field_of_a_job_is_immutable(world: World, change: Manifest, field: str) -> None:
    world.create(JOB, job("one", **NEVER))

    reply = world.http("PATCH", world.path(JOB, "one"), {"spec": change}, MERGE)

    assert (reply.status, reply.fields) == (422, [field])
