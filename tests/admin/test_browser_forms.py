"""Browser tests of the layout of forms, including those of Django."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from tests.admin.test_browser import IN_A_BROWSER, Visit, browser, visit

__all__ = ["browser", "visit"]

pytestmark = IN_A_BROWSER

EDGES = """
() => [...document.querySelectorAll(".form-row")].filter((row) => row.offsetParent).map((row) => {
  const left = (one) => Math.round(one.getBoundingClientRect().left);
  const box = row.querySelector(".entry");
  const parts = row.querySelectorAll(".errorlist, .errorlist li, .helptext, .helptext li");
  return { label: left(row.firstElementChild), edge: left(box), parts: [...parts].map(left) };
})
"""
FORMS = (
    "admin:auth_user_add",
    "admin:password_change",
    "admin:tenancy_apitoken_add",
    "admin:django_celery_beat_periodictask_add",
    "admin:units_stockunit_add",
    "admin:inventory_stockpool_add",
    "admin:inventory_gpuspec_add",
)


def edges(visit: Visit) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = visit.page.evaluate(EDGES)
    return found


@pytest.mark.parametrize("width", [360, 1280])
def test_errors_and_help_are_aligned_with_their_field(
    visit: Visit, operator: User, password: str, width: int
) -> None:
    visit.page.set_viewport_size({"width": width, "height": 800})
    visit.log_in("operator", password)
    names = [reverse(name) for name in FORMS]
    names.append(reverse("admin:auth_user_password_change", args=[operator.pk]))

    for path in names:
        visit.open(path)
        visit.page.click("main form [type=submit]")
        visit.page.wait_for_load_state("load")
        rows = edges(visit)

        assert rows, path
        assert len({row["edge"] for row in rows}) == 1, path
        assert all(part == row["edge"] for row in rows for part in row["parts"]), path
        assert any(row["parts"] for row in rows), path
        labels = visit.page.locator(".form-row > :first-child").all_inner_texts()
        assert not [text for text in labels if text.strip().endswith(":")], path
    assert visit.complaints == []
