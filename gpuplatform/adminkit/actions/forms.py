"""Forms made from a declaration: fields, help, examples and rules are those of the API.

A form names the fields that it shows; what was entered is read as the API would read it, and each
fault is said next to its field, in the API's words.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Final

from django import forms
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from typing_extensions import override

from gpuplatform.adminkit.display.text import humanize
from gpuplatform.adminkit.lists.choosing import REQUIRED
from gpuplatform.errors import PlatformError
from gpuplatform.formats.model import SpecModel

OPERATION_ID: Final = "operationID"
CPU_HELP: Final = "Request and limit: a Kubernetes quantity, at least 1m."
MEMORY_HELP: Final = "Request and limit: a Kubernetes quantity, at least 1Mi."
Suggestions = Mapping[str, Callable[[], Iterable[str]]]
_WHOLE: Final = re.compile("-?[0-9]{1,18}")


class Text(forms.CharField):
    """A line of text."""

    empty: ClassVar[Any] = ""
    """What an empty box says where it says something; None where it never does."""


class Suggested(forms.TextInput):
    """A line of text with known values to choose from; any other may be entered too."""

    def __init__(self, values: Iterable[str], attrs: Mapping[str, Any]) -> None:
        super().__init__(dict(attrs))
        self._values = tuple(values)

    @override
    def render(
        self, name: str, value: Any, attrs: dict[str, Any] | None = None, renderer: Any = None
    ) -> SafeString:
        number = f"{(attrs or {}).get('id', name)}_known"
        line = super().render(name, value, {**(attrs or {}), "list": number}, renderer)
        known = format_html_join("", '<option value="{}"></option>', zip(self._values))
        return format_html('{}<datalist id="{}">{}</datalist>', line, number, known)


class WholeNumber(forms.CharField):
    """An integer; what is none is left to the declaration to refuse."""

    empty: ClassVar[Any] = None
    widget = forms.NumberInput

    @override
    def to_python(self, value: Any) -> Any:
        text = super().to_python(value) or ""
        return int(text) if _WHOLE.fullmatch(text) else text


class YesOrNo(forms.BooleanField):
    """A box to tick."""

    empty: ClassVar[Any] = None


class JsonText(forms.CharField):
    """A JSON object or list."""

    empty: ClassVar[Mapping[str, Any]] = {}
    widget = forms.Textarea

    @override
    def to_python(self, value: Any) -> Any:
        text = super().to_python(value)
        if not text:
            return ""
        try:
            return json.loads(text, object_pairs_hook=_without_repeats)
        except json.JSONDecodeError as error:
            msg = f"Must be JSON: line {error.lineno}, column {error.colno}: {error.msg}."
            raise forms.ValidationError(msg) from error
        except (ValueError, RecursionError) as error:
            msg = "Must be JSON in which each key is given once, of moderate depth and numbers."
            raise forms.ValidationError(msg) from error

    @override
    def prepare_value(self, value: Any) -> Any:
        return value if isinstance(value, str) else json.dumps(value, indent=2) if value else ""


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        msg = "A key is given twice."
        raise ValueError(msg)
    return found


class DeclaredForm(forms.Form):
    """Asks for fields of a declaration, and checks what was entered by its rules."""

    declaration: ClassVar[type[SpecModel]]
    field_names: ClassVar[Sequence[str]]
    """The API's names of its fields, in their order."""
    labels: ClassVar[Mapping[str, str]] = {}
    help_texts: ClassVar[Mapping[str, str]] = {}
    """What is said of a field to people, where the declaration speaks of programs."""
    fixed_values: ClassVar[Mapping[str, Any]] = {}
    """What the declaration asks for that the form does not."""
    required_names: ClassVar[frozenset[str]] = frozenset()
    """What has to be given here, though the declaration could do without."""
    suggestions: ClassVar[Suggestions] = {}
    """What finds the known values of a field that takes any."""
    defaults: ClassVar[Mapping[str, Any]] = {}
    """What its fields hold before anything is entered."""
    is_change: ClassVar[bool] = False
    """Whether it changes what is there: what is as it was says nothing, what is empty does."""

    use_required_attribute = False

    def __init__(
        self, data: Mapping[str, Any] | None = None, *, initial: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(data, initial={**self.defaults, **(initial or {})})
        for name in self.field_names:
            label, said = self.labels.get(name, ""), self.help_texts.get(name, "")
            field = declared_field(self.declaration, name, label, said)
            if name in self.suggestions:
                field.widget = _suggesting(field.widget, self.suggestions[name]())
            field.widget.is_required |= name in self.required_names
            self.fields[name] = field

    @property
    def entered(self) -> dict[str, Any]:
        """What a valid form asks for, by the API's names."""
        found: dict[str, Any] = {}
        for name in self.field_names:
            value = self.cleaned_data.get(name, "")
            if value == "":
                value = self.fields[name].empty if self.is_change else None  # type: ignore[attr-defined]  # each field here has it
            if value is None or (self.is_change and value == self.initial.get(name)):
                continue
            found[name] = value
        return found

    @override
    def clean(self) -> dict[str, Any]:
        entered = super().clean() or {}
        for name in self.required_names - self.entered.keys() - self.errors.keys():
            self.add_error(name, REQUIRED)
        try:
            self.declaration.parse({OPERATION_ID: "admin", **self.fixed_values, **self.entered})
        except PlatformError as error:
            self.refuse(error)
        return entered

    def refuse(self, error: PlatformError) -> None:
        """Say each fault of a refusal next to its field, but where one has its fault already."""
        told = frozenset(self.errors)
        for fault in error.details:
            name = re.split(r"[.\[]", fault.field, maxsplit=1)[0]
            if name in told:
                continue
            where = fault.field[len(name) :].lstrip(".")
            known = name in self.fields
            said = where if known else fault.field
            text = f"{said}: {fault.message}" if said else fault.message
            self.add_error(name if known else None, text)
        if not error.details:
            self.add_error(None, str(error))

    def as_hidden_inputs(self) -> list[SafeString]:
        """Return what was entered, to be sent once more unseen."""
        return [self[name].as_hidden() for name in self.field_names]


def declared_field(
    declaration: type[SpecModel], name: str, label: str = "", said: str = ""
) -> forms.Field:
    """Return the field of a form for a field of a declaration; `said` replaces what it says."""
    schema = _schema(declaration)
    declared = _described(schema, schema["properties"][name])
    example = _example(declared)
    kinds: dict[str, type[forms.Field]] = {
        "integer": WholeNumber,
        "boolean": YesOrNo,
        "string": Text,
    }
    kind = kinds.get(declared.get("type", ""), JsonText)
    help_text = _help(kind, said or str(declared.get("description", "")), example)
    field = kind(required=False, label=label or humanize(name), help_text=help_text)
    field.widget.is_required = name in schema.get("required", ())
    field.widget.attrs.update(_attributes(kind, declared))
    return field


def _suggesting(widget: forms.Widget, values: Iterable[str]) -> Suggested:
    """Return a field's widget that offers values; a browser that completes nothing offers none."""
    attrs = {name: value for name, value in widget.attrs.items() if name != "autocomplete"}
    suggested = Suggested(values, attrs)
    suggested.is_required = widget.is_required
    return suggested


def _attributes(kind: type[forms.Field], declared: Mapping[str, Any]) -> dict[str, Any]:
    if kind is WholeNumber:
        bounds = {"min": declared.get("minimum"), "max": declared.get("maximum"), "step": 1}
        return {name: bound for name, bound in bounds.items() if bound is not None}
    if kind is JsonText:
        return {"rows": 7, "class": "vLargeTextField", "spellcheck": "false"}
    if kind is Text:
        return {"class": "vTextField", "autocomplete": "off", "spellcheck": "false"}
    return {}


def _help(kind: type[forms.Field], text: str, example: Any) -> str:
    if kind is YesOrNo or example in ("", None, [], {}):
        return format_html("{}", text)
    shown = json.dumps(example) if kind is JsonText else str(example)
    return format_html("{} For example <code>{}</code>.", text, shown)


def _example(declared: Mapping[str, Any]) -> Any:
    """Return the declared example; of an object, one made from those of its fields."""
    if declared.get("examples"):
        return declared["examples"][0]
    fields = declared.get("properties", {})
    return {name: one["examples"][0] for name, one in fields.items() if one.get("examples")}


def _described(schema: Mapping[str, Any], declared: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a field says of itself, over what the object that it names says."""
    named = str(declared.get("$ref", "")).rpartition("/")[2]
    return {**schema.get("$defs", {}).get(named, {}), **declared}


@cache
def _schema(declaration: type[SpecModel]) -> dict[str, Any]:
    return declaration.model_json_schema()
