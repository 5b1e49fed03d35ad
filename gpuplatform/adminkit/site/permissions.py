"""A form field for permissions: a checkbox for each permission, grouped by model."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, TypeAlias

from django import forms
from django.contrib.admin import site
from django.contrib.auth.models import Permission
from django.db.models import Q, QuerySet
from django.forms.models import ModelChoiceIterator
from django.utils.text import capfirst
from typing_extensions import override

from gpuplatform.adminkit.lists.model_admin import ReadOnlyAdmin
from gpuplatform.adminkit.site.navigation import place_of

if TYPE_CHECKING:
    MultipleModelChoiceField: TypeAlias = forms.ModelMultipleChoiceField[Any]
else:
    MultipleModelChoiceField = forms.ModelMultipleChoiceField

_FORM_VERBS = {"view": "View", "add": "Create", "change": "Change", "delete": "Delete"}
"""The labels of the permissions on pages with Django's forms."""


class _ByModel(ModelChoiceIterator):  # type: ignore[type-arg]  # generic for the type checker only
    """Permissions in groups, one for each model, in the order of the navigation."""

    @override
    def __iter__(self) -> Iterator[Any]:
        titles = {label: title for label, (title, _verbs) in _offered().items()}
        groups: dict[str, list[Any]] = {label: [] for label in sorted(titles, key=place_of)}
        for permission in sorted(self.queryset, key=_verb_position):
            groups[_model_of(permission)].append(self.choice(permission))
        yield from ((titles[label], choices) for label, choices in groups.items() if choices)


class PermissionsField(MultipleModelChoiceField):
    """A checkbox for each permission that a page checks; other permissions remain unchanged."""

    iterator = _ByModel
    widget = forms.CheckboxSelectMultiple

    def __init__(self, **options: Any) -> None:
        super().__init__(Permission.objects.none(), required=False, **options)

    def offer(self, held: Iterable[Permission]) -> None:
        """Offer the permissions that pages check; `held` are the current permissions."""
        offered = _offered()
        conditions = [_of_model(label, verbs) for label, (_, verbs) in offered.items()]
        self.queryset = Permission.objects.filter(reduce(or_, conditions)).select_related(
            "content_type"
        )
        self._hidden = [one for one in held if _verb_of(one) not in _verbs(offered, one)]

    @override
    def clean(self, value: Any) -> Any:
        chosen: QuerySet[Permission] = super().clean(value)
        return [*chosen, *self._hidden]

    @override
    def label_from_instance(self, obj: Permission) -> str:
        return _offered()[_model_of(obj)][1][obj.codename.partition("_")[0]]


def _offered() -> dict[str, tuple[str, dict[str, str]]]:
    """Return the plural noun and the permission labels by verb, for the label of each model."""
    found = {}
    for page in site._registry.values():  # noqa: SLF001 - Django has no public accessor
        labels = page.offered_permissions() if isinstance(page, ReadOnlyAdmin) else _FORM_VERBS
        title = str(capfirst(page.opts.verbose_name_plural))
        found[page.opts.label_lower] = (title, dict(labels))
    return found


def _verb_of(permission: Permission) -> str:
    """Return the verb of a permission of a model, such as `view`, or an empty string."""
    verb, _, model = permission.codename.partition("_")
    return verb if model == permission.content_type.model else ""


def _verbs(
    offered: Mapping[str, tuple[str, dict[str, str]]], permission: Permission
) -> Collection[str]:
    """Return the verbs that the page of the model of a permission checks."""
    _title, verbs = offered.get(_model_of(permission), ("", {}))
    return verbs


def _verb_position(permission: Permission) -> int:
    return list(_offered()[_model_of(permission)][1]).index(permission.codename.partition("_")[0])


def _of_model(label: str, verbs: dict[str, str]) -> Q:
    app, _, model = label.partition(".")
    names = [f"{verb}_{model}" for verb in verbs]
    return Q(content_type__app_label=app, content_type__model=model, codename__in=names)


def _model_of(permission: Permission) -> str:
    return f"{permission.content_type.app_label}.{permission.content_type.model}"
