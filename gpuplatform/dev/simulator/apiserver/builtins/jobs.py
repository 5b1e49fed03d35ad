"""Default values, generated selectors and validation of Jobs.

Indexed Jobs and the fields that the platform does not use are not simulated.
"""

from collections.abc import Iterator
from typing import Final

from gpuplatform.dev.simulator.apiserver.errors import (
    FieldError,
    invalid_value,
    not_simulated,
    required,
    unsupported,
)
from gpuplatform.dev.simulator.apiserver.objects import Manifest

JOB_TRACKING: Final = "batch.kubernetes.io/job-tracking"
"""Finalizer of pods that the Job controller has not counted yet."""

_LABELS: Final = ("batch.kubernetes.io/controller-uid", "controller-uid")
_NAMES: Final = ("batch.kubernetes.io/job-name", "job-name")
_NOT_SIMULATED: Final = (
    *("activeDeadlineSeconds", "backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"),
    "managedBy",
)
_IMMUTABLE: Final = ("completions", "selector", "template", "completionMode", "podFailurePolicy")


def set_job_defaults(job: Manifest) -> None:
    """Set the default values of a Job without its pod template."""
    spec = job["spec"]
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    policy = spec.get("podFailurePolicy")
    spec.setdefault("podReplacementPolicy", "Failed" if policy else "TerminatingOrFailed")
    for rule in (policy or {}).get("rules", ()):
        for pattern in rule.get("onPodConditions", ()):
            pattern.setdefault("status", "True")
    job.setdefault("status", {})


def generate_selector(job: Manifest) -> None:
    """Set the selector of a new Job and the labels of its pods, which contain its UID."""
    metadata, spec = job["metadata"], job["spec"]
    labels = spec["template"]["metadata"].setdefault("labels", {})
    labels |= dict.fromkeys(_LABELS, metadata["uid"]) | dict.fromkeys(_NAMES, metadata["name"])
    spec["selector"] = {"matchLabels": {_LABELS[0]: metadata["uid"]}}


def job_errors(job: Manifest, old: Manifest | None) -> Iterator[FieldError]:
    """Yield the validation errors of a Job.

    Raises:
        ApiError: 501 if the Job uses a feature that is not simulated.
    """
    spec = job["spec"]
    used = next((name for name in _NOT_SIMULATED if name in spec), "")
    if used or spec["completionMode"] != "NonIndexed" or spec["manualSelector"]:
        raise not_simulated(f"{used or 'an indexed Job or a manual selector'} of a Job")
    policy, path = spec["template"]["spec"]["restartPolicy"], "spec.template.spec.restartPolicy"
    if policy == "Always":
        yield required(path, 'valid values: "OnFailure", "Never"')
    if spec.get("podFailurePolicy") is not None:
        if policy != "Never":
            detail = 'only "Never" is supported when podFailurePolicy is specified'
            yield invalid_value(path, policy, detail)
        if spec["podReplacementPolicy"] != "Failed":
            yield unsupported(
                "spec.podReplacementPolicy", spec["podReplacementPolicy"], ("Failed",)
            )
    for name in _IMMUTABLE if old else ():
        if spec.get(name) != (old or {})["spec"].get(name):
            yield invalid_value(f"spec.{name}", spec.get(name), "field is immutable")
