"""Filters of the lists: phases as tabs, values of recent rows, reasons, ages and history.

No filter counts or reads all rows of a table.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar, Final

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import Field, Model, Q, QuerySet
from django.http import HttpRequest
from typing_extensions import override

from gpuplatform.adminkit.display.badges import PHASE_TITLES, phase_badge
from gpuplatform.adminkit.display.causes import key_of, of_key, title_of, title_of_key
from gpuplatform.adminkit.display.counts import capped, phase_counts
from gpuplatform.adminkit.display.text import humanize
from gpuplatform.adminkit.lists.model_admin import ModelAdmin
from gpuplatform.clock import now
from gpuplatform.lifecycle.explanations import Explanation

RECENT_ROWS = 2_000
"""Number of the newest rows whose values are offered as choices."""

_AGES: Final = {
    "15min": ("Last 15 minutes", 900),
    "1h": ("Last hour", 3_600),
    "1d": ("Last 24 hours", 86_400),
    "over15min": ("Over 15 minutes", -900),
    "over1h": ("Over 1 hour", -3_600),
    "over1d": ("Over 24 hours", -86_400),
}
"""The label and the age in seconds of each choice; a negative age means "older than"."""

INDENT: Final = "· "
"""The prefix of a choice that is a part of the choice above it."""

Rows = QuerySet[Any]
Choice = dict[str, Any]


class PhaseTabs(admin.SimpleListFilter):
    """Tabs that filter by phase, each with the number of rows that match the other filters.

    This filter must be the last one in `list_filter`, because it counts the rows that the others
    select.
    """

    title = "phase"
    parameter_name = "phase"
    template = "admin/phase_tabs.html"
    field: ClassVar[str] = "phase"
    shows_as_tabs = True

    def __init__(
        self,
        request: HttpRequest,
        params: dict[str, list[str]],
        model: type[Model],
        model_admin: ModelAdmin,
    ) -> None:
        super().__init__(request, params, model, model_admin)
        self._request = request
        self._model_admin = model_admin
        self._others: Rows = model_admin.get_queryset(request)

    @override
    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> list[tuple[str, str]]:
        field = model_admin.opts.get_field(self.field)
        choices = field.choices if isinstance(field, Field) else ()
        return [(str(value), str(label)) for value, label in choices or ()]

    @override
    def queryset(self, request: HttpRequest, queryset: Rows) -> Rows:
        self._others = queryset
        return queryset.filter(**{self.field: self.value()}) if self.value() else queryset

    @override
    def choices(self, changelist: ChangeList) -> Iterator[Choice]:  # type: ignore[override]  # more keys
        found, _ = self._model_admin.get_search_results(
            self._request, self._others, changelist.query
        )
        phases = [str(value) for value, _label in self.lookup_choices]
        counts = phase_counts(found, phases, self.field)
        yield {
            "selected": not self.value(),
            "query_string": changelist.get_query_string(remove=[self.parameter_name]),
            "display": "All",
            "count": capped(sum(counts.values())),
        }
        for value, label in self.lookup_choices:
            yield {
                "selected": self.value() == value,
                "query_string": changelist.get_query_string({self.parameter_name: value}),
                "display": phase_badge(str(value), PHASE_TITLES.get(str(value), str(label))),
                "count": capped(counts[str(value)]),
            }


class ChoiceFilter(admin.SimpleListFilter):
    """A filter whose choices are displayed as a menu; it compares `field` with the value."""

    field: ClassVar[str] = ""

    @override
    def queryset(self, request: HttpRequest, queryset: Rows) -> Rows:
        return queryset.filter(**{self.field: self.value()}) if self.value() else queryset


class MultipleChoiceFilter(ChoiceFilter):
    """A filter that matches any of several values, separated by commas in one parameter.

    Selecting a choice adds its value to the selection or removes it.
    """

    def chosen(self) -> list[str]:
        """Return the selected values without duplicates."""
        return list(dict.fromkeys(one for one in (self.value() or "").split(",") if one))

    @override
    def choices(self, changelist: ChangeList) -> Iterator[Choice]:  # type: ignore[override]  # more keys
        chosen, name = self.chosen(), str(self.parameter_name)
        all_rows = changelist.get_query_string(remove=[name])
        yield {"selected": not chosen, "query_string": all_rows, "display": "All"}
        for value, label in self.lookup_choices:
            is_on = str(value) in chosen
            rest = [one for one in (*chosen, str(value)) if not (is_on and one == str(value))]
            changed = changelist.get_query_string({name: ",".join(rest)}) if rest else all_rows
            short = str(label).removeprefix(INDENT)
            shown = {"display": label, "short": short, "adds": True}
            yield {"selected": is_on, "query_string": changed, **shown}


class RecentValuesFilter(MultipleChoiceFilter):
    """A filter by the values of `fields` in the newest rows; one of the fields must match."""

    fields: ClassVar[tuple[str, ...]]
    are_reasons: ClassVar[bool] = False
    """Whether the values are reason codes, which are displayed as words."""

    @override
    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> list[tuple[str, str]]:
        recent = _recent_values(request, model_admin)
        found = set().union(*(recent[field] for field in self.fields))
        offered = sorted(found | set(self.chosen()))
        return (
            _reason_choices(offered) if self.are_reasons else [(value, value) for value in offered]
        )

    @override
    def has_output(self) -> bool:
        return True

    @override
    def queryset(self, request: HttpRequest, queryset: Rows) -> Rows:
        chosen = self.chosen()
        if not chosen:
            return queryset
        condition = Q()
        for field in self.fields:
            condition |= Q(**{f"{field}__in": chosen} if len(chosen) > 1 else {field: chosen[0]})
        return queryset.filter(condition)


def _recent_values(request: HttpRequest, page: ModelAdmin) -> Mapping[str, set[Any]]:
    """Return the values in the newest rows by field, for all filters of a list.

    They are read once for each HTTP request, with one query.
    """
    read: dict[ModelAdmin, dict[str, set[Any]]] = request.__dict__.setdefault("recent_values", {})
    if page not in read:
        filters = (one for one in page.get_list_filter(request) if isinstance(one, type))
        recent = [one for one in filters if issubclass(one, RecentValuesFilter)]
        fields = sorted({field for one in recent for field in one.fields})
        newest = page.get_queryset(request).order_by("-pk")[:RECENT_ROWS]
        rows = set(newest.values_list(*fields))
        read[page] = {
            field: {row[place] for row in rows if row[place]} for place, field in enumerate(fields)
        }
    return read[page]


def _reason_choices(values: Sequence[str]) -> list[tuple[str, str]]:
    """Return reason codes with labels; the labels of duplicates also contain the code."""
    labels = Counter(map(humanize, values))
    return [
        (value, f"{humanize(value)} ({value})" if labels[humanize(value)] > 1 else humanize(value))
        for value in values
    ]


def recent_values(title: str, *fields: str, are_reasons: bool = False) -> type[RecentValuesFilter]:
    """Return a filter by the values of `fields`. Its parameter has the name `title`."""

    class Filter(RecentValuesFilter):
        pass

    Filter.title = Filter.parameter_name = title
    Filter.fields, Filter.are_reasons = fields, are_reasons
    return Filter


SpecFilter = recent_values("spec", "spec_name")
NamespaceFilter = recent_values("namespace", "namespace")
TenantFilter = recent_values("tenant", "tenant__name")


class AgeFilter(ChoiceFilter):
    """A filter by the age of the time in `field`."""

    title = "age"
    parameter_name = "age"
    field = "phase_since"

    @override
    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> list[tuple[str, str]]:
        return [(name, label) for name, (label, _) in _AGES.items()]

    @override
    def queryset(self, request: HttpRequest, queryset: Rows) -> Rows:
        chosen = _AGES.get(self.value() or "")
        if chosen is None:
            return queryset
        seconds = chosen[1]
        limit = now() - timedelta(seconds=abs(seconds))
        return queryset.filter(**{f"{self.field}__{'gte' if seconds > 0 else 'lt'}": limit})


class CreatedFilter(AgeFilter):
    """A filter by the time since the request."""

    field = "created_at"


class ReasonFilter(MultipleChoiceFilter):
    """A filter by the reason of the phase; the `reasons` of the page are the choices."""

    title = "reason"
    parameter_name = "reason"

    def __init__(
        self, request: HttpRequest, params: dict[str, list[str]], model: type[Model], page: Any
    ) -> None:
        self.reasons: Mapping[Any, Explanation] = page.reasons
        super().__init__(request, params, model, page)

    @override
    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> list[tuple[str, str]]:
        offered = list(self._offered())
        known = {key for key, _title in offered}
        return [*offered, *((key, title_of_key(key)) for key in self.chosen() if key not in known)]

    @override
    def queryset(self, request: HttpRequest, queryset: Rows) -> Rows:
        condition = Q()
        for reason in self.chosen():
            condition |= of_key(self.reasons, reason)
        return queryset.filter(condition)

    def _offered(self) -> Iterator[tuple[str, str]]:
        """Yield the reasons of failures as choices, each followed by its causes."""
        for reason, explanation in self.reasons.items():
            if explanation.is_well:
                continue
            yield str(reason), humanize(reason)
            for cause in explanation.causes:
                yield key_of(reason, cause), f"{INDENT}{title_of(reason, cause)}"


class YesNoFilter(ChoiceFilter):
    """A filter by the boolean column `field`."""

    labels: ClassVar[tuple[str, str]]
    """The labels of the choices yes and no."""

    @override
    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> list[tuple[str, str]]:
        return [("yes", self.labels[0]), ("no", self.labels[1])]

    @override
    def queryset(self, request: HttpRequest, queryset: Rows) -> Rows:
        if self.value() not in {"yes", "no"}:
            return queryset
        return queryset.filter(**{self.field: self.value() == "yes"})


class HistoryFilter(ChoiceFilter):
    """A filter by whether the resource is deleted; by default, deleted ones are hidden."""

    title = "history"
    parameter_name = "history"

    @override
    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> list[tuple[str, str]]:
        return [("deleted", "Deleted"), ("all", "Existing and deleted")]

    @override
    def queryset(self, request: HttpRequest, queryset: Rows) -> Rows:
        if self.value() == "all":
            return queryset
        return queryset.filter(deleted_at__isnull=self.value() != "deleted")

    @override
    def choices(self, changelist: ChangeList) -> Iterator[Choice]:  # type: ignore[override]  # as above
        for choice in super().choices(changelist):
            yield {**choice, "display": "Existing"} if choice["display"] == "All" else dict(choice)
