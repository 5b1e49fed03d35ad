"""The left navigation: who looks for what, in groups that do not follow the Python packages."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

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


@dataclass(frozen=True, slots=True)
class NavigationGroup:
    """A heading and its lines."""

    name: str
    links: tuple[NavigationLink, ...]


def navigation(apps: Iterable[dict[str, Any]], path: str) -> list[NavigationGroup]:
    """Return the models of Django's app list in groups; unknown ones under their app's name."""
    home = reverse("admin:index")
    models = {
        _label(app, model): (str(app["name"]), model) for app in apps for model in app["models"]
    }
    groups = {"Platform": [NavigationLink("Overview", home, path == home)]}
    for name, labels in _GROUPS:
        for label in labels:
            if label in models:
                groups.setdefault(name, []).append(_link(models.pop(label)[1], path))
    for app_name, model in models.values():
        groups.setdefault(app_name, []).append(_link(model, path))
    return [NavigationGroup(name, tuple(links)) for name, links in groups.items()]


def place_of(label: str) -> int:
    """Return where a model (`auth.user`) stands in the navigation; unknown ones come last."""
    known = [one for _name, labels in _GROUPS for one in labels]
    return known.index(label) if label in known else len(known)


def _label(app: dict[str, Any], model: dict[str, Any]) -> str:
    return f"{app['app_label']}.{model['object_name'].lower()}"


def _link(model: dict[str, Any], path: str) -> NavigationLink:
    url = str(model.get("admin_url") or model.get("add_url") or "")
    name = str(model["name"])
    return NavigationLink(name[:1].upper() + name[1:], url, bool(url) and path.startswith(url))
