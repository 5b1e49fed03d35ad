"""`make bench-admin`: queries and times of all lists and pages of the admin.

Requests the pages in this process, on the database of a running development platform (`make run`);
`make demo-load N=100000` fills it first. Figures of a loaded machine are not comparable. The exit
code is 1 if a page exceeds a limit.
"""

import argparse
import logging
import os
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from typing_extensions import override

MAX_MS: Final = 300.0
MAX_QUERIES: Final = 12


@dataclass(frozen=True, slots=True)
class Page:
    """A page, and the name of its figures."""

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Figures:
    """The queries and times of a page."""

    page: Page
    queries: int
    milliseconds: tuple[float, ...]

    @property
    def p95(self) -> float:
        """The 95th percentile of the times."""
        return sorted(self.milliseconds)[round(len(self.milliseconds) * 0.95) - 1]

    @property
    def is_within(self) -> bool:
        """Whether both limits are met."""
        return self.p95 <= MAX_MS and self.queries <= MAX_QUERIES

    @override
    def __str__(self) -> str:
        median = statistics.median(self.milliseconds)
        verdict = "" if self.is_within else "  EXCEEDED"
        return (
            f"{self.page.name:44} {self.queries:3} queries  p50 {median:6.1f}  p95 {self.p95:6.1f}"
            f"  max {max(self.milliseconds):6.1f} ms{verdict}"
        )


def pages() -> Iterator[Page]:
    """Yield all lists, plain, filtered, searched and deep, and the page of one row of each."""
    from django.urls import reverse  # noqa: PLC0415 - after Django is set up

    yield Page("overview", reverse("admin:index"))
    yield Page("health", reverse("admin:health"))
    for words in ("demo-load-77", "image-77", "nothing-has-this"):
        yield Page(f"search {words}", f"{reverse('admin:search')}?q={words}")
    for label, filters in LISTS.items():
        listed = reverse(f"admin:{label}_changelist")
        for words in ("", "p=90", "q=demo-load-77", "q=nothing-has-this", *filters):
            yield Page(f"{label} {words}".strip(), f"{listed}?{words}")
        row = _newest(label)
        if row is not None and label != "units_unithistory":
            yield Page(f"{label} page", reverse(f"admin:{label}_change", args=[row]))


LISTS: Final = {
    "inventory_stockpool": ("phase=Failed", "reason=PodStartupFailed", "spec=demo-load-g3"),
    "units_stockunit": ("phase=Failed", "state=ready", "spec=demo-load-g3", "history=deleted"),
    "units_activeunit": ("phase=Failed", "reason=PodStartupFailed", "q=image-77"),
    "inventory_gpuspec": (),
    "units_unithistory": ("phase=Failed", "reason=PodStartupFailed", "age=1h"),
    "serverless_function": ("phase=Failed",),
    "serverless_invocation": ("state=Failed",),
    "operations_operation": ("phase=Failed", "kind=stock.seed", "reason=name_conflict"),
}


def _newest(label: str) -> int | None:
    from django.apps import apps  # noqa: PLC0415 - after Django is set up

    app, _, model = label.partition("_")
    rows = apps.get_model(app, model).objects.order_by("-pk")
    roles = {"stockunit": "stock", "activeunit": "active"}
    newest = (rows.filter(role=roles[model]) if model in roles else rows).first()
    return None if newest is None else int(newest.pk)


def measure(client: Any, page: Page, requests: int) -> Figures:
    """Request a page repeatedly, after one request that is not counted."""
    from django.db import connection  # noqa: PLC0415 - after Django is set up
    from django.test.utils import CaptureQueriesContext  # noqa: PLC0415 - after Django is set up

    with CaptureQueriesContext(connection) as captured:
        answer = client.get(page.path)
    if answer.status_code != 200:
        raise SystemExit(f"{page.path} returned {answer.status_code}")
    queries = len(captured.captured_queries)  # The next request empties the list.
    took = []
    for _ in range(requests):
        begun = time.perf_counter()
        client.get(page.path)
        took.append((time.perf_counter() - begun) * 1000)
    return Figures(page, queries, tuple(took))


def main() -> None:
    """Measure all pages and print their figures."""
    parser = argparse.ArgumentParser(prog="make bench-admin", description=__doc__)
    parser.add_argument("--requests", type=int, default=20, help="requests per page")
    asked = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuplatform.settings")
    import django  # noqa: PLC0415 - after the environment is set

    django.setup()
    from django.contrib.auth.models import User  # noqa: PLC0415 - after Django is set up
    from django.test import Client  # noqa: PLC0415 - after Django is set up

    from tests.benchmarks.bench import describe_machine, say  # noqa: PLC0415 - after Django is set up

    describe_machine()
    client = Client(headers={"host": "127.0.0.1"})
    logging.getLogger("gpuplatform.requests").setLevel(logging.WARNING)
    client.force_login(User.objects.filter(is_superuser=True, is_active=True)[0])
    found = []
    for page in pages():
        found.append(measure(client, page, asked.requests))
        say(str(found[-1]))
    bad = [figures for figures in found if not figures.is_within]
    say(f"{len(found)} pages, {len(bad)} exceed {MAX_MS:.0f} ms or {MAX_QUERIES} queries")
    raise SystemExit(1 if bad else 0)


if __name__ == "__main__":
    main()
