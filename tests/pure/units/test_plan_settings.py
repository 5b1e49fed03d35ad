"""The settings of pods in the plans of units."""

from dataclasses import replace

from gpuplatform.kube.kinds import Manifest
from gpuplatform.planning.plan import Absent, Action, Create, Patch, Plan
from gpuplatform.workloads.pod_settings import PodSettings
from tests.factories.inventory import POD_SETTINGS, live, running
from tests.factories.planned_units import observed_unit, unit_resource
from units.core.observed import ObservedUnit
from units.core.plan import plan_unit


def test_a_pull_secret_that_was_removed_is_removed_with_the_next_change_of_the_spec() -> None:
    with_secret = replace(POD_SETTINGS, pull_secrets=("registry",))
    [created] = deployment_writes(plan_unit(unit_resource(), of_settings(with_secret)))
    assert isinstance(created, Create)
    before = live(created.manifest, status=running(1))

    [changed] = deployment_writes(
        plan_unit(unit_resource(image="app:2"), of_settings(POD_SETTINGS, before))
    )

    pod_spec = created.manifest["spec"]["template"]["spec"]
    assert pod_spec["imagePullSecrets"] == [{"name": "registry"}]
    assert isinstance(changed, Patch)
    assert changed.patch["spec"]["template"]["spec"]["imagePullSecrets"] is None


def of_settings(settings: PodSettings, deployment: Manifest | None = None) -> ObservedUnit:
    return replace(observed_unit(deployment or Absent()), settings=settings)


def deployment_writes(plan: Plan) -> list[Action]:
    return [one for one in plan.actions if isinstance(one, Create | Patch)]
