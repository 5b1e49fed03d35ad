"""A field of permissions: one check box a permission, grouped by model."""

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Any

from django import forms
from django.contrib.admin import site
from django.contrib.auth.models import Permission
from django.db.models import Q, QuerySet
from django.forms.models import ModelChoiceIterator
from typing_extensions import override

from gpuplatform.adminkit.display.generics import ManyChoicesField
from gpuplatform.adminkit.lists.readonly import ReadOnlyAdmin
from gpuplatform.adminkit.site.navigation import place_of

_OF_FORMS = {"view": "See", "add": "Add", "change": "Change", "delete": "Delete"}
"""What may be done on pages that are Django's forms."""


class _ByModel(ModelChoiceIterator):  # type: ignore[type-arg]  # generic for the type checker only
    """The rights in groups, one a model, in the order of the navigation."""

    @override
    def __iter__(self) -> Iterator[Any]:
        titles = {label: title for label, (title, _verbs) in _asked().items()}
        groups: dict[str, list[Any]] = {label: [] for label in sorted(titles, key=place_of)}
        for right in sorted(self.queryset, key=_place_of_verb):
            groups[_model_of(right)].append(self.choice(right))
        yield from ((titles[label], choices) for label, choices in groups.items() if choices)


class RightsField(ManyChoicesField):
    """Rights as boxes to be ticked; those that no page asks for are neither shown nor lost."""

    iterator = _ByModel
    widget = forms.CheckboxSelectMultiple

    def __init__(self, **options: Any) -> None:
        super().__init__(Permission.objects.none(), required=False, **options)

    def offer(self, held: QuerySet[Permission] | None) -> None:
        """Offer what pages ask for; `held` are the rights that somebody has so far."""
        offered = [_of_model(label, verbs) for label, (_, verbs) in _asked().items()]
        rights = Permission.objects.filter(reduce(or_, offered)).select_related("content_type")
        self.queryset = rights
        self._kept = [] if held is None else list(held.exclude(pk__in=rights))

    @override
    def clean(self, value: Any) -> Any:
        chosen: QuerySet[Permission] = super().clean(value)
        return [*chosen, *self._kept]

    @override
    def label_from_instance(self, obj: Permission) -> str:
        return _asked()[_model_of(obj)][1][obj.codename.partition("_")[0]]


def _asked() -> dict[str, tuple[str, dict[str, str]]]:
    """Return each model that has pages: what its rows are called, and which rights count."""
    found = {}
    for page in site._registry.values():  # noqa: SLF001 - there is no other way
        asked = page.offered_permissions() if isinstance(page, ReadOnlyAdmin) else _OF_FORMS
        title = str(page.opts.verbose_name_plural)
        found[page.opts.label_lower] = (title[:1].upper() + title[1:], dict(asked))
    return found


def _place_of_verb(right: Permission) -> int:
    return list(_asked()[_model_of(right)][1]).index(right.codename.partition("_")[0])


def _of_model(label: str, verbs: dict[str, str]) -> Q:
    app, _, model = label.partition(".")
    names = [f"{verb}_{model}" for verb in verbs]
    return Q(content_type__app_label=app, content_type__model=model, codename__in=names)


def _model_of(right: Permission) -> str:
    return f"{right.content_type.app_label}.{right.content_type.model}"
