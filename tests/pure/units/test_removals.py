"""A merge patch of a Deployment removes fields that the template no longer has."""

from typing import Any

from gpuplatform.kube.kinds import Manifest
from gpuplatform.planning.plan import Patch
from gpuplatform.workloads.objects import POD_ANNOTATIONS_ANNOTATION
from tests.factories.planned_units import observed_unit, unit_deployment, unit_resource
from units.core.plan import plan_unit


def test_a_patch_removes_fields_of_the_previous_template() -> None:
    template = {
        "imagePullSecrets": [{"name": "registry"}],
        "securityContext": {"fsGroup": 1},
        "annotations": {"gone": "1", "kept": "1"},
    }
    live = unit_deployment(unit_resource(template=template))
    live["spec"]["template"]["metadata"]["annotations"]["theirs"] = "1"

    def patch(template: dict[str, Any]) -> Manifest:
        after = unit_resource(template=template)
        actions = plan_unit(after, observed_unit(live)).actions
        [patch] = [one.patch for one in actions if isinstance(one, Patch)]
        return patch

    kept = patch({"annotations": {"kept": "2"}})
    none = patch({"args": ["a"]})

    pod = kept["spec"]["template"]["spec"]
    assert pod["imagePullSecrets"] is None
    assert pod["securityContext"]["fsGroup"] is None
    assert kept["spec"]["template"]["metadata"]["annotations"] == {"gone": None, "kept": "2"}
    assert kept["metadata"]["annotations"][POD_ANNOTATIONS_ANNOTATION] == "kept"
    assert none["spec"]["template"]["metadata"]["annotations"] == {"gone": None, "kept": None}
    assert none["metadata"]["annotations"][POD_ANNOTATIONS_ANNOTATION] is None
