"""Runs of periodic tasks are recorded, and only the newest are kept."""

from collections.abc import Mapping

import pytest
from pytest_django import DjangoAssertNumQueries

from gpuplatform.observability.tasks import prune_samples
from gpuplatform.processes.task_hooks import record_begin, record_end
from gpuplatform.queueing import SCHEDULE_HEADER
from gpuplatform.samples.models import KEPT_RUNS, RunOutcome, TaskRun
from gpuplatform.samples.selectors import runs_of
from gpuplatform.samples.services import run_began, run_ended, runs_prune

pytestmark = pytest.mark.django_db


def work_off(number: str, headers: Mapping[str, str], fault: OSError | None = None) -> None:
    """Call the hooks of a worker before and after a task."""
    prune_samples.push_request(**headers)
    record_begin(prune_samples, number)
    record_end(prune_samples, number, fault)
    prune_samples.pop_request()


def test_a_run_of_a_schedule_is_recorded_with_its_times() -> None:
    work_off("a", {SCHEDULE_HEADER: "Prune samples"})

    run = TaskRun.objects.get()
    assert (run.schedule, run.outcome, run.message) == ("Prune samples", "Succeeded", "")
    assert run.ended_at is not None
    assert run.ended_at >= run.started_at


def test_the_exception_of_a_run_is_recorded() -> None:
    work_off("a", {SCHEDULE_HEADER: "Prune samples"}, OSError("no\x00 space\nleft"))

    run = TaskRun.objects.get()
    assert (run.outcome, run.message) == (RunOutcome.FAILED, "no space left")


def test_a_task_without_a_schedule_is_not_recorded() -> None:
    work_off("a", {})

    assert not TaskRun.objects.exists()


def test_a_redelivered_task_is_one_run() -> None:
    run_began("a", schedule="s")
    run_began("a", schedule="s")
    run_ended("a")
    run_ended("a", OSError("late"))

    assert TaskRun.objects.get().outcome == RunOutcome.SUCCEEDED


def test_the_newest_runs_of_each_schedule_are_kept_and_read_in_one_query(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    for number in range(KEPT_RUNS + 3):
        run_began(f"a{number}", schedule="often")
    run_began("b", schedule="rarely")

    assert runs_prune() == 3

    with django_assert_num_queries(1):
        found = runs_of(["often", "rarely", "never"])
    assert [run.task_id for run in found["often"]][:2] == [
        f"a{KEPT_RUNS + 2}",
        f"a{KEPT_RUNS + 1}",
    ]
    assert {name: len(runs) for name, runs in found.items()} == {"often": KEPT_RUNS, "rarely": 1}
