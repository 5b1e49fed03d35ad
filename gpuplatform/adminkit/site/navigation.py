"""The navigation: links to lists, grouped by subject rather than by Python package."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.http import HttpRequest
from django.urls import reverse
from django.utils.text import capfirst

from gpuplatform.adminkit.actions.mirrors import MirrorAdmin
from gpuplatform.adminkit.display.counts import capped, capped_counts
from gpuplatform.adminkit.lists.model_admin import ModelAdmin

FAILED_CAP: Final = 1_000
"""Maximum number of failed rows that are counted."""

_GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Platform", ("operations.operation",)),
    (
        "Inventory",
        ("inventory.node", "inventory.gpuspec", "inventory.stockpool", "units.stockunit"),
    ),
    (
        "Units",
        ("units.activeunit", "units.unitgroup", "units.capacityrequest", "units.unithistory"),
    ),
    ("Serverless", ("serverless.function", "serverless.invocation")),
    (
        "Schedules",
        (
            "django_celery_beat.periodictask",
            "django_celery_beat.intervalschedule",
            "django_celery_beat.crontabschedule",
        ),
    ),
    ("Usage", ("usage.usagerecord",)),
    (
        "Access",
        (
            *("tenancy.tenant", "tenancy.membership", "tenancy.apitoken", "auth.user"),
            *("auth.group", "audit.auditentry"),
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class NavigationLink:
    """A link of the navigation."""

    name: str
    url: str
    is_here: bool
    failed: str = ""
    """The number of failed rows in the list, or an empty string if there are none."""


@dataclass(frozen=True, slots=True)
class NavigationGroup:
    """A heading with its links."""

    name: str
    links: tuple[NavigationLink, ...]


def navigation(
    apps: Iterable[dict[str, Any]], path: str, failed: Mapping[str, str]
) -> list[NavigationGroup]:
    """Return the groups of links; models without a group are listed under their app.

    Args:
        apps: The app list of Django's admin site.
        path: The path of the current page.
        failed: The number of failed rows by the label of the model.
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
    """Return the number of failed rows by the label of the model, with one query.

    It runs for every page; for each model, it counts at most `FAILED_CAP` rows with an index.
    """
    counted = [
        page
        for page in pages
        if isinstance(page, MirrorAdmin) and page.has_view_permission(request)
    ]
    if not counted:
        return {}
    counts = capped_counts([page.failed_rows() for page in counted], cap=FAILED_CAP)
    found = zip(counted, counts, strict=True)
    return {page.opts.label_lower: capped(count, FAILED_CAP) for page, count in found if count}


def place_of(label: str) -> int:
    """Return the position in the navigation of a model, such as `auth.user`, for sorting."""
    known = [one for _name, labels in _GROUPS for one in labels]
    return known.index(label) if label in known else len(known)


def _label(app: dict[str, Any], model: dict[str, Any]) -> str:
    return f"{app['app_label']}.{model['object_name'].lower()}"


def _link(model: dict[str, Any], path: str, failed: str = "") -> NavigationLink:
    url = str(model.get("admin_url") or model.get("add_url") or "")
    is_here = bool(url) and path.startswith(url)
    return NavigationLink(capfirst(model["name"]), url, is_here, failed)
