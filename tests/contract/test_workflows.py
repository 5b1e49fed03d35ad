"""CI runs the steps of `.ci/run`; images are released only from a tag."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = ROOT / ".github" / "workflows"
NAMES = ("checks", "release")
PINNED = re.compile(r"uses: (?:\./|[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$)")


def read(name: str) -> dict[str, Any]:
    """Return a workflow; YAML 1.1 reads the key `on` as true."""
    text = (WORKFLOWS / f"{name}.yaml").read_text()
    workflow: dict[str, Any] = yaml.safe_load(re.sub(r"^on:", '"on":', text, flags=re.MULTILINE))
    return workflow


def commands(job: dict[str, Any]) -> str:
    """Return the commands of a job."""
    return "\n".join(step.get("run", "") for step in job["steps"])


def image_python() -> str:
    """Return the Python version of the image."""
    text = (ROOT / "Dockerfile").read_text()
    found: set[str] = set(re.findall(r"^FROM python:(\d+\.\d+)", text, re.MULTILINE))
    [version] = found
    return version


def test_pull_requests_run_what_a_contributor_runs() -> None:
    workflow = read("checks")
    [steps] = re.findall(r'^STEPS="(.*)"$', (ROOT / ".ci/run").read_text(), flags=re.MULTILINE)
    hosted = "\n".join(commands(job) for job in workflow["jobs"].values())

    assert "pull_request" in workflow["on"]
    # The matrix of Python versions stands for the second run of the tests, and all tests on real
    # nodes for their core set.
    expected = {*steps.split(), "test-node"} - {"test-image-python", "test-node-core"}
    assert set(re.findall(r"\.ci/run ([a-z-]+)", hosted)) == expected


def test_the_other_jobs_wait_for_the_lint() -> None:
    jobs = read("checks")["jobs"]

    assert "needs" not in jobs["lint"]
    assert {name for name, job in jobs.items() if job.get("needs") == "lint"} == {*jobs} - {"lint"}


def test_the_tests_run_on_the_oldest_python_and_on_that_of_the_image() -> None:
    versions = read("checks")["jobs"]["test"]["strategy"]["matrix"]["python"]
    project = (ROOT / "pyproject.toml").read_text()
    [oldest] = re.findall(r'^requires-python = ">=(.+)"$', project, re.MULTILINE)

    assert versions == [oldest, image_python()]


@pytest.mark.parametrize("name", NAMES)
def test_actions_are_pinned_by_commit_with_their_version(name: str) -> None:
    lines = (WORKFLOWS / f"{name}.yaml").read_text().splitlines()
    used = [line.strip().removeprefix("- ") for line in lines if "uses:" in line]

    assert used
    assert [line for line in used if not PINNED.match(line)] == []


def test_a_bot_updates_the_pins_of_actions_and_images() -> None:
    renovate = json.loads((ROOT / ".github" / "renovate.json").read_text())
    pinned = [rule for rule in renovate["packageRules"] if rule.get("pinDigests")]

    assert "helpers:pinGitHubActionDigestsToSemver" in renovate["extends"]
    managers = {name for rule in pinned for name in rule["matchManagers"]}
    assert managers == {"dockerfile", "docker-compose", "custom.regex"}
    assert {"github-actions", "pip_requirements", "gomod"} <= set(renovate["enabledManagers"])


def test_an_image_is_released_from_a_tag_that_passed_the_checks() -> None:
    workflow = read("release")
    image = workflow["jobs"]["image"]

    assert workflow["on"] == {"push": {"tags": ["v*"]}}
    assert image["needs"] == "checks"
    pushes = [step["with"] for step in image["steps"] if step.get("id") == "push"]
    assert [step["push"] for step in pushes] == [True]


def test_every_target_of_the_dockerfile_is_released() -> None:
    stages = re.findall(r"^FROM .* AS (\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    matrix = read("release")["jobs"]["image"]["strategy"]["matrix"]["include"]
    released = [entry["target"] for entry in matrix]

    assert released == ["platform", "sidecar", "echo"]
    assert set(released) <= set(stages)
    assert stages[-1] == "platform"


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
