"""The left navigation: who looks for what, in groups that do not follow the Python packages."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.http import HttpRequest
from django.urls import reverse

from gpuplatform.adminkit.actions.mirrors import MirrorAdmin
from gpuplatform.adminkit.display.counts import capped, capped_counts
from gpuplatform.adminkit.display.generics import ModelAdmin

MAX_FAILED: Final = 1_000
"""So many failed rows are counted."""

_GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Platform", ("operations.operation",)),
    ("Inventory", ("inventory.gpuspec", "inventory.stockpool", "units.stockunit")),
    ("Units", ("units.activeunit", "units.unithistory")),
    ("Serverless", ("serverless.function", "serverless.invocation")),
    (
        "Schedules",
        (
            "django_celery_beat.periodictask",
            "django_celery_beat.intervalschedule",
            "django_celery_beat.crontabschedule",
        ),
    ),
    ("Access", ("tenancy.tenant", "tenancy.apitoken", "auth.user", "auth.group")),
)


@dataclass(frozen=True, slots=True)
class NavigationLink:
    """One line of the navigation."""

    name: str
    url: str
    is_here: bool
    failed: str = ""
    """How many of its rows have failed; empty where none has."""


@dataclass(frozen=True, slots=True)
class NavigationGroup:
    """A heading and its lines."""

    name: str
    links: tuple[NavigationLink, ...]


def navigation(
    apps: Iterable[dict[str, Any]], path: str, failed: Mapping[str, str]
) -> list[NavigationGroup]:
    """Return the models of Django's app list in groups; unknown ones under their app's name.

    `failed` has the number of failed rows of a model, by its label.
    """
    home = reverse("admin:index")
    models = {
        _label(app, model): (str(app["name"]), model) for app in apps for model in app["models"]
    }
    groups = {"Platform": [NavigationLink("Overview", home, path == home)]}
    for name, labels in _GROUPS:
        for label in labels:
            if label in models:
                link = _link(models.pop(label)[1], path, failed.get(label, ""))
                groups.setdefault(name, []).append(link)
    for app_name, model in models.values():
        groups.setdefault(app_name, []).append(_link(model, path))
    return [NavigationGroup(name, tuple(links)) for name, links in groups.items()]


def failed_rows(request: HttpRequest, pages: Iterable[ModelAdmin]) -> dict[str, str]:
    """Return how many rows of each page have failed, by the label of its model: one query.

    Counted to `MAX_FAILED` by an index, so that every page can afford it.
    """
    asked = [
        page
        for page in pages
        if isinstance(page, MirrorAdmin) and page.has_view_permission(request)
    ]
    if not asked:
        return {}
    counts = capped_counts([page.failed_rows() for page in asked], cap=MAX_FAILED)
    found = zip(asked, counts, strict=True)
    return {page.opts.label_lower: capped(count, MAX_FAILED) for page, count in found if count}


def place_of(label: str) -> int:
    """Return where a model (`auth.user`) stands in the navigation; unknown ones come last."""
    known = [one for _name, labels in _GROUPS for one in labels]
    return known.index(label) if label in known else len(known)


def _label(app: dict[str, Any], model: dict[str, Any]) -> str:
    return f"{app['app_label']}.{model['object_name'].lower()}"


def _link(model: dict[str, Any], path: str, failed: str = "") -> NavigationLink:
    url = str(model.get("admin_url") or model.get("add_url") or "")
    name = str(model["name"])
    return NavigationLink(
        name[:1].upper() + name[1:], url, bool(url) and path.startswith(url), failed
    )
