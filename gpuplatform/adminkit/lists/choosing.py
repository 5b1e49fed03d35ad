"""How lists ask for an action on the rows that were chosen, and how forms are saved and deleted.

What is deleted by Django's own forms says the consequence first, in our words, as our actions do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django import forms
from django.contrib import admin
from django.contrib.admin.actions import delete_selected
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from typing_extensions import override

from gpuplatform.adminkit.display.generics import ModelAdmin, ModelForm

REQUIRED: Final = "Is required."
"""What every form says of an empty field."""
ONE_BUTTON: Final = {"show_save_and_add_another": False, "show_save_and_continue": False}


@dataclass(frozen=True, slots=True)
class Deletion:
    """What is said before rows are deleted."""

    consequence: str
    """What stops, what is lost, and what could be done instead."""
    lines: Sequence[tuple[str, str]]
    """Everything that goes, also with its rows: its name, and what is to be known of it."""


def set_required_message(fields: Mapping[str, forms.Field]) -> None:
    """Let a form of Django say of an empty field what ours say."""
    for field in fields.values():
        field.error_messages["required"] = REQUIRED


class PlatformModelAdmin(ModelAdmin):
    """A list whose choice of actions begins with a word, a form that is saved in one way."""

    is_live_with_actions = False
    """Whether the rows of a list with actions are kept fresh while it is open."""

    def deletion(self, rows: Sequence[Any]) -> Deletion:
        """Return what is said before `rows` are deleted."""
        return Deletion("It cannot be undone.", [(str(row), "") for row in rows])

    def deletion_context(self, rows: Sequence[Any]) -> dict[str, Any]:
        """Return what the page is drawn with that asks before `rows` are deleted."""
        noun = self.opts.verbose_name if len(rows) == 1 else self.opts.verbose_name_plural
        found = self.deletion(rows)
        named = found.lines[0][0] if len(rows) == 1 else f"{len(rows)} {noun}"
        return {
            "title": f"Delete: {named}",
            "consequence": found.consequence,
            "lines": found.lines,
            "heading": f"{len(rows)} {noun}",
        }

    @override
    def get_action_choices(
        self, request: HttpRequest, default_choices: Any = (("", "Choose…"),)
    ) -> list[tuple[str, str]]:
        return super().get_action_choices(request, list(default_choices))

    @override
    def get_form(self, request: HttpRequest, *args: Any, **kwargs: Any) -> type[ModelForm]:
        form = super().get_form(request, *args, **kwargs)
        set_required_message(form.base_fields)
        return form

    @override
    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        return super().render_change_form(request, {**context, **ONE_BUTTON}, *args, **kwargs)

    @override
    def render_delete_form(self, request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
        asked = self.deletion_context([context["object"]])
        return super().render_delete_form(request, {**context, "deletion": asked})


@admin.action(permissions=["delete"], description="Delete")
def delete_selected_rows(
    page: ModelAdmin, request: HttpRequest, rows: QuerySet[Any]
) -> HttpResponse | None:
    """Delete the chosen rows, after the consequence was confirmed; every page of ours chooses."""
    answer = delete_selected(page, request, rows)
    if isinstance(answer, TemplateResponse) and isinstance(page, PlatformModelAdmin):
        asked = page.deletion_context(list(rows))
        answer.context_data = {**(answer.context_data or {}), "deletion": asked}
    return answer
