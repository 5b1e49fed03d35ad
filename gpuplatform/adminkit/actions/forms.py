"""Forms that are generated from the declarations of the API.

A form lists the names of its fields. The declaration provides labels, help texts, examples and
validation; its errors are displayed next to the fields.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Final

from django import forms
from django.utils.html import format_html
from typing_extensions import override

from gpuplatform.adminkit.display.text import humanize
from gpuplatform.adminkit.lists.model_admin import REQUIRED
from gpuplatform.errors import PlatformError
from gpuplatform.formats.model import SpecModel

OPERATION_ID: Final = "operationID"
MEMORY_HELP: Final = "Request and limit, as a Kubernetes quantity of at least 1Mi."
Choices = Mapping[str, Callable[[], Iterable[str]]]
_WHOLE: Final = re.compile("-?[0-9]{1,18}")


class TextField(forms.CharField):
    """A single line of text."""

    empty: ClassVar[Any] = ""
    """The value of an empty input in a form that changes an object; `None` leaves it unchanged."""


class IntegerField(forms.CharField):
    """An integer. Other input is returned as text, and the declaration rejects it."""

    empty: ClassVar[Any] = None
    widget = forms.NumberInput

    @override
    def to_python(self, value: Any) -> Any:
        text = super().to_python(value) or ""
        return int(text) if _WHOLE.fullmatch(text) else text


class CheckboxField(forms.BooleanField):
    """A checkbox."""

    empty: ClassVar[Any] = None


class JsonField(forms.CharField):
    """A JSON object."""

    empty: ClassVar[Any] = {}
    widget = forms.Textarea

    @override
    def to_python(self, value: Any) -> Any:
        text = super().to_python(value)
        if not text:
            return ""
        try:
            return json.loads(text, object_pairs_hook=_unique_keys)
        except json.JSONDecodeError as error:
            msg = f"Invalid JSON at line {error.lineno}, column {error.colno}: {error.msg}."
            raise forms.ValidationError(msg) from error
        except (ValueError, RecursionError) as error:
            msg = "Invalid JSON: a key is repeated, or a number or the nesting depth is too large."
            raise forms.ValidationError(msg) from error

    @override
    def prepare_value(self, value: Any) -> Any:
        return value if isinstance(value, str) else json.dumps(value, indent=2) if value else ""


class JsonListField(JsonField):
    """A JSON list."""

    empty: ClassVar[Any] = []


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        msg = "A key is repeated."
        raise ValueError(msg)
    return found


class DeclaredForm(forms.Form):
    """A form for some fields of a declaration, which also validates the values."""

    declaration: ClassVar[type[SpecModel]]
    field_names: ClassVar[Sequence[str]]
    """The names of the fields in the API, in the order of the form."""
    labels: ClassVar[Mapping[str, str]] = {}
    help_texts: ClassVar[Mapping[str, str]] = {}
    """Help texts that replace the descriptions of the declaration."""
    fixed_values: ClassVar[Mapping[str, Any]] = {}
    """Values of required fields of the declaration that the form does not contain."""
    required_names: ClassVar[frozenset[str]] = frozenset()
    """Fields that the form requires although the declaration has defaults for them."""
    choices: ClassVar[Choices] = {}
    """Functions that return the values of a text field that can be selected, by field name."""
    defaults: ClassVar[Mapping[str, Any]] = {}
    """Initial values by field name."""
    empty_values: ClassVar[Mapping[str, Any]] = {}
    """Values of empty inputs by field name, in a form that changes an object."""
    is_change: ClassVar[bool] = False
    """Whether the form changes an object: it omits unchanged values, and an empty input clears the
    field."""

    use_required_attribute = False

    def __init__(
        self, data: Mapping[str, Any] | None = None, *, initial: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(data, initial={**self.defaults, **(initial or {})})
        for name in self.field_names:
            label, help_text = self.labels.get(name, ""), self.help_texts.get(name, "")
            field = declared_field(self.declaration, name, label, help_text)
            if name in self.choices:
                field.widget = _select(field.widget, self.choices[name]())
            field.widget.is_required |= name in self.required_names
            self.fields[name] = field

    @property
    def entered(self) -> dict[str, Any]:
        """The values of a valid form by the field names of the API."""
        found: dict[str, Any] = {}
        for name in self.field_names:
            value = self.cleaned_data.get(name, "")
            if value == "":
                value = self._empty(name) if self.is_change else None
            if value is None or (self.is_change and value == self.initial.get(name)):
                continue
            found[name] = value
        return found

    def _empty(self, name: str) -> Any:
        if name in self.empty_values:
            return self.empty_values[name]
        return self.fields[name].empty  # type: ignore[attr-defined]  # each field here has it

    @override
    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        for name in self.required_names - self.entered.keys() - self.errors.keys():
            self.add_error(name, REQUIRED)
        try:
            self.declaration.parse({OPERATION_ID: "admin", **self.fixed_values, **self.entered})
        except PlatformError as error:
            self.add_errors(error)
        return data

    def add_errors(self, error: PlatformError) -> None:
        """Add each detail of an error to its field, unless the field already has an error."""
        invalid = frozenset(self.errors)
        for detail in error.details:
            name = re.split(r"[.\[]", detail.field, maxsplit=1)[0]
            if name in invalid or (invalid and not name):
                continue
            has_field = name in self.fields
            place = detail.field[len(name) :].lstrip(".") if has_field else detail.field
            text = f"{place}: {detail.message}" if place else detail.message
            self.add_error(name if has_field else None, text)
        if not error.details:
            self.add_error(None, str(error))


def declared_field(
    declaration: type[SpecModel], name: str, label: str = "", help_text: str = ""
) -> forms.Field:
    """Return the form field for a declared field, whose label and help text can be overridden."""
    schema = _schema(declaration)
    declared = _described(schema, schema["properties"][name])
    example = _example(declared)
    kinds: dict[str, type[forms.Field]] = {
        "integer": IntegerField,
        "boolean": CheckboxField,
        "string": TextField,
        "array": JsonListField,
    }
    kind = kinds.get(declared.get("type", ""), JsonField)
    text = _help(kind, help_text or str(declared.get("description", "")), example)
    field = kind(required=False, label=label or humanize(name), help_text=text)
    field.widget.is_required = name in schema.get("required", ())
    field.widget.attrs.update(_attributes(kind, declared))
    return field


def datetime_field(help_text: str, **options: Any) -> forms.DateTimeField:
    """Return an optional field for a time in UTC, to the minute."""
    widget = forms.DateTimeInput({"type": "datetime-local", "step": 60}, format="%Y-%m-%dT%H:%M")
    text = f"{help_text} In UTC."
    return forms.DateTimeField(widget=widget, required=False, help_text=text, **options)


def _select(widget: forms.Widget, values: Iterable[str]) -> forms.Select:
    """Return a list of the values to select one from, which is empty at first."""
    select = forms.Select(choices=[("", "---------"), *((value, value) for value in values)])
    select.is_required = widget.is_required
    return select


def _attributes(kind: type[forms.Field], declared: Mapping[str, Any]) -> dict[str, Any]:
    if kind is IntegerField:
        bounds = {"min": declared.get("minimum"), "max": declared.get("maximum"), "step": 1}
        return {name: bound for name, bound in bounds.items() if bound is not None}
    if issubclass(kind, JsonField):
        return {"rows": 7, "class": "vLargeTextField", "spellcheck": "false"}
    if kind is TextField:
        return {"class": "vTextField", "autocomplete": "off", "spellcheck": "false"}
    return {}


def _help(kind: type[forms.Field], text: str, example: Any) -> str:
    if kind is CheckboxField or example in ("", None, [], {}):
        return format_html("{}", text)
    shown = json.dumps(example) if issubclass(kind, JsonField) else str(example)
    return format_html("{} For example <code>{}</code>.", text, shown)


def _example(declared: Mapping[str, Any]) -> Any:
    """Return the declared example; for an object, the examples of its fields."""
    if declared.get("examples"):
        return declared["examples"][0]
    fields = declared.get("properties", {})
    return {name: one["examples"][0] for name, one in fields.items() if one.get("examples")}


def _described(schema: Mapping[str, Any], declared: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a field, merged with the schema of the model that it references."""
    named = str(declared.get("$ref", "")).rpartition("/")[2]
    return {**schema.get("$defs", {}).get(named, {}), **declared}


@cache
def _schema(declaration: type[SpecModel]) -> dict[str, Any]:
    return declaration.model_json_schema()
