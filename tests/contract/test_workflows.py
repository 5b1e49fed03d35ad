"""The hosted checks run what a contributor runs, and an image is released from a tag alone."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

WORKFLOWS = Path(__file__).parents[2] / ".github" / "workflows"
NAMES = ("checks", "release")


def read(name: str) -> dict[str, Any]:
    """Return a workflow; YAML 1.1 reads the key `on` as true."""
    text = (WORKFLOWS / f"{name}.yaml").read_text()
    workflow: dict[str, Any] = yaml.safe_load(re.sub(r"^on:", '"on":', text, flags=re.MULTILINE))
    return workflow


def test_pull_requests_run_what_a_contributor_runs() -> None:
    workflow = read("checks")

    assert "pull_request" in workflow["on"]
    assert ".ci/run" in [step.get("run") for step in workflow["jobs"]["checks"]["steps"]]


def test_an_image_is_released_from_a_tag_that_passed_the_checks() -> None:
    workflow = read("release")

    assert workflow["on"] == {"push": {"tags": ["v*"]}}
    assert workflow["jobs"]["image"]["needs"] == "checks"
    pushes = [step for step in workflow["jobs"]["image"]["steps"] if "with" in step]
    assert any(step["with"].get("push") is True for step in pushes)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_may_write_but_the_job_that_releases(name: str) -> None:
    workflow = read(name)

    assert workflow["permissions"] == {"contents": "read"}
    writers = [
        job
        for job, content in workflow["jobs"].items()
        if "write" in (content.get("permissions") or {}).values()
    ]
    assert writers == (["image"] if name == "release" else [])
