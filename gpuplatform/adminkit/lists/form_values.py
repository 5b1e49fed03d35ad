"""The values that a form changes, for the observers of the admin."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from django import forms
from django.db.models import Model, QuerySet

# Django's class is generic for the type checker only.
if TYPE_CHECKING:
    ModelForm: TypeAlias = forms.ModelForm[Any]
else:
    ModelForm = forms.ModelForm

Changed = tuple[Mapping[str, Any] | None, Mapping[str, Any]]
"""The earlier values by field, or `None` for a new object, and the new values."""


class FormMessage(list[dict[str, Any]]):
    """Django's message for the admin log, with the values of the changed fields."""

    def __init__(self, message: Iterable[dict[str, Any]], changed: Changed) -> None:
        super().__init__(message)
        self.changed = changed


def changed_values(form: ModelForm, *, is_new: bool) -> Changed:
    """Return the values of the changed fields of the model as JSON values.

    Fields of the form that the model does not have, such as a new password, are left out.
    """
    names = {field.name for field in form._meta.model._meta.get_fields()}  # noqa: SLF001 - public API
    changed = [name for name in form.changed_data if name in names]
    after = {name: _value(form.cleaned_data.get(name)) for name in changed}
    if is_new:
        return None, after
    return {name: _value(_initial(form, name)) for name in changed}, after


def _initial(form: ModelForm, name: str) -> Any:
    """Return the earlier value of a field: its object if the form has only its id."""
    field, value = form.fields[name], form.initial.get(name)
    is_id = isinstance(field, forms.ModelChoiceField) and not isinstance(value, list | Model)
    return field.to_python(value) if is_id else value


def _value(value: Any) -> Any:
    if isinstance(value, QuerySet | list | tuple | set):
        return sorted(str(one) for one in value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
